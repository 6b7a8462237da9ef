"""Ring: each slot takes k consecutive rows of a cyclic order (Wong et al. 2010, Xue et al. 2012): the fixed form.

Which rows share a slot follows from the order alone, so everything hangs on it. Here it is the tour of a k-d tree,
along which neighbours are near.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import KdTree


@kernel(inner=True, forceinline=True)
def _is_free(individual: np.ndarray, ring: np.ndarray, place: int, row: int, k: int) -> bool:
    """Whether none of the k - 1 rows on either side of a place belongs to the row's individual."""
    n = ring.size
    free = True
    for step in range(1, k):
        for other in (ring[(place + step) % n], ring[(place - step) % n]):
            if other >= 0 and other != row and individual[other] == individual[row]:
                free = False
    return free


@kernel
def _part(individual: np.ndarray, ring: np.ndarray, k: int) -> bool:
    """Exchange rows that stand too near to another one of their individual with the nearest that may change places."""
    n = ring.size
    settled = True
    for place in range(n):
        row = ring[place]
        if _is_free(individual, ring, place, row, k):
            continue
        done = False
        for distance in range(1, n):
            if done:
                continue
            at = (place + distance) % n
            other = ring[at]
            ring[place], ring[at] = other, row
            done = _is_free(individual, ring, place, other, k) and _is_free(individual, ring, at, row, k)
            if not done:
                ring[place], ring[at] = row, other
        settled = settled and done
    return settled


def ring_members(units: Units, tree: KdTree, k: int, *, distinct: bool) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k): slot j holds the rows j .. j + k - 1 of the k-d tour, cyclically. O(n k).

    distinct: rows of one individual must stand at least k apart; those that do not change places with the next row of
    the tour for which that is right. Raises InfeasibleError when one finds no such row.
    """
    rows = np.repeat(tree.order, units.weight[tree.order]).astype(np.int32)
    if distinct:
        ring = np.arange(rows.size)
        if not _part(units.individual[rows], ring, k):
            raise InfeasibleError(f"ring finds no order in which rows of one individual are {k} apart")
        rows = rows[ring]
    return rows[(np.arange(rows.size)[:, None] + np.arange(k)) % rows.size]
