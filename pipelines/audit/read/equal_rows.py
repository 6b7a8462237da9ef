"""Rows of integers that are equal, and runs of entries laid one after the other."""

from __future__ import annotations

import numpy as np

_MOST = 2**62


def group_rows(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group equal rows of an integer matrix.

    Args:
        keys: integers (n, c), of at most 64 bits and signed.

    Returns:
        ``first`` int64 (g,): a row of each group; ``group_of`` int32 (n,); ``size`` int64 (g,). Groups are in
        lexicographic order of their keys. Columns that fit into 62 bits together are sorted as one number: O(n log n)
        for each such number.
    """
    count = len(keys)
    if count == 0:
        empty = np.zeros(0, np.int64)
        return empty, np.zeros(0, np.int32), empty
    group, groups = np.zeros(count, np.int64), 1
    for column in keys.T:
        least, width = int(column.min()), int(column.max()) - int(column.min()) + 1
        if width > count and width * groups > _MOST:
            values, column = np.unique(column, return_inverse=True)
            least, width = 0, len(values)
        if width * groups > _MOST:
            values, group = np.unique(group, return_inverse=True)
            groups = len(values)
        group = group * width + (column.astype(np.int64) - least)
        groups *= width
    _, first, group, size = np.unique(group, return_index=True, return_inverse=True, return_counts=True)
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
