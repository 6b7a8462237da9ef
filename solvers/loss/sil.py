"""SIL: how far records lie from the average of the box they may be published in (S0, eq. 5-7)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.structure import Structure


def _numeric_distance(
    table: Table, edges: NDArray[np.int64], group: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Per edge: the root of the summed squares of (value - group mean) / sigma over numeric attributes."""
    square = np.zeros(edges.size)
    for column in table.numeric.T:
        known = ~np.isnan(column)
        sigma = column[known].std() if known.any() else 0.0
        if sigma == 0.0:
            continue
        values = column[edges]
        present = ~np.isnan(values)
        counts = np.bincount(group, weights=present)
        sums = np.bincount(group, weights=np.where(present, values, 0.0))
        mean = (sums / np.maximum(counts, 1))[group]
        # A null beside numbers is as far from them as the whole domain is wide.
        gap = np.where(present, values - mean, np.where(counts[group] > 0, 1.0, 0.0))
        square += (gap / sigma) ** 2
    return np.sqrt(square)


def _categorical_distance(
    table: Table, edges: NDArray[np.int64], group: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Per edge: the number of categorical attributes that differ from the group's mode (ties: the smallest code)."""
    misses = np.zeros(edges.size)
    for column, size in zip(table.categorical.T, table.cardinality, strict=True):
        keys, counts = np.unique(group * int(size) + column[edges], return_counts=True)
        owner = keys // int(size)
        best = np.lexsort([keys, -counts, owner])
        first = np.concatenate([[True], owner[best][1:] != owner[best][:-1]])
        mode = np.zeros(int(group.max()) + 1, dtype=np.int64)
        mode[owner[best][first]] = keys[best][first] % int(size)
        misses += column[edges] != mode[group]
    return misses


def group_distances(table: Table, edges: NDArray[np.int64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Distance of each edge's record to the average of its group, times d: float64 (edges,). O(edges d log n).

    edges, group: int64 (edges,), the record and the group (a slot, a class) of each. table: without hierarchies.
    """
    if edges.size == 0:
        return np.zeros(0)
    return _numeric_distance(table, edges, group) + _categorical_distance(table, edges, group)


def sil(table: Table, structure: Structure) -> float:
    """Mean over all edges (record, slot) of (numeric + categorical distance) / d; waiting rows are left out.

    S0 takes "the" record of a slot, which depends on slot labels; the mean over edges is the expectation over the
    published matching. sigma is each attribute's standard deviation over the table, 1 for categorical attributes;
    eq. 6 prints "==" where a mismatch is meant. A hierarchy counts as a categorical attribute of its leaves.
    O(n k d log n).
    """
    table = table.by_leaves()
    edges, group = structure.groups.edges()
    if edges.size == 0:
        return 0.0
    return float(group_distances(table, edges, group).mean() / table.attributes)
