"""Where secret randomness comes from: a stream of 64-bit words, and permutations made of it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel


class Words(Protocol):
    """A deterministic stream of independent, uniform 64-bit words; each call moves it on."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words, uint64 (count,)."""
        ...

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A uniformly random permutation of ``0 .. n-1``, int64 (n,)."""
        ...


@kernel(inner=True, inline="always")
def scaled(word: np.uint64, bound: np.int64) -> np.int64:
    """floor(word * bound / 2^64): uniform on ``0 .. bound-1`` but for a bias below bound / 2^64 (bound <
    2^31).
    """
    b = np.uint64(bound)
    low = (word & np.uint64(0xFFFFFFFF)) * b
    high = (word >> np.uint64(32)) * b
    return np.int64((high + (low >> np.uint64(32))) >> np.uint64(32))


@kernel
def shuffle_in_place(values: NDArray, words: NDArray) -> None:
    """Fisher and Yates in place; word i decides the place of element i, word 0 is not used."""
    for i in range(values.shape[0] - 1, 0, -1):
        j = scaled(words[i], i + 1)
        kept = values[i]
        values[i] = values[j]
        values[j] = kept


@kernel
def _shuffle_groups(values: NDArray, starts: NDArray, words: NDArray) -> None:
    """Shuffle ``values[starts[g] : starts[g+1]]`` for every g, each with its own words."""
    for g in range(starts.shape[0] - 1):
        shuffle_in_place(values[starts[g] : starts[g + 1]], words[starts[g] : starts[g + 1]])


def shuffled(n: int, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The permutation of ``0 .. n-1`` that n words choose, int64 (n,).

    Uniform words give each of the n! permutations the probability 1/n!, up to a relative error of n^2 / 2^64.
    n < 2^31. O(n).
    """
    values = np.arange(n, dtype=np.int64)
    shuffle_in_place(values, words)
    return values


def shuffled_within(labels: NDArray[np.int32], words: NDArray[np.uint64]) -> NDArray[np.int32]:
    """A permutation that maps every row to a row of the same class, int32 (n,).

    labels: int32 (n,), class of each row, ``>= 0``.  words: uint64 (n,).
    Postcondition: ``labels[result] == labels`` and result is a permutation; within a class of s rows each of
    the s! arrangements is equally likely, independently of the other classes.
    Why: then the payloads of a class tell nothing about which of its rows they came with. O(n log n).
    """
    rows = np.argsort(labels, kind="stable").astype(np.int32)
    sizes = np.bincount(labels)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    dealt = rows.copy()
    _shuffle_groups(dealt, starts, words)
    result = np.empty_like(rows)
    result[rows] = dealt
    return result
