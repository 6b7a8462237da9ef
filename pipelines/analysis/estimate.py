"""Counts, sums and means of a release, each with the bounds that hold for every input the release can come from.

A released row stands for one record of the input: its payload is that record's, and the record's quasi-identifiers lie
in the row's box, its time in the row's window. In closed classes, of people and of cohorts that last, all rows of a
class have one box around all of its members; in a graph a payload stands in one of k boxes that all cover its record.
Which record it is, nobody can tell, and nothing here needs it. So for a query Q over fields:

    S   rows whose box lies within Q: their records are in Q         n_S of them
    P   rows whose box meets Q but does not lie within it: their records may be in Q
    w   share of a row's box that lies in Q, field by field (coverage.py): of counts and sums as its weight is spread
        around people, of means evenly

    COUNT   value = sum w         lower = n_S                        upper = n_S + n_P
    SUM x   value = sum w m       lower = sum_S a + sum_P min(a, 0)  upper = sum_S b + sum_P max(b, 0)
    MEAN x  value = sum w m / sum w
            lower = min over T within P of (sum_S a + sum_T a) / (n_S + n_T); upper the same with max and b

where [a, b] is what x can be in a row that is in Q, and m its middle: of payload a = b = m = x; of a field that is
released as ranges the box, cut to Q where Q asks for the same field. The best T of a mean is the rows with the least a
(the greatest b) one after the other, as long as each still moves the mean: sorting finds it exactly. Where x may be
missing a row of S counts as one of P, and where it is missing the row is left out, as SQL does.

Every assignment of values within the boxes keeps these bounds, and some assignment of each row by itself reaches them.
They are no confidence intervals: the truth is within them every time. They are widened by the rounding of the sums.
What they are about:

- the rows that were released; rows that were rejected or still wait are in no release;
- attributes as the release knows them: of cohorts that last those at entry; of a field with ``outside: code``
  values beyond the domain at its end;
- only the value needs a spread, and is right on average if people lie so; the bounds need none.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.analysis.coverage import Cover, Interval, Missing, RangeColumn, every_row, nobody
from kanonflow.pipelines.analysis.distinct_boxes import DistinctBoxes
from kanonflow.pipelines.analysis.query_parts import Part
from kanonflow.pipelines.terminal.table import aligned

WHATS = ("count", "sum", "mean")
SPREAD_EVENLY = frozenset({"mean"})
"""What is told better by boxes that are spread evenly."""
WIDE = 0.5
"""Bounds further apart than this share of the value are called wide."""

Float64s = NDArray[np.float64]
_MOST = sys.float_info.max


class WideBoundsWarning(UserWarning):
    """Some bounds of an estimate are so wide that its values say little."""


@dataclass(frozen=True)
class Estimate:
    """table: a row a group, with the fields of ``by``, ``value``, ``lower``, ``upper``, ``rows_sure``,
    ``rows_possible`` (with those that are surely in) and ``wide``. warnings: what to know of it, a sentence each."""

    table: pa.Table
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        """A line a group, for a terminal."""
        cells = [[_shown(value) for value in row.values()] for row in self.rows()]
        return "\n".join(aligned([self.table.column_names, *cells], indent=""))

    def rows(self) -> list[dict[str, Any]]:
        """A dict a group."""
        return self.table.to_pylist()

    def arrow(self) -> pa.Table:
        """As an Arrow table."""
        return self.table

    def polars(self) -> Any:
        """As a polars DataFrame."""
        import polars

        return polars.from_arrow(self.table)

    def pandas(self) -> Any:
        """As a pandas DataFrame, with Arrow's types: a missing value stays one, and a whole number whole."""
        import pandas

        return self.table.to_pandas(types_mapper=pandas.ArrowDtype)


class Measure(NamedTuple):
    """What is added up: its ranges, a factor from their units to the column's values, and the type of the result.

    asked: the field's name, to cut its ranges to a query over the same field."""

    column: RangeColumn
    factor: float
    kind: pa.DataType
    name: str


class Answer(NamedTuple):
    """Of one query. value, lower, upper: None where no row can be in it (of sums 0)."""

    value: float | None
    lower: float | None
    upper: float | None
    sure: int
    possible: int


def answer_count(cover: Cover, count: NDArray[np.int64] | None = None) -> Answer:
    """COUNT of the rows of a query (see above). count: rows of each box; None: the cover is one of rows."""
    own = np.ones(cover.rows.size, np.int64) if count is None else count[cover.rows]
    sure, possible = int(own[cover.sure].sum()), int(own.sum())
    return Answer(float((cover.share * own).sum()), float(sure), float(possible), sure, possible)


def answer_sum(cover: Cover, measure: Measure, query: Interval | None = None) -> Answer:
    """SUM of a measure over a query; ``query``: on the measure's own field. O(m)."""
    sure, low, high, weight, rows = _measured(cover, measure, query)
    if not rows.size:
        return Answer(0.0, 0.0, 0.0, 0, 0)
    unit = unit_of_sums(low, high)
    low, high = low / unit, high / unit
    lower = float(np.where(sure, low, np.minimum(low, 0.0)).sum())
    upper = float(np.where(sure, high, np.maximum(high, 0.0)).sum())
    value = float((weight * _middle(low, high)).sum())
    slack = _rounding(low, high) * rows.size
    # Of a sum that no double holds, the largest double is a lower bound.
    lower, upper = min((lower - slack) * unit, _MOST), max((upper + slack) * unit, -_MOST)
    return Answer(value * unit, lower, upper, int(sure.sum()), rows.size)


