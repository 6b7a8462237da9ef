"""Bit operations that numba lacks, and the kernels' random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from kanonflow.solvers.kernels.kernel import kernel


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Index of the lowest set bit of a non-zero uint64 (count of trailing zeros)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def highest_bit(typing_context: Any, word: Any) -> Any:
    """Index of the highest set bit of a non-zero uint64, its logarithm rounded down."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        from llvmlite import ir

        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.uint64), generate


@kernel(inner=True, forceinline=True, counting=False)
def bits_cost(word: np.uint64, weights: np.ndarray, row: int) -> float:
    """Sum of ``weights[row, bit]`` over a word's set bits; weights: float64 (W, 64).

    The table comes whole: taking a row of it here would touch its reference count in the innermost loop.
    """
    total = 0.0
    while word:
        total += weights[row, lowest_bit(word)]
        word &= word - np.uint64(1)
    return total


@kernel(inner=True, forceinline=True, counting=False)
def next_random(state: np.ndarray, below: int) -> Any:
    """A number in [0, below) from the splitmix64 generator whose state is uint64 (1,); for the search only.

    Never for publishing: 64 bits of state can be guessed.
    """
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.int64((z >> np.uint64(32)) * np.uint64(below) >> np.uint64(32))
