"""Rows of integers that are equal, and runs of entries laid one after the other."""

from __future__ import annotations

import numpy as np


def group_rows(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group equal rows of an integer matrix.

    Args:
        keys: integers (n, c).

    Returns:
        ``first`` int64 (g,): a row of each group; ``group_of`` int32 (n,); ``size`` int64 (g,). Groups are in
        lexicographic order of their keys. O(n log n) for each column.
    """
    count = len(keys)
    if count == 0:
        empty = np.zeros(0, np.int64)
        return empty, np.zeros(0, np.int32), empty
    group = np.zeros(count, np.int64)
    for column in range(keys.shape[1]):
        values, code = np.unique(keys[:, column], return_inverse=True)
        _, group = np.unique(group * len(values) + code, return_inverse=True)
    _, first, size = np.unique(group, return_index=True, return_counts=True)
    return first, group.astype(np.int32), size.astype(np.int64)


def runs(start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All slices start:stop one after the other: which slice each entry is of, and the entry. int64 (e,) each."""
    length = stop - start
    owner = np.repeat(np.arange(len(length)), length)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length) + start[owner]


def extreme(of: np.ufunc, place: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The least (np.minimum) or greatest (np.maximum) value of each place, int64 (count,); where there is none, the
    greatest or least of all numbers."""
    info = np.iinfo(np.int64)
    found = np.full(count, info.max if of is np.minimum else info.min)
    of.at(found, place, values)
    return found
