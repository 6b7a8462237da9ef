"""One row for each individual of a table: what the graph search over individuals moves.

The search kernels know points. The rows of one individual mostly share their quasi-identifiers; then the individual is
a point and nothing is lost. Where a numeric attribute varies, the individual becomes two columns, the low and the high
end of its rows, with half of the weight each. For a slot of intervals [l_i, h_i] these cost
``(max l - min l) / 2 + (max h - min h) / 2``, the true hull costs ``max h - min l``. With D the difference of two
intervals' widths at most, the first is the second less a width of one of the members, give or take D: slots are ranked
as their hulls rank them where people's ranges are about equally wide. A hierarchy stays one column, in which an
individual is the lowest node above its rows (``person_leaves.py``): exactly. A categorical attribute counts by the
value that most of the rows have, also in the lattice. Boxes are computed from all rows afterwards, so this bends the
loss only, never the promise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.level_table import Lattice
from kanonflow.solvers.person_leaves import person_leaves
from kanonflow.solvers.table import Table


def person_table(table: Table, of_row: NDArray[np.int64], people: NDArray[np.int64]) -> Table:
    """A table of one row for each of ``people``, each its own individual.

    table: n rows. of_row: int64 (n,), the individual of each row, -1 for rows that wait. people: int64 (p,), the
    individuals wanted, distinct; row i of the result stands for ``people[i]``. O(n d log n).
    """
    place = np.full(int(of_row.max(initial=-1)) + 1, -1, dtype=np.int64)
    place[people] = np.arange(people.size)
    rows = np.flatnonzero((of_row >= 0) & (np.where(of_row >= 0, place[of_row], -1) >= 0))
    who = place[of_row[rows]]
    order = np.argsort(who, kind="stable")
    rows, who = rows[order], who[order]
    starts = np.searchsorted(who, np.arange(people.size))
    dn = table.numeric.shape[1]
    columns: list[NDArray[np.float64]] = []
    weights: list[float] = []
    heights: list[NDArray[np.float64] | None] = []
    for number, (column, weight) in enumerate(zip(table.numeric.T, table.weights[:dn], strict=True)):
        low, high = _ends(column[rows], starts)
        of_leaves = table.heights[number] if table.heights else None
        if of_leaves is not None:
            # The low end of leaves and a null is the null; what is left of the ends then is the high one.
            mixed = np.isnan(low) & ~np.isnan(high)
            low, of_leaves = person_leaves(np.where(mixed, high, low), high, mixed, of_leaves)
            high = low
        heights += [of_leaves] if np.array_equal(low, high, equal_nan=True) else [None, None]
        if np.array_equal(low, high, equal_nan=True):
            columns.append(low)
            weights.append(float(weight))
        else:
            columns += [low, high]
            weights += [float(weight) / 2, float(weight) / 2]
    codes = [
        _most_frequent(column[rows], who, int(size))
        for column, size in zip(table.categorical.T, table.cardinality, strict=True)
    ]
    return Table(
        numeric=np.stack(columns, axis=1) if columns else np.empty((people.size, 0)),
        categorical=np.stack(codes, axis=1) if codes else np.empty((people.size, 0), dtype=np.int32),
        cardinality=table.cardinality,
        weights=np.array([*weights, *table.weights[dn:]]),
        individuals=np.arange(people.size, dtype=np.int64),
        heights=tuple(heights) if table.hierarchical else (),
        lattice=None if table.lattice is None else _person_lattice(table.lattice, rows, who),
    )


def _person_lattice(lattice: Lattice, rows: NDArray[np.int64], who: NDArray[np.int64]) -> Lattice:
    """The leaf that most rows of each individual have. who: int64 (rows,), sorted, codes from 0."""
    leaves = [
        _most_frequent(column[rows], who, table.domain)
        for column, table in zip(lattice.values.T, lattice.tables, strict=True)
    ]
    return replace(lattice, values=np.stack(leaves, axis=1), individuals=None)


def _ends(values: NDArray[np.float64], starts: NDArray[np.int64]) -> tuple[NDArray, NDArray]:
    """Least and greatest value of each group; with a null among its rows the low end is null, of nulls alone both."""
    null = np.isnan(values)
    low = np.minimum.reduceat(np.where(null, np.inf, values), starts)
    high = np.maximum.reduceat(np.where(null, -np.inf, values), starts)
    mixed = np.logical_or.reduceat(null, starts)
    return np.where(mixed, np.nan, low), np.where(np.isfinite(high), high, np.nan)


def _most_frequent(codes: NDArray[np.int32], who: NDArray[np.int64], size: int) -> NDArray[np.int32]:
    """The most frequent code of each group, the smallest of several; int32 (groups,)."""
    keys, counts = np.unique(who * max(size, 1) + codes, return_counts=True)
    owner = keys // max(size, 1)
    best = np.lexsort([keys, -counts, owner])
    first = np.concatenate([[True], owner[best][1:] != owner[best][:-1]])
    return (keys[best][first] % max(size, 1)).astype(np.int32)
