"""Canonical rows under the hierarchies of their fields, as lattice solvers see them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.hierarchy import Hierarchy
from kanonflow.schemas.policy import LATTICE_METHODS
from kanonflow.schemas.text_values import render_text
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelTable
from kanonflow.solvers.problem.table import Table
from kanonflow.transforms.columns.sort_keys import whole


def with_lattice(table: Table, rows: pa.Table, bound: BoundPolicy) -> Table:
    """The solver's table of canonical rows with their hierarchies, where the policy's start needs them."""
    if bound.policy.solver.start not in LATTICE_METHODS:
        return table
    return replace(table, lattice=lattice_of_rows(rows, bound))


def lattice_of_rows(
    rows: pa.Table, bound: BoundPolicy, individuals: NDArray[np.int64] | None = None
) -> Lattice:
    """Canonical rows under their fields' hierarchies. A null is a leaf of its own that only the root joins. O(n d)."""
    tables, values, weights = [], [], []
    for column in bound.quasis:
        assert column.tree is not None  # check_solver has seen to it
        texts = render_text(whole(rows.column(column.name)))
        tree = column.tree.over(texts)
        leaf = tree.leaf_codes(texts)
        tables.append(_with_null(tree))
        values.append(np.where(leaf < 0, len(tree.leaves), leaf))
        weights.append(column.field.quasi.weight if column.field.quasi else 1.0)
    return Lattice(tuple(tables), np.stack(values, axis=1).astype(np.int32), np.array(weights), individuals)


def _with_null(hierarchy: Hierarchy) -> LevelTable:
    null = np.array([len(labels) for labels in hierarchy.labels], dtype=np.int32)
    null[-1] = 0
    return LevelTable(np.concatenate([hierarchy.codes, null[:, None]], axis=1))
