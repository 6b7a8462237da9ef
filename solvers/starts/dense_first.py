"""Classes of l-greedy's kind, opened where records are dense first, and along the tour among equally dense ones.

l-greedy opens its classes in the order of the sorted attributes, and what it passes over on the way is left to the
last classes, which are wide. Along a k-d tour the free records stay together; and a record in a sparse region loses
little by waiting, because it has no near ones to lose.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.starts.l_greedy import completed_classes
from kanonflow.solvers.starts.l_greedy_tree import greedy_classes
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import KdTree

# Adult, 30,162 rows, k=5, loss after 700 evaluations a row: sorted .01545, the farthest first .01535, the tour .01523,
# the densest first .01525, quarters of density and the tour within each .01515; in the same order at k=10.
DENSITIES = 4


def opening_order(units: Units, tree: KdTree, reach: NDArray[np.float64]) -> NDArray[np.int32]:
    """Units in the order in which they open classes, int32 (u,). reach: float64 (u,), to the last near neighbour."""
    place = np.empty(tree.order.size, dtype=np.int64)
    place[tree.order] = np.arange(tree.order.size)
    known = np.where(np.isfinite(reach), reach, np.inf)
    cuts = np.sort(known)[known.size * np.arange(1, DENSITIES) // DENSITIES]
    return np.lexsort([place, np.searchsorted(cuts, known)]).astype(np.int32)


def dense_first_members(
    units: Units, tree: KdTree, reach: NDArray[np.float64], k: int, *, distinct: bool
) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k). Raises InfeasibleError when no class may take a row that is left over."""
    filled, left = greedy_classes(units, tree, opening_order(units, tree, reach), k)
    return completed_classes(units, filled, left, k, distinct=distinct)
