"""How far answers from a release are from those of its input: a measure of what a release is good for.

Random queries over the quasi-identifiers, asked of the input and estimated from the release. Unlike the loss of boxes
it also feels rows that were not released, and boxes that are wide where people are many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.certain_bounds import unit_of_sums
from kanonflow.pipelines.estimates.coverage import (
    Cover,
    Interval,
    PrefixColumn,
    RangeColumn,
    SetColumn,
    every_row,
    exact_range,
    exact_sets,
    prefix_column,
)
from kanonflow.pipelines.estimates.distinct_boxes import box_codes, distinct_boxes
from kanonflow.pipelines.estimates.questions import answer_count, answer_mean
from kanonflow.schemas.hierarchy import ROOT
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.text_values import render_text

QUERIES = 200
MOST_FIELDS = 2
LEAST_SHARE = 0.01
"""Queries that fewer rows of the input match are drawn again, a few times."""
_TRIES = 20


class Spread(NamedTuple):
    """Of some errors. median, ninth: of ten, nine are not above it. worst. queries: how many."""

    median: float
    ninth: float
    worst: float
    queries: int


@dataclass(frozen=True)
class QueryError:
    """One query. what: count or mean. fields: that it is over. of: the column of a mean. true: of the input. value,
    lower, upper: of the release. error: |value - true| / scale, where the scale of a count is the count and that of a
    mean the mean of |x|: what people call relative, and finite also where positive and negative values cancel out."""

    what: str
    fields: tuple[str, ...]
    of: str | None
    true: float
    value: float
    lower: float
    upper: float
    error: float

    @property
    def within(self) -> bool:
        """Whether the bounds hold the answer of the input; rows that were not released may leave them."""
        return self.lower <= self.true <= self.upper


@dataclass(frozen=True)
class QueryErrors:
    """count, mean: None where there was nothing to ask. queries: all of them."""

    count: Spread | None
    mean: Spread | None
    queries: tuple[QueryError, ...]


def query_errors(
    rows: pa.Table,
    released: ReleasedTable,
    *,
    names: Mapping[str, str] | None = None,
    queries: int = QUERIES,
    seed: int = 1,
) -> QueryErrors:
    """The errors of random queries: over one or two quasi-identifiers, a range between two values of the input or about
    half of its categories, that at least LEAST_SHARE of the rows match if such a one is found.

    rows: of the input, in the policy's types (``classify``), rejected ones among them: what is not released counts as
    error. names: published name -> column of ``rows``, where they differ. seed: the same one asks the same queries of
    every release of these rows. Each query asks for its COUNT and for the MEAN of a column with exact numbers.
    A mean of rows of which none can be in the release counts as an error of 1. O(queries x rows).
    """
    draw = random.Random(seed)
    names = names or {}
    fields = [field for field in released.fields if field.kind in (Kind.RANGE, Kind.SET, Kind.LABEL)]
    exact = [field for field in released.fields if field.kind is Kind.EXACT]
    numbers = [
        field for field in exact if form_of(field.value).scale is not None and form_of(field.value).measured
    ]
    if not rows.num_rows or not fields or not len(released):
        return QueryErrors(None, None, ())
    own = {field.name: own_column(rows, field, names) for field in fields}
    theirs = {field.name: released.column(field.name) for field in fields}
    boxes = distinct_boxes([box_codes(column) for column in theirs.values()], len(released))
    theirs = {name: column.of(boxes.first) for name, column in theirs.items()}
    asked: list[QueryError] = []
    for _ in range(queries):
        query, true = _drawn(draw, own, rows.num_rows)
        met = every_row(boxes.first.size)
        for name, part in query.items():
            met = met.both(theirs[name].cover(part))
        count = answer_count(met, boxes.sizes)
        size = float(true.rows.size)
        asked.append(
            QueryError(
                "count", tuple(query), None, size, count.value or 0.0, count.lower or 0.0, count.upper or 0.0,
                abs((count.value or 0.0) - size) / size,
            )
        )  # fmt: skip
        if numbers:
            met = every_row(boxes.first.size)
            for name, part in query.items():
                met = met.both(theirs[name].evenly().cover(part))
            asked += _mean_error(draw.choice(numbers), query, true, boxes.of_rows(met), rows, released, names)
    return QueryErrors(
        _spread([query.error for query in asked if query.what == "count"]),
        _spread([query.error for query in asked if query.what == "mean"]),
        tuple(asked),
    )


def _mean_error(
    field: ReleasedField,
    query: Mapping[str, Any],
    true: Cover,
    met: Cover,
    rows: pa.Table,
    released: ReleasedTable,
    names: Mapping[str, str],
) -> Iterator[QueryError]:
    column = exact_range(_array(rows, names.get(field.name, field.name), field.value), 1)
    present = true.rows[column.valued[true.rows]]
    if not present.size:
        return
    measure = released.measure("mean", field.name)
    values = column.low[present].astype(np.float64) * measure.factor
    unit = unit_of_sums(values)
    mean, scale = float((values / unit).mean()) * unit, float(np.abs(values / unit).mean()) * unit
    answer = answer_mean(met, measure)
    if answer.value is None or answer.lower is None or answer.upper is None:
        yield QueryError("mean", tuple(query), field.name, mean, np.nan, np.nan, np.nan, 1.0)
    elif scale > 0:
        error = abs(answer.value - mean) / scale
        yield QueryError(
            "mean", tuple(query), field.name, mean, answer.value, answer.lower, answer.upper, error
        )


def _drawn(
    draw: random.Random, own: Mapping[str, RangeColumn | SetColumn | PrefixColumn], count: int
) -> tuple[dict[str, Any], Cover]:
    """A query that somebody matches, and the rows of the input that do."""
    best: tuple[dict[str, Any], Cover] | None = None
    for _ in range(_TRIES):
        chosen = draw.sample(sorted(own), draw.randint(1, min(MOST_FIELDS, len(own))))
        query = {name: _part(draw, own[name]) for name in chosen}
        cover = every_row(count)
        for name, part in query.items():
            cover = cover.both(own[name].cover(part))
        if best is None or cover.rows.size > best[1].rows.size:
            best = query, cover
        if cover.rows.size >= max(1.0, LEAST_SHARE * count):
            return query, cover
    assert best is not None
    if best[1].rows.size:
        return best
    # Every field's categories together match everybody.
    return {}, every_row(count)


def _part(draw: random.Random, column: RangeColumn | SetColumn | PrefixColumn) -> Any:
    if isinstance(column, PrefixColumn):
        label = draw.choice([label for label in column.labels if label is not None] or [ROOT])
        path = column.tree.path(label) or (ROOT,)
        return frozenset([draw.choice(path)])
    if isinstance(column, SetColumn):
        values = sorted(column.values, key=lambda value: (value is None, str(value)))
        chosen = [value for value in values if draw.random() < 0.5] or [draw.choice(values)]
        return frozenset(chosen)
    known = np.flatnonzero(column.valued)
    if not known.size:
        return Interval(0, 0, column.whole)
    first, end = sorted(column.low[known[draw.randrange(known.size)]].item() for _ in range(2))
    return Interval(first, end if column.whole else float(np.nextafter(end, np.inf)), column.whole)


def own_column(
    rows: pa.Table, field: ReleasedField, names: Mapping[str, str]
) -> RangeColumn | SetColumn | PrefixColumn:
    """A column of the input, as boxes of one value."""
    name = names.get(field.name, field.name)
    if field.kind is Kind.LABEL:
        texts = render_text(rows.column(name).combine_chunks())
        return exact_sets(texts) if field.tree is None else prefix_column(texts, field.tree, 1)
    array = _array(rows, name, field.value)
    return exact_range(array, 1) if field.kind is Kind.RANGE else exact_sets(array)


def _array(rows: pa.Table, name: str, kind: pa.DataType) -> pa.Array:
    column = rows.column(name)
    return column.combine_chunks().cast(kind)


def _spread(errors: Sequence[float]) -> Spread | None:
    if not errors:
        return None
    median, ninth = np.quantile(errors, [0.5, 0.9], method="higher").tolist()
    return Spread(median, ninth, max(errors), len(errors))
