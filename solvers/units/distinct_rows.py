"""Identical rows of one individual are one *unit*: the search moves units, rows are dealt at the end.

A unit of w rows has ``k w`` places in slots. Without individuals equal rows of anybody form a unit, and a slot
may name it up to w times; with individuals the unit belongs to one of them and a slot names it at most once.
Any such assignment of units expands to a simple k-regular graph over rows: order the unit's places by slot and
deal them round its w rows; places of one slot are consecutive and at most w, so no row meets a slot twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.features import Features, build_features

# Fields of features, of any loss, that hold a line for each unit.
OF_EACH_UNIT = frozenset({"numeric", "words", "wide", "codes"})


class Units(NamedTuple):
    """u distinct rows of a table of n rows.

    features: of each unit. weight: int32 (u,), rows of the unit. limit: int32 (u,), how often one slot may
    name it. individual: int64 (u,), codes from 0; the unit's own number without individuals.
    of_row: int32 (n,). rows: int32 (n,), rows grouped by unit; first: int64 (u + 1,), where each group starts.
    """

    features: Features
    weight: NDArray[np.int32]
    limit: NDArray[np.int32]
    individual: NDArray[np.int64]
    of_row: NDArray[np.int32]
    rows: NDArray[np.int32]
    first: NDArray[np.int64]


def _row_groups(table: Table) -> NDArray[np.int64]:
    """Group number of each row, equal for equal (individual, quasi-identifiers); by column-wise ranking."""
    groups = np.zeros(table.records, dtype=np.int64)
    columns = [np.where(np.isnan(column), np.inf, column) for column in table.numeric.T]
    columns += list(table.categorical.T)
    if table.individuals is not None:
        columns.append(table.individuals)
    for column in columns:
        _, codes = np.unique(column, return_inverse=True)
        _, groups = np.unique(groups * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
    return groups


def group_rows(table: Table) -> Units:
    """Units of a table, in the order of their first row. O(n d log n)."""
    groups = _row_groups(table)
    _, first_row, inverse = np.unique(groups, return_index=True, return_inverse=True)
    order = np.argsort(first_row, kind="stable")
    rank = np.empty(order.size, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    of_row = rank[inverse]
    weight = np.bincount(of_row, minlength=order.size).astype(np.int32)
    first = np.zeros(order.size + 1, dtype=np.int64)
    np.cumsum(weight, out=first[1:])
    rows = np.argsort(of_row, kind="stable").astype(np.int32)
    representatives = first_row[order].astype(np.int64)
    if table.individuals is None:
        individual = np.arange(order.size, dtype=np.int64)
        limit = weight.copy()
    else:
        _, codes = np.unique(table.individuals, return_inverse=True)
        individual = codes[representatives].astype(np.int64)
        limit = np.ones(order.size, dtype=np.int32)
    return Units(build_features(table, representatives), weight, limit, individual, of_row, rows, first)


def features_of(units: Units, which: NDArray[np.integer[Any]]) -> Any:
    """The features of some units, in that order, also with repetitions. which: int (m,), units."""
    return units.features._replace(
        **{name: values[which] for name, values in units.features._asdict().items() if name in OF_EACH_UNIT}
    )


def renumbered(units: Units, order: NDArray[np.int64]) -> Units:
    """The same units in another order; order: int64 (u,), old numbers in the new order. O(n + u d).

    Individuals keep their codes. Features may be those of any loss: arrays of one line a unit are put in order.
    """
    u = order.size
    rank = np.empty(u, dtype=np.int32)
    rank[order] = np.arange(u, dtype=np.int32)
    of_row = rank[units.of_row]
    first = np.zeros(u + 1, dtype=np.int64)
    np.cumsum(units.weight[order], out=first[1:])
    return Units(
        features=features_of(units, order),
        weight=units.weight[order],
        limit=units.limit[order],
        individual=units.individual[order],
        of_row=of_row,
        rows=np.argsort(of_row, kind="stable").astype(np.int32),
        first=first,
    )