def answer_mean(cover: Cover, measure: Measure, query: Interval | None = None) -> Answer:
    """MEAN of a measure over a query, if anybody is in it; ``query``: on the measure's own field. O(m log m)."""
    sure, low, high, weight, rows = _measured(cover, measure, query)
    if not rows.size:
        return Answer(None, None, None, 0, 0)
    unit = unit_of_sums(low, high)
    low, high = low / unit, high / unit
    slack = _rounding(low, high)
    lower, upper = _least_mean(low, sure) - slack, -_least_mean(-high, sure) + slack
    total = float(weight.sum())
    value = float((weight * _middle(low, high)).sum()) / total if total > 0 else (lower + upper) / 2
    return Answer(value * unit, lower * unit, upper * unit, int(sure.sum()), rows.size)


def unit_of_sums(*values: Float64s) -> float:
    """A power of two by which values are divided before they are added up: 1 unless their sum could be no double."""
    most = max(float(np.abs(each).max(initial=0.0)) for each in values)
    count = max(each.size for each in values)
    return 1.0 if most < _MOST / 4 / (count + 1) else 2.0 ** (count.bit_length() + 2)


def grouped(
    what: str,
    parts: Mapping[str, Sequence[tuple[Part, Cover]]],
    base: Cover,
    measure: Measure | None,
    boxes: DistinctBoxes,
) -> Iterator[tuple[tuple[Part, ...], Answer]]:
    """The answer for every combination of parts of fields, the last field's fastest, among the boxes of ``base``.

    Covers: of ``boxes``. What fields before share is worked out once, and where nobody is left nothing is.
    """
    own = None if measure is None else measure.name

    def answer(cover: Cover, query: Interval | None) -> Answer:
        if measure is None:
            return answer_count(cover, boxes.sizes)
        return (answer_sum if what == "sum" else answer_mean)(boxes.of_rows(cover), measure, query)

    empty = answer(nobody(), None)

    def narrowed(
        names: Sequence[str], chosen: tuple[Part, ...], cover: Cover, query: Interval | None
    ) -> Iterator[tuple[tuple[Part, ...], Answer]]:
        if not names:
            yield chosen, answer(cover, query) if cover.rows.size else empty
            return
        name, *others = names
        for part, met in parts[name]:
            both = nobody() if name == own and isinstance(part.query, Missing) else cover.both(met)
            cut = part.query if name == own and isinstance(part.query, Interval) else query
            yield from narrowed(others, (*chosen, part), both, cut)

    return narrowed(list(parts), (), base, None)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def warn_of(estimate: Estimate) -> Estimate:
    """The estimate; its warnings are also told as Python's are."""
    for told in estimate.warnings:
        warnings.warn(told, WideBoundsWarning, stacklevel=3)
    return estimate


def total_cover(covers: Sequence[Cover], count: int) -> Cover:
    """The rows that are in all of some covers."""
    base = every_row(count)
    for cover in covers:
        base = base.both(cover)
    return base


def _measured(
    cover: Cover, measure: Measure, query: Interval | None
) -> tuple[NDArray[np.bool_], Float64s, Float64s, Float64s, NDArray[np.int64]]:
    """Of the rows whose measure can be there: whether it surely is, its ends, and the row's weight."""
    column = measure.column
    valued = column.valued[cover.rows]
    rows = cover.rows[valued]
    low, high = column.clipped(query)
    weight = cover.share[valued]
    if query is None:
        # A query on the field itself has left the missing values out already.
        weight = weight * (1.0 - column.missing_share()[rows])
    sure = cover.sure[valued] & ~column.nulls[rows]
    ends = low[rows].astype(np.float64) * measure.factor, high[rows].astype(np.float64) * measure.factor
    return sure, *ends, weight, rows


def _least_mean(values: Float64s, sure: NDArray[np.bool_]) -> float:
    """The least mean of all sure values and any of the others; of at least one value."""
    rest = np.sort(values[~sure])
    sums = values[sure].sum() + np.concatenate([[0.0], np.cumsum(rest)])
    counts = int(sure.sum()) + np.arange(rest.size + 1)
    first = 1 if counts[0] == 0 else 0
    return float((sums[first:] / counts[first:]).min())


def _middle(low: Float64s, high: Float64s) -> Float64s:
    return low / 2 + high / 2


def _rounding(low: Float64s, high: Float64s) -> float:
    """A bound on what adding up n numbers one after the other may lose of their mean; 0 where nothing is lost."""
    most = float(max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0)))
    whole = most * low.size < 2.0**53 and not np.any(low % 1) and not np.any(high % 1)
    return 0.0 if whole else 4 * float(np.finfo(np.float64).eps) * low.size * most
