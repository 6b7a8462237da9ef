"""Graphs from classes: in a class of s >= k rows every slot takes k cyclically consecutive rows.

Rows of one individual must stand at least k apart. Sort the individuals by multiplicity, largest first, and deal the
e-th row to block ``e mod B`` of B = floor(s / k) consecutive blocks: a row's position in its block is floor(e / B).
Two rows of one individual with m <= B rows lie in different blocks at equal positions, hence one whole block
(>= k rows) apart; or the deal wraps between them, which for m = B it never does (the sort aligns them) and for
m < B leaves a whole block between them. Over the whole table this is the graph that exists whenever any does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.units.distinct_rows import Units


@kernel
def _deal(
    rows: np.ndarray, starts: np.ndarray, individual: np.ndarray, distinct: bool, k: int, members: np.ndarray
) -> int:
    """Fill members (rows, k); returns the number of classes in which an individual has too many rows."""
    held = np.zeros(individual.size, dtype=np.int64)
    failures = 0
    for number in range(starts.size - 1):
        begin, end = starts[number], starts[number + 1]
        size = end - begin
        dealt = rows[begin:end].copy()
        if distinct:
            for unit in dealt:
                held[individual[unit]] += 1
            blocks = size // k
            # Whole numbers below 2**53 as floats: the sort of floats is compiled for the k-d tree anyway.
            keys = np.empty(size, dtype=np.float64)
            for index in range(size):
                who = individual[dealt[index]]
                keys[index] = -held[who] * individual.size + who
                if held[who] > blocks:
                    failures += 1
            for unit in dealt:
                held[individual[unit]] = 0
            order = np.argsort(keys, kind="mergesort")
            target = 0
            for block in range(max(blocks, 1)):
                for e in range(block, size, max(blocks, 1)):
                    dealt[target] = rows[begin + order[e]]
                    target += 1
        for index in range(size):
            for step in range(k):
                members[begin + index, step] = dealt[(index + step) % size]
    return failures


def circulant_members(
    units: Units, rows: NDArray[np.int32], starts: NDArray[np.int64], k: int, *, distinct: bool
) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k).

    rows: int32 (n,), the unit of each row, class after class. starts: int64 (classes + 1,), where classes begin.
    distinct: whether slots need distinct individuals. Raises InfeasibleError when a class has fewer than k rows or
    an individual has more than a k-th of one. O(n k + n log n).
    """
    sizes = np.diff(starts)
    if sizes.size and sizes.min() < k:
        raise InfeasibleError(f"a class has fewer than k={k} rows")
    members = np.empty((rows.size, k), dtype=np.int32)
    if _deal(rows, starts, units.individual, distinct, k, members):
        raise InfeasibleError(f"an individual has more than 1/{k} of the rows of a class")
    return members


def constructive_members(units: Units, k: int, *, distinct: bool) -> NDArray[np.int32]:
    """The graph of one class that holds every row: valid whenever a graph exists at all."""
    rows = np.repeat(np.arange(units.weight.size, dtype=np.int32), units.weight)
    return circulant_members(units, rows, np.array([0, rows.size], dtype=np.int64), k, distinct=distinct)
