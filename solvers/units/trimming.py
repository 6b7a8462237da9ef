"""Which rows wait because an individual has too many of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def row_limit(counts: NDArray[np.int64], k: int) -> int:
    """The largest m with ``sum_u min(m_u, m) >= k m``: each individual may keep min(m_u, m) rows in a graph.

    counts: rows m_u of each individual. A k-regular graph with distinct individuals in each slot exists iff no
    individual has more than a k-th of the rows, and exactly the m with that inequality leave it so. Returns 0 when
    there are fewer than k individuals. O(u log u).
    """
    if counts.size < k:
        return 0
    ordered = np.sort(counts)[::-1]
    # With limit m the c individuals above it count m each and the rest in full: k m <= c m + rest(c). That holds for
    # every c < k if it holds for the right one, so the smallest bound on m decides.
    rest = counts.sum() - np.concatenate([[0], np.cumsum(ordered[: k - 1])])
    return int((rest // np.arange(k, 0, -1)).min())


def kept_rows(
    individuals: NDArray[np.int64], limits: NDArray[np.int64], priority: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Mask of the rows that stay: of each individual the first ``limits[individual]`` by (priority, row order).

    individuals: int64 (n,), codes into limits. priority: int64 (n,), smaller stays first (the row's window).
    O(n log n).
    """
    order = np.lexsort([priority, individuals])
    who = individuals[order]
    first = np.concatenate([[True], who[1:] != who[:-1]]) if who.size else np.zeros(0, dtype=bool)
    begins = np.maximum.accumulate(np.where(first, np.arange(who.size), 0))
    kept = np.zeros(who.size, dtype=np.bool_)
    kept[order] = np.arange(who.size) - begins < limits[who]
    return kept
