"""Codes of any kind as numbers from 0 without a gap: counted where the codes are small, sorted where they are not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Codes up to so many times their number are counted.
_SPREAD = 4
_FEW = 64


class Numbering(NamedTuple):
    """m different codes among n.

    first: int64 (m,), where each stands first. number: int64 (n,), the rank of each entry's code among the different
    ones. counts: int64 (m,), how often each is there.
    """

    first: NDArray[np.int64]
    number: NDArray[np.int64]
    counts: NDArray[np.int64]


def numbered(codes: NDArray[np.integer[Any]]) -> Numbering:
    """What ``np.unique`` tells of codes, any integers (n,), but for the codes themselves. O(n), or O(n log n)."""
    n = codes.size
    if n == 0 or int(codes.min()) < 0 or int(codes.max()) > _SPREAD * n + _FEW:
        return Numbering(*np.unique(codes, return_index=True, return_inverse=True, return_counts=True)[1:])
    counts = np.bincount(codes)
    # Of places that are written more than once the last one stays.
    first = np.empty(counts.size, dtype=np.int64)
    first[codes[::-1]] = np.arange(n - 1, -1, -1)
    there = counts > 0
    if there.all():
        return Numbering(first, codes.astype(np.int64), counts)
    return Numbering(first[there], (np.cumsum(there) - 1)[codes], counts[there])
