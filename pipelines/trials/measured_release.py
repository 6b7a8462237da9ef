"""A sample of releases measured: its loss, what leaves the feed, the widths of its boxes, errors of queries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.analysis.coverage import RangeColumn
from kanonflow.pipelines.analysis.query_error import query_errors
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.trials.measures import FieldWidth, Measures
from kanonflow.pipelines.trials.trials import SampleRelease
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy

Float64s = NDArray[np.float64]
_QUERIES = 100
_SEED = 1


def measured(sample: SampleRelease, bound: BoundPolicy, *, queries: int = _QUERIES) -> Measures:
    """Measure what was released. queries: to be asked of it and of the rows due. O(queries x rows due)."""
    metrics, weights = sample.metrics, sample.weights
    table = ReleasedTable.of(sample.released, bound)
    names = {column.published_name: column.name for column in bound.columns}
    rows = np.array([record["rows_released"] for record in metrics], dtype=np.int64)
    by_rows = np.array(weights) * rows
    whole = by_rows.sum()
    policy = bound.policy
    # Rows that may not wait until another window ends are rejected in between.
    again = policy.window_ms is not None and policy.waiting_ms >= policy.window_ms
    lost = sum(len(each.result.rejected) for each in sample.tried) if again else sample.held
    due = max(sample.due.num_rows, 1)
    never = sample.never / max(sample.rows, 1)
    errors = query_errors(sample.due, table, names=names, queries=queries, seed=_SEED) if queries else None

    def mean(values: Sequence[float]) -> float | None:
        return float(np.dot(by_rows, values) / whole) if metrics else None

    return Measures(
        windows=len({record["window_end"] for record in metrics}),
        rows=sample.due.num_rows,
        loss=mean([record["gcp"] for record in metrics]),
        at_once=sample.at_once / max(sample.rows, 1),
        rejected=never + (1.0 - never) * lost / due,
        held=(sample.held - lost) / due,
        count_error=None if errors is None or errors.count is None else errors.count.median,
        mean_error=None if errors is None or errors.mean is None else errors.mean.median,
        fields=tuple(
            FieldWidth(
                column.name,
                _unit(column),
                _median(_widths(table, column), np.repeat(weights, rows)),
                mean([record["ncp"][column.name] for record in metrics]) or 0.0,
            )
            for column in bound.quasis
        ),
    )


def median_widths(released: pa.Table, bound: BoundPolicy) -> dict[str, float | None]:
    """The median width of each quasi-identifier of released rows, as ``FieldWidth`` has it."""
    table = ReleasedTable.of(released, bound)
    return {
        column.name: _median(_widths(table, column), np.ones(released.num_rows)) for column in bound.quasis
    }


def _widths(table: ReleasedTable, column: BoundColumn) -> Float64s:
    """Of each row, float64 (n,); NaN where its box has no value."""
    boxes = table.column(column.published_name)
    if isinstance(boxes, RangeColumn):
        # Halved first: the width of two finite doubles can be infinite.
        half = boxes.high.astype(np.float64) / 2 - boxes.low.astype(np.float64) / 2
        wide = np.minimum(half, np.finfo(np.float64).max / 2) * 2
        kind = column.arrow_type
        if pa.types.is_timestamp(kind):
            wide /= {"s": 1e-3, "ms": 1.0, "us": 1e3, "ns": 1e6}[kind.unit]
        elif pa.types.is_decimal(kind):
            wide /= 10.0**kind.scale
        return np.where(boxes.valued, wide, np.nan)
    return np.diff(boxes.starts)[boxes.of_row].astype(np.float64)


def _median(values: Float64s, weights: Float64s) -> float | None:
    """The least value that at least half of the weight is not above; None: there is none."""
    there = np.flatnonzero(~np.isnan(values))
    if not there.size:
        return None
    order = there[np.argsort(values[there], kind="stable")]
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, total[-1] / 2)]])


def _unit(column: BoundColumn) -> str:
    if not column.in_ranges:
        return "values"
    if pa.types.is_date(column.arrow_type):
        return "days"
    return "ms" if pa.types.is_timestamp(column.arrow_type) else "number"
