"""From canonical rows to the table of numbers a solver sees, under domains that only grow.

A field's loss is normalized by its domain: the one the policy declares, or the running one, which is the union of all
values that this partition has shown so far. Running domains live in the warm state and are reported in the metrics.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.problem.table import Table
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.kinds.domains import Domain, Domains
from kanonflow.transforms.kinds.field_boxes import TableColumns
from kanonflow.transforms.kinds.kinds import kind_of


class Encoded(NamedTuple):
    """table for the solver, and the domains that scaled it."""

    table: Table
    domains: dict[str, Domain]


def encode(
    rows: pa.Table, bound: BoundPolicy, individuals: NDArray[np.int64] | None, domains: Domains
) -> Encoded:
    """The solver's table of canonical rows.

    individuals: int64 (n,), whom each row belongs to; None: each is its own. domains: of the last release of this
    partition, {} at first. O(n d), and a digest for each distinct value of a categorical field.
    """
    columns, updated = TableColumns(), {}
    for column in bound.quasis:
        array = whole(rows.column(column.name))
        updated[column.name] = kind_of(column).encode(column, array, domains.get(column.name), columns)
    n, heights = rows.num_rows, columns.heights
    table = Table(
        numeric=np.stack(columns.numeric, axis=1) if columns.numeric else np.empty((n, 0)),
        categorical=np.stack(columns.categorical, axis=1)
        if columns.categorical
        else np.empty((n, 0), dtype=np.int32),
        cardinality=np.array(columns.cardinality, dtype=np.int64),
        weights=np.array([*columns.numeric_weights, *columns.set_weights], dtype=np.float64),
        individuals=individuals,
        heights=tuple(heights) if any(each is not None for each in heights) else (),
    )
    return Encoded(table, updated)


def extents(domains: Domains, bound: BoundPolicy) -> dict[str, float]:
    """U - L, by the field's scale, or |A| of each quasi-identifier, as ``boxes.field_ncp`` wants them."""
    return {column.name: domains[column.name].extent(column.scale) for column in bound.quasis}


def describe(domains: Domains, bound: BoundPolicy) -> dict[str, str]:
    """Each domain for the metrics: its ends or its size, whether declared or running, and the scale of widths."""
    return {column.name: domains[column.name].described + column.scale.words for column in bound.quasis}
