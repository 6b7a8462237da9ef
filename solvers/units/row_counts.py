"""Row counts: how many rows each member of a closed class keeps, so that every count is shared by k individuals.

Individuals sorted by row count are cut into runs of at least k, and everybody in a run keeps as many rows as the run's
last has. Dynamic programming finds the cut that keeps most rows.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel


@kernel
def rows_kept(counts: np.ndarray, size: int, k: int, best: np.ndarray) -> int:
    """Most rows that row counts can keep: runs of at least k of the counts, which are sorted largest first.

    ``best[i]`` = max over runs j..i-1 with i - j >= k of ``best[j] + (i - j) counts[i - 1]``; best: scratch int64.
    0 when size < k. O(size k): a run of 2k or more keeps no less when it is cut in two.
    """
    best[0] = 0
    for i in range(1, size + 1):
        value = -1
        for j in range(max(0, i - 2 * k + 1), i - k + 1):
            if best[j] >= 0:
                kept = best[j] + (i - j) * counts[i - 1]
                if kept > value:
                    value = kept
        best[i] = value
    return max(best[size], 0)


@kernel
def _shared(rows: np.ndarray, members: np.ndarray, k: int, row_counts: np.ndarray) -> None:
    """Rows that each member keeps; members sorted by row count, largest first. 0 for all when fewer than k."""
    size = members.size
    best = np.empty(size + 2, dtype=np.int64)
    counts = rows[members]
    if size < k:
        return
    rows_kept(counts, size, k, best)
    end = size
    while end > 0:
        begin = end - k
        while best[begin] < 0 or best[begin] + (end - begin) * counts[end - 1] != best[end]:
            begin -= 1
        for index in range(begin, end):
            row_counts[members[index]] = counts[end - 1]
        end = begin


def shared_row_counts(rows: NDArray[np.int64], labels: NDArray[np.int32], k: int) -> NDArray[np.int64]:
    """How many rows each individual keeps in its class, int64 (u,); 0 in the pool and in classes below k."""
    if (rows == 1).all():
        sizes = np.bincount(labels[labels >= 0], minlength=1)
        return np.where(labels >= 0, sizes[labels] >= k, 0)
    row_counts = np.zeros(rows.size, dtype=np.int64)
    order = np.lexsort((-rows, labels))
    cuts = np.searchsorted(labels[order], np.arange(labels.max(initial=-1) + 2))
    for begin, end in pairwise(cuts):
        if end > begin:
            _shared(rows, order[begin:end], k, row_counts)
    return row_counts
