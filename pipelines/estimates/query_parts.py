"""What is asked of a field: edges, periods, categories, or each value; turned into queries over its units."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.estimates.coverage import LEAST, MOST, Interval, Missing, RangeColumn
from kanonflow.schemas.durations import MONDAY_MS
from kanonflow.schemas.errors import InputError

EACH = "each"
MOST_PARTS = 10_000
_PERIOD = re.compile(r"([1-9][0-9]*)(h|d|w|mo|q|y)")
_DAY = dt.date(1970, 1, 1)
_FIXED_MS = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_MONTHS = {"mo": 1, "q": 3, "y": 12}


class Part(NamedTuple):
    """One part of a field's values. ends: of an interval as they were asked for, the second excluded; (None, None) for
    missing values. value: of categories, what to call them."""

    query: Interval | Missing | frozenset[Any]
    ends: tuple[Any, Any] | None = None
    value: Any = None


def interval_parts(name: str, kind: pa.DataType, asked: Any, column: RangeColumn) -> list[Part]:
    """The parts of a field with units.

    asked: edges in ascending order, ``[a, b, c]`` for a <= x < b and b <= x < c, None among them for one more part, the
    missing values; or a period, ``"1mo"`` (h, d, w, mo, q, y; from midnight, Monday, the first of a month, UTC) over
    all of the release; or ``"each"`` range of instants, from one beginning or end to the next. Raises InputError.
    """
    if isinstance(asked, str) and asked == EACH:
        edges: Sequence[Any] = [_moment(kind, border) for border in _borders(column).tolist()]
    elif isinstance(asked, str):
        edges = list(_periods(name, kind, asked, column))
    elif isinstance(asked, Sequence):
        edges = asked
    else:
        raise InputError(f"by {name}: give a list of edges, or a period such as 1mo")
    numbers = [edge for edge in edges if edge is not None]
    units = [edge_in_units(name, kind, edge) for edge in numbers]
    if len(units) < 2 and len(numbers) == len(edges):
        raise InputError(f"by {name}: give at least two edges")
    if any(one >= other for one, other in pairwise(units)):
        raise InputError(f"by {name}: the edges must ascend")
    if len(units) > MOST_PARTS:
        raise InputError(f"by {name}: more than {MOST_PARTS:,} parts; take fewer edges or a longer period")
    parts = [
        Part(interval(first, end, whole=column.whole), ends)
        for (first, end), ends in zip(pairwise(units), pairwise(numbers), strict=True)
    ]
    return [*parts, *([Part(Missing(), (None, None))] if len(numbers) < len(edges) else [])]


def within_ranges(column: RangeColumn, parts: Sequence[Interval]) -> bool:
    """Whether parts begin or end within ranges of whole numbers, and at no beginning or end of another one."""
    asked = np.unique([border for part in parts for border in (part.first, part.end + 1)])
    asked = np.setdiff1d(asked, _borders(column))
    low, high = np.unique(np.stack([column.low, column.high])[:, column.valued], axis=1)
    return bool(np.any((low[:, None] < asked) & (asked <= high[:, None])))


def _borders(column: RangeColumn) -> NDArray[np.int64]:
    """Where ranges of whole numbers begin, and what follows where they end; ascending."""
    return np.union1d(column.low[column.valued], column.high[column.valued] + 1)


def interval(first: Fraction | float, end: Fraction | float, *, whole: bool) -> Interval:
    """first <= x < end, over whole numbers of units or doubles."""
    if not whole:
        return Interval(float(first), float(end), False)
    return Interval(_least_whole(first), _least_whole(end) - 1, True)


def edge_in_units(name: str, kind: pa.DataType, edge: Any) -> Fraction | float:
    """An edge in the units of a type: numbers as they are, of decimals unscaled, days, milliseconds or what the type
    counts in. Raises InputError: it is none of the type."""
    try:
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return _instant(kind, edge)
        if pa.types.is_time(kind):
            return _time_of_day(edge)
        if isinstance(edge, float) and math.isinf(edge):
            return edge
        if isinstance(edge, bool) or not isinstance(
            edge, int | float | Decimal | str | np.integer | np.floating
        ):
            raise TypeError
        exact = Fraction(Decimal(edge)) if isinstance(edge, str) else Fraction(_plain(edge))
    except (TypeError, ValueError, OverflowError, InvalidOperation):
        raise InputError(f"{name}: an edge is no value of type {kind}") from None
    if pa.types.is_decimal(kind):
        return exact * 10**kind.scale
    return exact if pa.types.is_integer(kind) else float(exact)


def members(asked: Any) -> Iterator[tuple[Any, frozenset[Any]]]:
    """Of a list of categories, what to call each entry, and its values: an entry may be several in a tuple, a list or a
    set."""
    for entry in asked:
        if isinstance(entry, tuple | list | set | frozenset):
            yield "|".join(sorted("\\N" if one is None else str(one) for one in entry)), frozenset(entry)
        else:
            yield entry, frozenset([entry])


def _plain(edge: Any) -> Any:
    return edge.item() if isinstance(edge, np.generic) else edge


def _least_whole(value: Fraction | float) -> int:
    """The least whole number that is not below a value, as far as an int64 goes."""
    if isinstance(value, float) and math.isinf(value):
        return int(MOST if value > 0 else LEAST + 1)
    return max(min(math.ceil(value), int(MOST)), int(LEAST) + 1)


def _instant(kind: pa.DataType, edge: Any) -> Fraction | float:
    """Of days: the day must be one. Of instants: a day is its midnight in UTC, and a time without a zone is in UTC."""
    if isinstance(edge, float) and math.isinf(edge):
        return edge
    if isinstance(edge, np.datetime64):
        edge = edge.astype("datetime64[us]").item()
    if isinstance(edge, str):
        edge = dt.date.fromisoformat(edge) if len(edge) <= 10 else dt.datetime.fromisoformat(edge)
    if isinstance(edge, dt.datetime):
        since = edge.replace(tzinfo=edge.tzinfo or dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    elif isinstance(edge, dt.date):
        microseconds = (edge - _DAY).days * 86_400_000_000
    else:
        raise TypeError
    unit = 86_400_000_000 if pa.types.is_date(kind) else _MICROSECONDS[kind.unit]
    return Fraction(microseconds, unit)


_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def _time_of_day(edge: Any) -> Fraction:
    moment = dt.time.fromisoformat(edge) if isinstance(edge, str) else edge
    if not isinstance(moment, dt.time):
        raise TypeError
    return Fraction(
        ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1_000_000 + moment.microsecond
    )


def _periods(name: str, kind: pa.DataType, asked: str, column: RangeColumn) -> Iterator[Any]:
    match = _PERIOD.fullmatch(asked)
    if match is None or not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        raise InputError(
            f"by {name}: {asked} is neither a list of edges nor a period such as 6h, 1d, 2w, 1mo, 1q, 1y of a date"
        )
    number, unit = int(match[1]), match[2]
    if not column.valued.any():
        raise InputError(f"by {name}: the release has no value of it")
    per_ms = 1 / 86_400_000 if pa.types.is_date(kind) else {"s": 1 / 1000, "ms": 1, "us": 1000}[kind.unit]
    first = int(column.low[column.valued].min() / per_ms)
    last = int(column.high[column.valued].max() / per_ms)
    if unit in _FIXED_MS:
        step = number * _FIXED_MS[unit]
        if pa.types.is_date(kind) and unit == "h":
            raise InputError(f"by {name}: hours of a field of days")
        base = MONDAY_MS if unit == "w" else 0
        at, count = (first - base) // step, 0
        while base + at * step <= last or not count:
            yield _moment(kind, base + at * step)
            at, count = at + 1, _counted(name, count)
        yield _moment(kind, base + at * step)
        return
    months = number * _MONTHS[unit]
    begin = dt.datetime.fromtimestamp(first / 1000, dt.UTC) if first >= 0 else _before(first)
    month = (begin.year * 12 + begin.month - 1) // months * months
    count = 0
    while True:
        border = dt.datetime(month // 12, month % 12 + 1, 1, tzinfo=dt.UTC)
        at_ms = round((border - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)).total_seconds() * 1000)
        yield _moment(kind, at_ms)
        if at_ms > last:
            return
        month, count = month + months, _counted(name, count)


def _counted(name: str, count: int) -> int:
    if count >= MOST_PARTS:
        raise InputError(f"by {name}: more than {MOST_PARTS:,} parts; take fewer edges or a longer period")
    return count + 1


def _before(milliseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)


def _moment(kind: pa.DataType, milliseconds: int) -> Any:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)
    return moment.date() if pa.types.is_date(kind) else moment
