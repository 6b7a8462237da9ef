"""A dry run in figures: shares of rows, loss, how wide each field is published, with words, and errors of queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.analysis.query_error import query_errors
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.dry_run.dry_run import DryRun
from kanonflow.pipelines.dry_run.field_width import FieldWidth
from kanonflow.pipelines.estimates.coverage import RangeColumn
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.kinds.kinds import KINDS

LEAST_GAIN = 0.05
"""Share of what is lost that a change must save; two samples of one policy differ by less."""
_ENOUGH_OF_BEST = 2 / 3
Float64s = NDArray[np.float64]
_SEED = 1


@dataclass(frozen=True)
class Measures:
    """A policy on the windows that count.

    windows, rows: that were played and count. loss: GCP of the published boxes, by rows; None: nothing went out.
    at_once: share of the rows that is not put off to a later window. rejected: share that leaves the feed.
    count_error, mean_error: medians of random queries (``analysis/query_error.py``); None where nothing is asked.
    fields: in the policy's order.
    """

    windows: int
    rows: int
    loss: float | None
    at_once: float
    rejected: float
    count_error: float | None
    mean_error: float | None
    fields: tuple[FieldWidth, ...]

    @property
    def cost(self) -> float:
        """The loss, where a row that is rejected loses all."""
        return 1.0 if self.loss is None else self.loss * (1.0 - self.rejected) + self.rejected

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        figures = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return figures | {"cost": self.cost, "fields": [each._asdict() for each in self.fields]}


def saved(before: float, after: float) -> float:
    """Share of a cost that a change saves; negative where it costs more."""
    return 1.0 - after / before if before > 0 else 0.0


def worthwhile(gains: Mapping[int, float]) -> list[int]:
    """Of lengths with what each saves, those that bring most of the best; none where that is next to nothing."""
    best = max(gains.values(), default=0.0)
    return [length for length, gain in gains.items() if best >= LEAST_GAIN and gain >= _ENOUGH_OF_BEST * best]


def measured(run: DryRun, rows: pa.Table, *, queries: int) -> Measures:
    """The figures of a dry run. rows: those whose own window counts, canonical. queries: to be asked of both; 0: none.

    O(queries x rows).
    """
    bound = run.bound
    table = ReleasedTable.of(run.released, bound)
    names = {column.published_name: column.name for column in bound.columns}
    errors = query_errors(rows, table, names=names, queries=queries, seed=_SEED) if queries else None
    weights = row_weights(run)
    return Measures(
        windows=len({each.metrics["window_end"] for each in run.releases}),
        rows=rows.num_rows,
        loss=run.mean("gcp"),
        at_once=run.at_once,
        rejected=run.rejected,
        count_error=None if errors is None or errors.count is None else errors.count.median,
        mean_error=None if errors is None or errors.mean is None else errors.mean.median,
        fields=tuple(
            FieldWidth(
                column.name,
                _unit(column),
                _median(_widths(table, column), weights),
                run.mean_of([each.metrics["ncp"][column.name] for each in run.releases]) or 0.0,
            )
            for column in bound.quasis
        ),
    )


def row_weights(run: DryRun) -> Float64s:
    """How many rows of the feed each released row stands for, float64 (n,), in the order of ``DryRun.released``."""
    weights = np.array([each.weight for each in run.releases], dtype=np.float64)
    return np.repeat(weights, [each.metrics["rows_released"] for each in run.releases])


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
        return np.where(boxes.valued, column.values.widths(wide), np.nan)
    return boxes.widths.astype(np.float64)


def _median(values: Float64s, weights: Float64s) -> float | None:
    """The least value that at least half of the weight is not above; None: there is none."""
    there = np.flatnonzero(~np.isnan(values))
    if not there.size:
        return None
    order = there[np.argsort(values[there], kind="stable")]
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, total[-1] / 2)]])


def _unit(column: BoundColumn) -> str:
    quasi = column.field.quasi
    assert quasi is not None
    return KINDS[quasi.type].width_unit(quasi, column.values)
