"""The audit's own reading of values."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.pipelines.audit.values import CodeBook, Unreadable, read_object, read_rejected, read_text
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import parse_policy

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
        ("7.0", pa.int64(), Unreadable("7.0")),
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
    ],
)
def test_cells_of_text(text: str, kind: pa.DataType, value: Any) -> None:
    """A cell is a value of its field's type, null when empty, or unreadable; instants are cut to the unit."""
    assert read_text(text, kind) == value


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (dt.date(1969, 12, 31), pa.date32(), "1969-12-31"),
        (dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC), MS, "2024-01-01 05:00:00.000Z"),
        (dt.date(2024, 1, 1), MS, "2024-01-01"),
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
    assert read_object(value, kind) == read_rejected(text, kind)


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
    assert a.codes_of_texts(["11", "10", "99.5", "", "-1", "0"], 6).tolist() == [0, 0, 0, -1, 1, 1]
    assert not a.faults().any()
    assert b.codes_of_texts(["11", "10", "?"], 3).tolist() == [0, 1, 2]
    assert b.faults().tolist() == [True, False, True]
    c.codes_of_texts(["x", "y"], 2)
    assert c.faults().tolist() == [False, True]
