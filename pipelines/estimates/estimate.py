"""Answers from a release, each with the bounds that hold for every input the release can come from.

A released row stands for one record of the input: its payload is that record's, and the record's quasi-identifiers lie
in the row's box, its time in the row's window. In closed classes, of people and of cohorts that last, all rows of a
class have one box around all of its members; in a graph a payload stands in one of k boxes that all cover its record.
Which record it is, nobody can tell, and nothing here needs it. So for a query Q over fields:

    S   rows whose box lies within Q: their records are in Q         n_S of them
    P   rows whose box meets Q but does not lie within it: their records may be in Q
    w   share of a row's box that lies in Q, field by field (coverage.py): of counts and sums as its weight is spread
        around people, of questions about single rows (``questions.OfRows``) evenly

What can be asked, and what value and bounds then are, is said in ``questions.py``, for a count for example

    COUNT   value = sum w         lower = n_S                        upper = n_S + n_P

where [a, b] is what x can be in a row that is in Q, and m its middle: of payload a = b = m = x; of a field that is
released as ranges the box, cut to Q where Q asks for the same field. Where x may be missing a row of S counts as one of
P, and where it is missing the row is left out, as SQL does.

Every assignment of values within the boxes keeps these bounds. They are no confidence intervals: the truth is within
them every time. They are widened by the rounding of the sums. Those of counts, sums, means, quantiles, and of shares
and ratios of counts are reached by some assignment of each row by itself, and so are those of shares and ratios of sums
of payload above 0; those of variances, and ranks, give something away.
Between them stands, if asked, a plausible interval, of which nothing is certain: it is a model's (``plausible.py``),
and ``wide`` goes by it. What bounds are about:

- the rows that were released; rows that were rejected or still wait are in no release;
- attributes as the release knows them: of cohorts that last those at entry; of a field with ``outside: code``
  values beyond the domain at its end;
- only the value needs a spread, and is right on average if people lie so; the bounds need none.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.estimates.coverage import Float64s, Int64s
from kanonflow.pipelines.estimates.questions import Answers, Measure, Question
from kanonflow.pipelines.terminal.table import aligned
from kanonflow.schemas.errors import InputError

WIDE = 0.5
"""Bounds further apart than this share of the value are called wide, and so are plausible intervals."""


class WideBoundsWarning(UserWarning):
    """Some bounds or plausible intervals of an estimate are so wide that its values say little."""


@dataclass(frozen=True)
class Estimate:
    """table: a row a group, with the fields of ``by``, ``value``, ``lower``, ``upper``, if asked ``plausible_low`` and
    ``plausible_high``, ``rows_sure``, ``rows_possible`` (with those that are surely in) and ``wide``.

    warnings: what to know of it, a sentence each."""

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


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def warn_of(estimate: Estimate) -> Estimate:
    """The estimate; its warnings are also told as Python's are."""
    for told in estimate.warnings:
        warnings.warn(told, WideBoundsWarning, stacklevel=3)
    return estimate


def answer_columns(
    question: Question,
    answers: Answers,
    measures: Sequence[Measure],
    plausible: tuple[Float64s, Float64s] | None,
    wide: float,
) -> dict[str, pa.Array]:
    """What an estimate tells of each group: value, bounds, plausible interval, what else the question tells, rows, and
    whether the interval is wider than a share ``wide`` of the value, of instants of a fifth of their span."""
    low, high = (answers.lower, answers.upper) if plausible is None else plausible
    drawn = [] if plausible is None else [("plausible_low", low, np.floor), ("plausible_high", high, np.ceil)]
    kind = measures[0].kind if question.of_instants else None
    columns = {
        name: _results(values, kind, rounding)
        for name, values, rounding in (
            ("value", answers.value, np.rint),
            ("lower", answers.lower, np.floor),
            ("upper", answers.upper, np.ceil),
            *drawn,
        )
    }
    scale = np.abs(answers.value) if kind is None else float(np.ptp(_ends(measures[0]))) / 5
    with np.errstate(invalid="ignore", over="ignore"):
        flags = high - low > wide * scale
    rows = {"rows_sure": pa.array(answers.sure), "rows_possible": pa.array(answers.possible)}
    return columns | dict(answers.more) | rows | {"wide": pa.array(flags)}


def groups_table(
    keys: Sequence[Mapping[str, pa.Array]],
    parts: Sequence[Int64s],
    answered: Sequence[tuple[str, Answers, Mapping[str, pa.Array]]],
    *,
    everything: bool,
) -> pa.Table:
    """A row a group. keys: of each field the columns of its parts; parts: of each field the part of each group;
    answered: title, answers and columns of each question; everything: groups in which nobody can be, too."""
    shown = answered[0][1].shown
    shown = np.arange(answered[0][1].value.size) if shown is None else shown
    somebody = np.any([answers.possible > 0 for _, answers, _ in answered], axis=0)
    at = shown if everything else shown[somebody[shown]]
    columns: dict[str, pa.Array] = {}
    for key, part in zip(keys, parts, strict=True):
        columns |= {name: array.take(pa.array(part[at])) for name, array in key.items()}
    for title, _, own in answered:
        for name, array in own.items():
            full = name if len(answered) == 1 else title if name == "value" else f"{title}_{name}"
            if full in columns:
                raise InputError(f"estimate: two columns would have the name {full}")
            columns[full] = array.take(pa.array(at))
    return pa.table(columns)


def _ends(measure: Measure) -> Float64s:
    column = measure.column
    ends = np.concatenate([column.low[column.valued], column.high[column.valued]])
    return (ends if ends.size else np.zeros(1)) * measure.factor


def _results(values: Float64s, kind: pa.DataType | None, rounding: np.ufunc) -> pa.Array:
    none: NDArray[np.bool_] = np.isnan(values)
    if kind is None:
        return pa.array(values, pa.float64(), mask=none)
    return pa.array(rounding(np.where(none, 0, values)).astype(np.int64), mask=none).cast(kind)
