"""Classifying rows: good ones typed, bad ones with a reason, and no value in any message."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.avro_schema import rejected_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.classify import classify

FIELDS: dict[str, Any] = {
    "when": {"role": "time"},
    "who": {"role": "individual"},
    "age": {"role": "quasi", "type": "numeric", "as": "int", "domain": [0, 120]},
    "income": {"role": "quasi", "type": "numeric", "domain": [0, 1000], "outside": "code"},
    "born": {"role": "quasi", "type": "date"},
    "sex": {"role": "quasi", "type": "categorical", "domain": ["F", "M"]},
    "amount": {"role": "sensitive", "as": "decimal(9,2)"},
    "name": {"role": "identifier"},
}
GOOD = {
    "when": "2020-01-01 12:00:00",
    "who": "u1",
    "age": "39",
    "income": "500",
    "born": "1980-02-29",
    "sex": "F",
    "amount": "12.5",
    "name": "Ann",
}
TYPED = {
    "when": pa.timestamp("us"),
    "who": pa.int64(),
    "age": pa.int16(),
    "income": pa.float64(),
    "born": pa.date32(),
    "sex": pa.dictionary(pa.int32(), pa.string()),
    "amount": pa.decimal128(9, 2),
    "name": pa.string(),
}


def bound(text: bool = True, **head: Any) -> BoundPolicy:
    """The feed's policy bound to text or to typed columns."""
    mapping = {"version": 1, "k": 2, "window": "1d", "cohort": "window", "fields": FIELDS, **head}
    schema = pa.schema([(name, pa.string() if text else kind) for name, kind in TYPED.items()])
    return bind(parse_policy(mapping, "", "feed"), schema, text=text, source="feed")


def text_rows(*changes: dict[str, str | None]) -> pa.Table:
    """Good rows of text, each with changes."""
    return pa.table({name: [{**GOOD, **change}[name] for change in changes] for name in GOOD})


def day_end(day: int) -> int:
    """End of a January day of 2020, in milliseconds."""
    return int(dt.datetime(2020, 1, day, tzinfo=dt.UTC).timestamp() * 1000) + 86_400_000


def test_good_rows_come_out_typed_and_in_order() -> None:
    """Identifiers are gone, everything else is in the canonical schema; an empty cell is a null."""
    rows, rejected = classify(text_rows({}, {"age": "", "who": "u2"}), bound())
    assert rejected == []
    assert rows.schema == bound().canonical_schema
    first, second = rows.to_pylist()
    assert first == {
        "when": dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC),
        "who": "u1",
        "age": 39,
        "income": 500.0,
        "born": dt.date(1980, 2, 29),
        "sex": "F",
        "amount": Decimal("12.50"),
    }
    assert (second["who"], second["age"]) == ("u2", None)


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"age": "old"}, "bad_value", "age"),
        ({"age": "39.5"}, "bad_value", "age"),
        ({"income": "NaN"}, "bad_value", "income"),
        ({"income": "1e999"}, "bad_value", "income"),
        ({"born": "1981-02-29"}, "bad_value", "born"),
        ({"amount": "1.005"}, "bad_value", "amount"),
        ({"when": "yesterday"}, "bad_value", "when"),
        ({"when": "0000-01-01 00:00:00"}, "bad_value", "when"),
        ({"born": "0000-01-01"}, "bad_value", "born"),
        ({"when": ""}, "missing_value", "when"),
        ({"who": None}, "missing_value", "who"),
        ({"age": "121"}, "outside_domain", "age"),
        ({"sex": "X"}, "outside_domain", "sex"),
    ],
)
def test_one_bad_cell_is_one_rejected_row(change: dict[str, str | None], reason: str, field: str) -> None:
    """A bad row is rejected with field and reason, its neighbours are not touched."""
    rows, rejected = classify(text_rows({}, change, {"who": "u3"}), bound(), source="feed.csv")
    assert rows.column("who").to_pylist() == ["u1", "u3"]
    (record,) = rejected
    assert (record["reason"], record["field"], record["source"]) == (reason, field, "feed.csv")
    assert record["row"][field] == (next(iter(change.values())) or None)
    assert record["window_end"] == (None if field == "when" else day_end(1))


def test_messages_name_all_bad_fields_and_no_value() -> None:
    """The first bad field gives the reason, the message all of them, and values stay in the row."""
    _, (record,) = classify(text_rows({"age": "secret1", "sex": "secret2", "who": ""}), bound())
    assert (record["reason"], record["field"]) == ("missing_value", "who")
    assert [part.split(":")[0] for part in record["message"].split("; ")] == ["who", "age", "sex"]
    assert "secret" not in record["message"]
    assert record["unread"] == ["age"]
    assert record["row"] == {
        "when": "2020-01-01 12:00:00.000Z",
        "who": None,
        "age": "secret1",
        "income": "500",
        "born": "1980-02-29",
        "sex": "secret2",
        "amount": "12.50",
    }


def test_rejected_rows_are_records_of_their_schema() -> None:
    """What classify rejects can be written as rejected.avsc says."""
    _, rejected = classify(text_rows({"age": "x"}, {"when": "x"}), bound())
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(rejected_schema()), rejected)
    file.seek(0)
    ends = [record["window_end"] for record in fastavro.reader(file)]
    assert ends == [dt.datetime(2020, 1, 2, tzinfo=dt.UTC), None]


