"""Values of one field as the audit has them; cells by the second reader, too."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.read.kinds import value_faults
from kanonflow.pipelines.audit.read.values import (
    CodeBook,
    Unreadable,
    read_object,
    read_rejected,
    read_texts,
)
from kanonflow.schemas.bound_policy import BoundColumn, bind
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.schemas.text_form import Fold, TextForm
from tests.twin_text_cells import read_text

GERMAN = TextForm(",", ".", ("n/a",))
PRAGUE = TextForm(timezone="Europe/Prague")
FIRST, SECOND = (TextForm(timezone="Europe/Prague", fold=fold) for fold in Fold)
MS = pa.timestamp("ms", tz="UTC")
US = pa.timestamp("us", tz="UTC")
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("", pa.string(), None),
        (" x ", pa.string(), " x "),
        (" 7 ", pa.int32(), 7),
        ("+7", pa.int64(), 7),
        ("7.0", pa.int64(), 7),
        ("7.5", pa.int64(), Unreadable("7.5")),
        ("TRUE", pa.bool_(), True),
        ("0", pa.bool_(), False),
        ("yes", pa.bool_(), Unreadable("yes")),
        ("0.1", pa.float32(), 0.10000000149011612),
        ("1e400", pa.float64(), Unreadable("1e400")),
        ("nan", pa.float64(), Unreadable("nan")),
        ("12.50", pa.decimal128(9, 2), 1250),
        ("12.505", pa.decimal128(9, 2), Unreadable("12.505")),
        ("1970-01-02", pa.date32(), 1),
        ("1970-02-30", pa.date32(), Unreadable("1970-02-30")),
        ("1970-01-02", MS, DAY_MS),
        ("1970-01-02 00:00:00.0019", MS, DAY_MS + 1),
        ("1970-01-02T01:00:00+01:00", US, DAY_MS * 1000),
        ("1969-12-31 23:59:59.9995Z", MS, -1),
        ("0001-01-01T00:00+00:01", MS, Unreadable("0001-01-01T00:00+00:01")),
    ],
)
def test_cells_of_text(text: str, kind: pa.DataType, value: Any) -> None:
    """A cell is a value of its field's type, null when empty, or unreadable; instants are cut to the unit."""
    assert read_texts([text], kind) == [read_text(text, kind)] == [value]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (dt.date(1969, 12, 31), pa.date32(), "1969-12-31"),
        (dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC), MS, "2024-01-01 05:00:00.000Z"),
        (1_704_067_200_000, MS, "2024-01-01"),
        (Decimal("-3.25"), pa.decimal128(38, 4), "-3.2500"),
        (2**63, pa.decimal128(20, 0), str(2**63)),
        (float("inf"), pa.float64(), "inf"),
        (b"\x00\xff", pa.binary(), "00ff"),
        (True, pa.bool_(), "true"),
        (None, pa.string(), None),
    ],
)
def test_typed_values_equal_their_text_in_rejected_rows(value: Any, kind: pa.DataType, text: str) -> None:
    """A typed value and the text that a rejected row keeps of it are read as the same value."""
    column = BoundColumn(Field("a", Role.INSENSITIVE), kind, from_text=False)
    assert read_rejected([text], column) == [read_object(value, kind)]


@pytest.mark.parametrize(
    ("text", "kind", "form", "value"),
    [
        ("1.234,50", pa.decimal128(9, 2), GERMAN, 123450),
        ("1234,5", pa.float64(), GERMAN, 1234.5),
        ("1.5", pa.float64(), GERMAN, Unreadable("1.5")),
        (" n/a ", pa.string(), GERMAN, None),
        ("31.12.1999", pa.date32(), TextForm(format="%d.%m.%Y"), 10_956),
        ("1999-12-31", pa.date32(), TextForm(format="%d.%m.%Y"), Unreadable("1999-12-31")),
        ("2020-10-25 02:30", MS, PRAGUE, Unreadable("2020-10-25 02:30")),
        ("2020-10-25 02:30", MS, FIRST, 18_560 * DAY_MS + 1_800_000),
        ("2020-10-25 02:30", MS, SECOND, 18_560 * DAY_MS + 5_400_000),
        ("2020-03-29 02:30", MS, FIRST, 18_350 * DAY_MS + 5_400_000),
        ("2020-03-29 02:30", MS, SECOND, 18_350 * DAY_MS + 1_800_000),
        ("2020-10-25 02:30Z", MS, PRAGUE, 18_560 * DAY_MS + 9_000_000),
    ],
)
def test_cells_in_other_forms(text: str, kind: pa.DataType, form: TextForm, value: Any) -> None:
    """What the policy says of its text decides, and nothing else is taken."""
    assert read_texts([text], kind, form) == [read_text(text, kind, form)] == [value]


def test_a_rejected_cell_is_what_came_or_canonical() -> None:
    """A date in the wrong form is none in the input; a rejected row that says that it came so is that row, one that
    does not is the row with this date."""
    fields = {"day": {"role": "quasi", "type": "date", "format": "%d.%m.%Y"}, "n": {"role": "sensitive"}}
    policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")
    schema = pa.schema([(name, pa.string()) for name in fields])
    book = CodeBook(bind(policy, schema, text=True, source="test", csv=True).columns[0])
    assert book.codes_of_texts(["02.01.2020", "2020-01-02", ""]).tolist() == [0, 1, -1]
    told = [("2020-01-02", True), ("2020-01-02", False), (None, False)]
    assert book.codes_of_rejected(told, 3).tolist() == [1, 0, -1]
    assert value_faults(book).tolist() == [False, True]


def test_values_beyond_a_coded_domain_are_one() -> None:
    """With ``outside: code`` everything beyond an end of the domain is that end; else it must be rejected."""
    fields = {
        "a": {"role": "quasi", "type": "numeric", "domain": [0, 10], "outside": "code"},
        "b": {"role": "quasi", "type": "numeric", "domain": [0, 10]},
        "c": {"role": "quasi", "type": "categorical", "domain": ["x"]},
    }
    policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")
    schema = pa.schema([(name, pa.string()) for name in fields])
    a, b, c = (CodeBook(column) for column in bind(policy, schema, text=True, source="test").columns)
    assert a.codes_of_texts(["11", "10", "99.5", "", "-1", "0"]).tolist() == [1, 1, 1, -1, 0, 0]
    assert not value_faults(a).any()
    assert b.codes_of_texts(["11", "10", "?"]).tolist() == [1, 0, 2]
    assert value_faults(b).tolist() == [False, True, True]
    c.codes_of_texts(["x", "y"])
    assert value_faults(c).tolist() == [False, True]
