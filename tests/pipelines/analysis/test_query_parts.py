"""Edges, periods and categories: what is in which part, of every type, and what is refused."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.estimates.coverage import Missing, RangeColumn, exact_range
from kanonflow.pipelines.estimates.query_parts import interval_parts, members
from kanonflow.schemas.errors import InputError

INSTANTS = pa.timestamp("ms", "UTC")


def column(values: list[Any], kind: pa.DataType) -> RangeColumn:
    """Values as boxes of one."""
    return exact_range(pa.array(values, kind), 2)


@pytest.mark.parametrize(
    ("kind", "values", "edges"),
    [
        (pa.int32(), [19, 20, 29, 30], [20, 30]),
        (pa.int64(), [19, 20, 29, 30], [19.5, Decimal("29.5")]),
        (pa.float64(), [19.999, 20.0, 29.999, 30.0], [20, 30]),
        (pa.float32(), [19.5, 20.0, 29.5, 30.0], [20.0, "30"]),
        (pa.decimal128(9, 2), [Decimal("19.99"), Decimal(20), Decimal("29.99"), Decimal(30)], [20, 30.0]),
        (
            pa.date32(),
            [dt.date(1969, 12, 30), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1970, 1, 2)],
            ["1969-12-31", dt.date(1970, 1, 2)],
        ),
        (
            INSTANTS,
            [dt.datetime(1969, 12, 31, 23, 59, 59, m, tzinfo=dt.UTC) for m in (0, 1000, 998_000, 999_000)],
            ["1969-12-31T23:59:59.001", np.datetime64("1969-12-31T23:59:59.999")],
        ),
        (
            pa.time64("us"),
            [dt.time(7, 59), dt.time(8), dt.time(8, 59, 59, 999_999), dt.time(9)],
            [dt.time(8), "09:00"],
        ),
    ],
)
def test_the_first_edge_is_in_and_the_last_is_not(
    kind: pa.DataType, values: list[Any], edges: list[Any]
) -> None:
    """Of every type; and with infinite edges everything is in."""
    boxes = column([*values, None], kind)
    part, missing = interval_parts("x", kind, [*edges, None], boxes)
    assert boxes.cover(part.query).rows.tolist() == [1, 2]
    assert part.ends == tuple(edges)
    assert isinstance(missing.query, Missing)
    assert boxes.cover(missing.query).rows.tolist() == [4]
    if not pa.types.is_time(kind):
        (whole,) = interval_parts("x", kind, [float("-inf"), float("inf")], boxes)
        assert boxes.cover(whole.query).rows.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("period", "kind", "first", "last", "edges"),
    [
        (
            "1mo",
            pa.date32(),
            "2023-12-31",
            "2024-02-01",
            ["2023-12-01", "2024-01-01", "2024-02-01", "2024-03-01"],
        ),
        ("1q", pa.date32(), "2024-01-01", "2024-03-31", ["2024-01-01", "2024-04-01"]),
        ("10y", pa.date32(), "1959-12-31", "1960-01-01", ["1950-01-01", "1960-01-01", "1970-01-01"]),
        ("1w", pa.date32(), "1970-01-04", "1970-01-05", ["1969-12-29", "1970-01-05", "1970-01-12"]),
        ("1d", pa.date32(), "1969-12-31", "1970-01-01", ["1969-12-31", "1970-01-01", "1970-01-02"]),
    ],
)
def test_periods_begin_where_people_expect(
    period: str, kind: pa.DataType, first: str, last: str, edges: list[str]
) -> None:
    """Months on their first, weeks on Monday; the last value is in the last part."""
    days = [dt.date.fromisoformat(day) for day in (first, last)]
    found = interval_parts("x", kind, period, column(days, kind))
    assert [str(part.ends[0]) for part in found if part.ends] == edges[:-1]
    assert str(found[-1].ends and found[-1].ends[1]) == edges[-1]
    instants = [dt.datetime(day.year, day.month, day.day, 23, 59, tzinfo=dt.UTC) for day in days]
    again = interval_parts("x", INSTANTS, period, column(instants, INSTANTS))
    assert [part.ends[0].date() for part in again if part.ends] == [
        part.ends[0] for part in found if part.ends
    ]


@pytest.mark.parametrize(
    ("kind", "asked", "told"),
    [
        (pa.int64(), [3], "at least two edges"),
        (pa.int64(), [3, 3], "must ascend"),
        (pa.int64(), [3, "x"], "an edge is no value of type int64"),
        (pa.int64(), [3, True], "an edge is no value"),
        (pa.int64(), [3, float("nan")], "an edge is no value"),
        (pa.int64(), "1mo", "neither a list of edges nor a period"),
        (pa.date32(), "1 month", "neither a list of edges nor a period"),
        (pa.date32(), "3h", "hours of a field of days"),
        (pa.date32(), ["2024-13-01", "2025-01-01"], "an edge is no value of type date32"),
        (INSTANTS, "1h", "more than 10,000 parts"),
        (pa.int64(), 7, "give a list of edges"),
    ],
)
def test_what_is_no_list_of_edges_is_refused(kind: pa.DataType, asked: Any, told: str) -> None:
    """By the name of the field; no value of the release is in the message."""
    values: list[Any] = [1, 2]
    if pa.types.is_temporal(kind):
        values = [dt.datetime(1950, 1, 1), dt.datetime(2024, 1, 1)]
        values = [value.date() for value in values] if kind == pa.date32() else values
    with pytest.raises(InputError, match=f"x: .*{told}|by x: .*{told}"):
        interval_parts("x", kind, asked, column(values, kind))


def test_a_part_of_categories_may_be_several() -> None:
    """With a name that says which."""
    assert list(members(["a", ("b", None), {"c"}])) == [
        ("a", frozenset(["a"])),
        ("\\N|b", frozenset(["b", None])),
        ("c", frozenset(["c"])),
    ]