def test_outside_code_cuts_to_the_domain() -> None:
    """An open top or bottom code keeps the row and hides how far beyond its value lies."""
    rows, rejected = classify(text_rows({"income": "-5"}, {"income": "99999"}, {"income": ""}), bound())
    assert rows.column("income").to_pylist() == [0.0, 1000.0, None]
    assert rejected == []


def typed_rows(**changes: Any) -> pa.Table:
    """Two good typed rows, the first with changes."""
    good = {
        "when": dt.datetime(2020, 1, 1, 12, 0, 0, 1999),
        "who": 7,
        "age": 39,
        "income": 500.0,
        "born": dt.date(1980, 2, 29),
        "sex": "F",
        "amount": Decimal("12.50"),
        "name": "Ann",
    }
    rows = [{**good, **changes}, good]
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPED.items()})


def test_typed_rows_keep_their_types() -> None:
    """Typed columns become canonical without a detour through text; event times are cut to milliseconds."""
    rows, rejected = classify(typed_rows(), bound(text=False))
    assert rejected == []
    assert rows.schema.types == [
        pa.timestamp("ms", tz="UTC"),
        pa.int64(),
        pa.int32(),
        pa.float64(),
        pa.date32(),
        pa.string(),
        pa.decimal128(9, 2),
    ]
    assert rows.column("when")[0].as_py().microsecond == 1000


@pytest.mark.parametrize(
    ("change", "reason", "text"),
    [
        ({"income": float("nan")}, "bad_value", "nan"),
        ({"income": float("inf")}, "bad_value", "inf"),
        ({"age": 130}, "outside_domain", "130"),
        ({"sex": "X"}, "outside_domain", "X"),
        ({"who": None}, "missing_value", None),
    ],
)
def test_bad_typed_rows(change: dict[str, Any], reason: str, text: str | None) -> None:
    """Typed values are checked by the same rules."""
    rows, (record,) = classify(typed_rows(**change), bound(text=False))
    field = next(iter(change))
    assert (rows.num_rows, record["reason"], record["field"]) == (1, reason, field)
    assert record["row"][field] == text


def test_dates_beyond_the_calendar_are_bad_values() -> None:
    """A Parquet file can hold the year 20000; no Avro reader can."""
    table = typed_rows()
    table = table.set_column(4, "born", pa.array([7_000_000, 0], pa.int32()).cast(pa.date32()))
    table = table.set_column(0, "when", pa.array([0, 10**18], pa.int64()).cast(pa.timestamp("us")))
    rows, rejected = classify(table, bound(text=False))
    assert rows.num_rows == 0
    assert [(record["reason"], record["field"]) for record in rejected] == [
        ("bad_value", "born"),
        ("bad_value", "when"),
    ]


def test_batches_that_are_not_what_was_bound() -> None:
    """A file with a column less, or of another type, is a broken input and not a bad row."""
    with pytest.raises(InputError, match=r"b.csv: has no column age"):
        classify(text_rows({}).drop_columns(["age"]), bound(), source="b.csv")
    wrong = typed_rows().set_column(3, "income", pa.array(["a", "b"]))
    with pytest.raises(InputError, match="column income has type string"):
        classify(wrong, bound(text=False))
    wrong = typed_rows().set_column(0, "when", pa.array([1, 2]))
    with pytest.raises(InputError, match="column when has type int64"):
        classify(wrong, bound(text=False))


def test_an_empty_batch() -> None:
    """No rows in, no rows out, in the canonical schema."""
    rows, rejected = classify(text_rows(), bound())
    assert (rows.num_rows, rejected, rows.schema) == (0, [], bound().canonical_schema)


CELLS = {
    "age": st.sampled_from(["1", "", "x", "121", " 5"]),
    "income": st.sampled_from(["1", "-1", "inf"]),
    "who": st.sampled_from(["u", ""]),
    "sex": st.sampled_from(["F", "X", ""]),
}


@settings(derandomize=True, max_examples=60)
@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=8), st.data())
def test_rows_are_judged_one_by_one(changes: list[dict[str, str]], data: st.DataObject) -> None:
    """Every row is either released or rejected, and cutting a batch in two changes neither."""
    table, policy = text_rows(*changes), bound()
    cut = data.draw(st.integers(0, len(changes)))
    whole = classify(table, policy)
    parts = [classify(part, policy) for part in (table.slice(0, cut), table.slice(cut))]
    assert whole.rows.num_rows + len(whole.rejected) == len(changes)
    assert whole.rows.to_pylist() == [row for part in parts for row in part.rows.to_pylist()]
    assert whole.rejected == [record for part in parts for record in part.rejected]


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ("9999-12-31 12:00:00", False),
        ("9999-12-29 23:59:59", False),
        ("9999-12-28 23:59:59", True),
        ("0001-01-01 00:00:00", True),
    ],
)
def test_a_time_whose_window_no_calendar_holds_is_a_bad_value(when: str, fits: bool) -> None:
    """ "The end of time" as a date: its window would end in the year 10000, which readers of Avro cannot read."""
    fields = {"when": "time", "x": {"role": "quasi", "type": "categorical"}}
    head = {"version": 1, "k": 2, "window": "1d", "max_delay": "2d", "fields": fields}
    policy = parse_policy(head, "test", "test")
    columns = pa.schema([("when", pa.string()), ("x", pa.string())])
    bound = bind(policy, columns, text=True, source="test")
    rows, rejected = classify(pa.table({"when": [when], "x": ["a"]}), bound)
    assert (rows.num_rows, len(rejected)) == ((1, 0) if fits else (0, 1))
    assert all(record["window_end"] is None and record["field"] == "when" for record in rejected)
