"""Columns of typed inputs as the policy says (``as``), and of types that text has none of: by both readers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.read.kinds import value_faults
from kanonflow.pipelines.audit.read.values import CodeBook, read_rejected
from kanonflow.schemas.bound_policy import BoundColumn, bind
from kanonflow.schemas.canonical_columns import read_column
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.schemas.text_values import render_text
from tests.twin_values import TwinBook, plain_cells

NUMBERS: dict[pa.DataType, list[Any]] = {
    pa.int32(): [0, -1, 2**31 - 1, 7],
    pa.int64(): [0, 2**53, 2**53 - 1, -(2**53) + 1, 2**24, 2**31, -(2**31), 99, 10**17],
    pa.uint64(): [0, 2**63, 2**63 - 1],
    pa.float32(): [0.0, -0.0, 0.1, 2.0**24, 2.0**24 - 1, float("nan"), float("inf"), 1e30, 12.5],
    pa.float64(): [
        -0.0,
        0.1,
        12.5,
        2.0**53,
        2.0**53 - 1,
        float("nan"),
        float("-inf"),
        1e300,
        17850.0,
        1e15,
        1e16,
        1e-7,
    ],
    pa.decimal128(9, 2): [0, 1, 12, "-0.5", "1234567.89", "0.30"],
    pa.decimal128(38, 10): [0, "1e-10", "12345678901234567890", "0.1"],
}
NAMES = ("int", "long", "float", "double", "decimal(6,2)", "decimal(20,10)", "string")


def column_of(kind: pa.DataType, **said: Any) -> BoundColumn:
    """An insensitive field of a typed input."""
    fields = {"q": {"role": "quasi", "type": "numeric"}, "x": {"role": "insensitive"} | said}
    policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")
    return bind(policy, pa.schema([("q", pa.int32()), ("x", kind)]), text=False, source="test").column("x")


def both_read(column: BoundColumn, array: pa.Array) -> tuple[list[str | None], list[bool]]:
    """Canonical texts of the values and which are none, asserted to be the same to the audit: the input, and what a
    rejected row spells of it."""
    values, bad = read_column(column, array, None)
    book = CodeBook(column)
    texts = render_text(values).to_pylist()
    came = render_text(array).to_pylist()
    codes = book.codes_of_column(array).tolist()
    twin = TwinBook(column)
    cells = plain_cells(array, column.own_type or column.arrow_type)
    assert [twin.values[code] for code in twin.codes_of_typed(cells, len(array)) if code >= 0] == [
        book.values[code] for code in codes if code >= 0
    ]
    spelled = [
        (one, True) if wrong else (other, False) for one, other, wrong in zip(came, texts, bad, strict=True)
    ]
    assert book.codes_of_rejected(spelled, len(array)).tolist() == codes
    assert [code >= 0 and bool(value_faults(book)[code]) for code in codes] == bad.tolist()
    for code, text in zip(codes, texts, strict=True):
        if text is not None:
            assert book.values[code] == read_rejected([text], column)[0]
    return texts, bad.tolist()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", NUMBERS, ids=str)
def test_both_cast_numbers_alike(kind: pa.DataType, name: str) -> None:
    """Each number of each type as each other type: a value to both, and the same, or none to both."""
    given = NUMBERS[kind]
    if pa.types.is_decimal(kind):
        given = [Decimal(each) for each in given]
    array = pa.array([*given, None], kind)
    both_read(column_of(kind, **{"as": name}), array)


def test_an_id_that_became_a_fraction_is_whole_again() -> None:
    """17850.0 is 17850, and what two ids could have become is nobody's."""
    column = column_of(pa.float64(), **{"as": "long"})
    ids = [17850.0, 0.0, float(2**53), 17850.5, None]
    assert both_read(column, pa.array(ids)) == (
        ["17850", "0", None, None, None],
        [False, False, True, True, False],
    )


def test_both_cast_days_and_truths_alike() -> None:
    """Days as instants and text, instants as days, truths as text; also where a zone says what a day is."""
    day, instant = pa.date32(), pa.timestamp("us", tz="UTC")
    days = pa.array([0, -1, 18_293, None], pa.int32()).cast(day)
    assert both_read(column_of(day, **{"as": "timestamp"}), days)[0][0] == "1970-01-01 00:00:00.000000Z"
    local = column_of(day, **{"as": "timestamp", "timezone": "Europe/Prague"})
    assert both_read(local, days)[0][2] == "2020-01-31 23:00:00.000000Z"
    assert both_read(column_of(day, **{"as": "string"}), days)[0] == [
        "1970-01-01",
        "1969-12-31",
        "2020-02-01",
        None,
    ]
    instants = pa.array([-1, 0, 86_400_000_000, None], pa.int64()).cast(instant)
    for given in (instants, instants.cast(pa.timestamp("us"))):
        texts, _ = both_read(column_of(given.type, **{"as": "date"}), given)
        assert texts == ["1969-12-31", "1970-01-01", "1970-01-02", None]
    truths = pa.array([True, False, None])
    assert both_read(column_of(pa.bool_(), **{"as": "string"}), truths)[0] == ["true", "false", None]


def test_uuids_are_text_in_lower_case() -> None:
    """Whatever way they are held."""
    ids = [UUID(int=0), UUID("6BA7B810-9DAD-11D1-80B4-00C04FD430C8"), None, UUID(int=2**128 - 1)]
    array = pa.array([None if each is None else each.bytes for each in ids], pa.uuid())
    expected = [None if each is None else str(each) for each in ids]
    assert both_read(column_of(pa.uuid()), array) == (expected, [False] * 4)
    assert both_read(column_of(pa.uuid(), **{"as": "string"}), array.slice(1)) == (expected[1:], [False] * 3)


def test_times_of_day_are_microseconds() -> None:
    """Of any unit, finer ones cut; what no day has is no value."""
    for unit, ticks, text in (
        ("s", 86_399, "23:59:59.000000"),
        ("ms", 1, "00:00:00.001000"),
        ("us", 1, "00:00:00.000001"),
        ("ns", 1_999, "00:00:00.000001"),
    ):
        kind = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        width = pa.int32() if unit in ("s", "ms") else pa.int64()
        array = pa.array([ticks, 0, None, day, -1], width).view(kind)
        whole = "00:00:00.000000"
        assert both_read(column_of(kind), array) == (
            [text, whole, None, None, None],
            [False] * 3 + [True] * 2,
        )
        assert both_read(column_of(kind, **{"as": "string"}), array)[0][0] == text


def test_instants_beyond_the_calendar_are_none_to_both() -> None:
    """Arrow holds them, and prints some of them wrong."""
    for unit, ticks in (("s", 10**12), ("ms", 10**15), ("us", -5 * 10**17)):
        kind = pa.timestamp(unit, tz="UTC")
        array = pa.array([0, ticks, None], pa.int64()).cast(kind)
        assert both_read(column_of(kind), array)[1] == [False, True, False]
