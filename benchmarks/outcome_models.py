"""Models of an outcome by attributes: their design, a logistic regression, and what it is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.pipelines.analysis.released_table import ReleasedTable

Float64s = NDArray[np.float64]


def middle(found: ReleasedTable) -> pa.Table:
    """A value a cell, as somebody reads a release who does not care."""
    flat, nested = found.flat("mid"), found.arrow()
    columns = {}
    for name in nested.column_names:
        column = nested.column(name)
        columns[name] = pc.list_element(column, 0) if pa.types.is_list(column.type) else flat.column(name)
    return pa.table(columns)


def floats(table: pa.Table, name: str) -> Float64s:
    """A column of numbers, or of days and instants as days."""
    column = table.column(name)
    if pa.types.is_temporal(column.type):
        return np.asarray(column.cast(pa.timestamp("ms")).cast(pa.int64()).cast(pa.float64())) / 86_400_000
    return np.asarray(column.cast(pa.float64()))


class Features:
    """The design of models. numbers: name -> (what it is less, in what unit), each also squared. levels: of each of
    ``categories`` but the first, of the raw rows."""

    def __init__(
        self, raw: pa.Table, numbers: Mapping[str, tuple[float, float]], categories: Sequence[str]
    ) -> None:
        self.numbers = numbers
        self.levels = {
            name: sorted(raw.column(name).unique().to_pylist(), key=lambda value: (value is None, value))[1:]
            for name in categories
        }

    def of(self, table: pa.Table, sets: pa.Table | None = None) -> Float64s:
        """float64 (n, p). sets: categories as lists, of which each member has a share."""
        columns = [np.ones(table.num_rows)]
        for name, (centre, unit) in self.numbers.items():
            number = (floats(table, name) - centre) / unit
            columns += [number, number**2]
        for name, levels in self.levels.items():
            if sets is None:
                codes = np.asarray(pc.fill_null(pc.index_in(table.column(name), pa.array(levels)), -1))
                columns += [codes == code for code in range(len(levels))]
                continue
            lists = sets.column(name).combine_chunks()
            counts = np.asarray(pc.list_value_length(lists))
            of = np.repeat(np.arange(table.num_rows), counts)
            codes = np.asarray(pc.fill_null(pc.index_in(lists.flatten(), pa.array(levels)), -1))
            for code in range(len(levels)):
                columns.append(np.bincount(of[codes == code], minlength=table.num_rows) / counts)
        return np.column_stack(columns).astype(np.float64)


def logistic(x: Float64s, y: Float64s) -> Float64s:
    """Newton's method with a ridge of 1."""
    best = np.zeros(x.shape[1])
    for _ in range(12):
        chance = 1 / (1 + np.exp(-x @ best))
        hessian = (x * (chance * (1 - chance))[:, None]).T @ x + np.eye(best.size)
        step = np.linalg.solve(hessian, x.T @ (y - chance) - best)
        best = best + step
        if np.abs(step).max() < 1e-5:
            break
    return best


def auc(score: Float64s, y: Float64s) -> float:
    """How often one above 50K has the higher score than one below; ties count half."""
    low, high = np.sort(score[y == 0]), score[y == 1]
    ranks = np.searchsorted(low, high, "left") + np.searchsorted(low, high, "right")
    return float(ranks.sum() / 2 / low.size / high.size)
