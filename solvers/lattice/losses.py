"""What a node of a lattice loses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.lattice_node import LatticeNode
from kanonflow.solvers.loss.class_measures import level_of_generalization
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelTable


def log_of(levels: NDArray[np.int32], lattice: Lattice) -> NDArray[np.float64]:
    """LOG of nodes of a lattice, float64 (m,). levels: int32 (m, d)."""
    return level_of_generalization(levels, lattice.top)


def level_ncp(table: LevelTable) -> NDArray[np.float64]:
    """NCP of each leaf at each level, float64 (height + 1, |D|): leaves below its node / |D|, 0 for one (S4, eq. 2)."""
    shares = [
        np.where(leaves > 1, leaves / table.domain, 0.0)[codes]
        for leaves, codes in zip(table.leaves, table.codes, strict=True)
    ]
    return np.stack(shares)


def additive_gcp(lattice: Lattice) -> list[NDArray[np.float64]]:
    """Weighted mean NCP of each level of each attribute over all records, float64 (height + 1,) an attribute.

    The sum over the attributes of a node is its GCP without suppression, and at most its GCP with it.
    """
    weights = lattice.normalized_weights
    rows = max(lattice.records, 1)
    return [
        weight * (level_ncp(table) @ np.bincount(lattice.values[:, j], minlength=table.domain)) / rows
        for j, (table, weight) in enumerate(zip(lattice.tables, weights, strict=True))
    ]


def node_gcp(lattice: Lattice, node: LatticeNode) -> float:
    """GCP of a node in [0, 1]; a suppressed record counts 1. O(n d)."""
    kept = ~node.suppressed
    n, released = lattice.records, int(kept.sum())
    if not released:
        return 1.0 if n else 0.0
    ncp = [
        float(level_ncp(table)[level][lattice.values[kept, j]].mean())
        for j, (table, level) in enumerate(zip(lattice.tables, node.levels, strict=True))
    ]
    within = float(lattice.normalized_weights @ np.array(ncp))
    return (released * within + (n - released)) / n
