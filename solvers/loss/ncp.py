"""NCP and GCP of structures, straight from their definition (S0, eq. 1-4; S2, eq. 1-3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.structure import Structure
from kanonflow.solvers.units.features import normalized_weights
from kanonflow.solvers.units.leaf_orders import greatest_heights, leaf_numbers


def attribute_ncp(table: Table, structure: Structure) -> NDArray[np.float64]:
    """Mean NCP of each attribute over the released rows, float64 (d,), numeric attributes first.

    Numeric: (max - min) on [0, 1]; 1 when the box mixes nulls and numbers, 0 when it holds nulls only. Hierarchy: the
    greatest height between its first and its last leaf, nulls as with numbers (S4, eq. 2). Categorical:
    (distinct values - 1) / (|A| - 1), 0 if |A| = 1. Rows that wait are left out. O(n k d log n).
    """
    groups = structure.groups
    if groups.records.size == 0:
        return np.zeros(table.attributes)
    losses = _losses(table, groups.records, groups.starts[:-1])
    return np.array([np.average(loss, weights=groups.rows) for loss in losses])


def _losses(table: Table, records: NDArray[np.int64], starts: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """NCP of each group, an array an attribute, numeric ones first. starts: int64 (b,), of b groups."""
    losses = []
    for number, column in enumerate(table.numeric.T):
        values = column[records]
        null = np.isnan(values)
        low = np.minimum.reduceat(np.where(null, np.inf, values), starts)
        high = np.maximum.reduceat(np.where(null, -np.inf, values), starts)
        nulls = np.logical_or.reduceat(null, starts)
        numbers = np.isfinite(low)
        low, high = np.where(numbers, low, 0), np.where(numbers, high, 0)
        heights = table.heights[number] if table.heights else None
        width = high - low
        if heights is not None:
            width = greatest_heights(heights, leaf_numbers(low, heights), leaf_numbers(high, heights))
        losses.append(np.where(nulls & numbers, 1.0, width))
    group = np.repeat(np.arange(starts.size), np.diff(np.append(starts, records.size)))
    for column, size in zip(table.categorical.T, table.cardinality, strict=True):
        # Groups follow each other, so sorting leaves each within its own stretch.
        held = np.sort(group * max(int(size), 1) + column[records])
        fresh = np.append(True, held[1:] != held[:-1])[: held.size]
        distinct = np.bincount(group[fresh], minlength=starts.size)
        losses.append((distinct - 1) / max(int(size) - 1, 1))
    return losses


def gcp(table: Table, structure: Structure) -> float:
    """Global certainty penalty in [0, 1]: weighted mean of the attributes' NCP over the released rows."""
    return float(attribute_ncp(table, structure) @ normalized_weights(table))
