"""What the columns of a sample are like, in figures: what roles are proposed by. Nothing of policies is known here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.kinds.category import Texts
from kanonflow.schemas.kinds.date import Days, Instants
from kanonflow.schemas.kinds.form import Form
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.number import DecimalForm, FloatForm, Whole

_SAMPLED_PEOPLE_ROWS = 2
"""Rows from which on a value's rows can differ."""


class Shape(StrEnum):
    """What a column's values are, as far as roles ask."""

    TEXT = "text"
    WHOLE = "whole numbers"
    FLOATING = "floating numbers"
    EXACT = "decimals"
    DAY = "days"
    INSTANT = "instants"
    OTHER = "other"


DAYS = (Shape.DAY, Shape.INSTANT)
_SHAPES: dict[type[Form], Shape] = {
    Texts: Shape.TEXT,
    Whole: Shape.WHOLE,
    FloatForm: Shape.FLOATING,
    DecimalForm: Shape.EXACT,
    Days: Shape.DAY,
    Instants: Shape.INSTANT,
}


def shape_of(values: pa.Array) -> Shape:
    """What the values are, by their Arrow type."""
    return _SHAPES.get(type(form_of(values.type)), Shape.OTHER)


@dataclass(frozen=True)
class ColumnFacts:
    """One column of n rows.

    nulls: rows without a value. distinct: different values. of_rows: distinct / rows with a value.
    low, high: the least and the greatest, of numbers and dates as numbers; else None.
    """

    name: str
    rows: int
    nulls: int
    distinct: int
    low: float | None = None
    high: float | None = None

    @property
    def of_rows(self) -> float:
        """Different values a row that has one; 0 without any."""
        known = self.rows - self.nulls
        return self.distinct / known if known else 0.0


def column_facts(name: str, values: pa.Array) -> ColumnFacts:
    """The facts of one column. O(n log n)."""
    low = high = None
    numbers = as_numbers(values)
    if numbers is not None and numbers.size:
        low, high = float(numbers.min()), float(numbers.max())
    return ColumnFacts(
        name,
        len(values),
        values.null_count,
        int(pc.count_distinct(values, mode="only_valid").as_py()),
        low,
        high,
    )


def as_numbers(values: pa.Array) -> NDArray[np.float64] | None:
    """The values that are no nulls as numbers, dates as days, instants as seconds since 1970; None of others."""
    shape, known = shape_of(values), values.drop_null()
    if shape is Shape.DAY:
        return np.asarray(known.cast(pa.date32()).cast(pa.int32())).astype(np.float64)
    if shape is Shape.INSTANT:
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[values.type.unit]
        return np.asarray(known.cast(pa.int64())) / per_second
    if shape in (Shape.WHOLE, Shape.FLOATING, Shape.EXACT):
        return np.asarray(known.cast(pa.float64(), safe=False))  # above 2^53 the nearest
    return None


def codes_of(values: pa.Array) -> NDArray[np.int64]:
    """A number for each value, nulls one of their own; int64 (n,)."""
    return np.asarray(values.dictionary_encode("encode").indices).astype(np.int64)


def rows_of_several(who: NDArray[np.int64]) -> float:
    """The share of rows whose value is on another row too."""
    return float((np.bincount(who, minlength=1)[who] >= _SAMPLED_PEOPLE_ROWS).mean()) if who.size else 0.0
