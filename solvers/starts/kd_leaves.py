"""The cheap start: the leaves of a k-d tree cut as finely as k allows, each a circulant. O(n log^2 n)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.starts.circulant import circulant_members
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import build_tree, leaf_ranges


def kd_leaf_members(units: Units, k: int, *, distinct: bool) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k), in tree order, so that neighbouring slots hold neighbouring records."""
    tree = build_tree(units.features, units.weight, units.individual, k=k, distinct=distinct, leaf=1)
    ordered = tree.order
    rows = np.repeat(ordered, units.weight[ordered]).astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(units.weight[ordered], dtype=np.int64)])
    leaves = leaf_ranges(tree)
    starts = np.concatenate([ends[leaves[:, 0]], ends[-1:]])
    return circulant_members(units, rows, starts, k, distinct=distinct)
