"""Records that are not Arrow: values keep their types, names are checked, and what is none is a fault of its cell."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy, bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.classify import ClassifiedPlaces, classify_places
from kanonflow.transforms.rows.element_rows import rows_to_table, text_schema
from kanonflow.transforms.rows.element_types import fields_of, records_schema
from kanonflow.transforms.rows.quasi_faults import QuasiFault

UTC = dt.UTC
NOON = dt.datetime(2024, 3, 1, 12, tzinfo=UTC)
PRAGUE = dt.timezone(dt.timedelta(hours=1))


def policy(value: str | None = None, role: str = "sensitive", cohort: str = "window", **head: Any) -> Policy:
    """A policy with a person, a time, an age and one more field ``x``, of a type and role."""
    field = {"role": role} | ({} if value is None else {"as": value})
    if role == "quasi":
        field["type"] = "categorical"
    fields = {
        "who": {"role": "individual"},
        "when": {"role": "time"},
        "age": {"role": "quasi", "type": "numeric", "domain": [0, 120]},
        "x": field,
        "name": {"role": "identifier"},
    }
    parts = {"version": 1, "k": 3, "window": "1d", "cohort": cohort, "fields": fields} | head
    return parse_policy(parts, "test", "test")


def by_policy(which: Policy) -> BoundPolicy:
    """The policy over dicts."""
    return bind(which, text_schema(which), text=True, source="test")


def checked(rows: list[Any], bound: BoundPolicy) -> ClassifiedPlaces:
    """The elements, as classification leaves them."""
    table, broken, faults = rows_to_table(rows, bound)
    found = classify_places(table, bound, faults=faults)
    return found._replace(rejected=[*broken, *found.rejected])


def element(**changes: Any) -> dict[str, Any]:
    """A dict with every field."""
    return {"who": "p1", "when": NOON, "age": 30, "x": "a", "name": "Eve"} | changes


def one(value: Any, bound: BoundPolicy) -> Any:
    """The canonical value of ``x``, or the reason, field and message of its rejection."""
    found = checked([element(x=value)], bound)
    if found.rejected:
        (record,) = found.rejected
        return record["reason"], record["field"], record["message"]
    return found.rows.column("x")[0].as_py()


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("long", 2**62, 2**62),
        ("long", np.int64(7), 7),
        ("long", 17850.0, 17850),
        ("long", Decimal(17), 17),
        ("int", 2**31 - 1, 2**31 - 1),
        ("double", 3, 3.0),
        ("double", np.float32(0.5), 0.5),
        ("double", Decimal("0.1"), 0.1),
        ("double", 2**70, float(2**70)),
        ("decimal(12,2)", Decimal("12.50"), Decimal("12.50")),
        ("decimal(12,2)", Decimal("1E+3"), Decimal("1000.00")),
        (
            "decimal(38,2)",
            Decimal("123456789012345678901234567890.12"),
            Decimal("123456789012345678901234567890.12"),
        ),
        ("decimal(12,2)", 7, Decimal("7.00")),
        ("decimal(12,2)", 0.1, Decimal("0.10")),
        ("boolean", True, True),
        ("boolean", np.bool_(False), False),
        ("boolean", 1, True),
        ("date", dt.date(2024, 3, 1), dt.date(2024, 3, 1)),
        ("timestamp", NOON, NOON),
        ("timestamp", NOON.replace(tzinfo=None), NOON),
        ("timestamp", NOON.astimezone(PRAGUE), NOON),
        ("timestamp", dt.date(2024, 3, 1), NOON.replace(hour=0)),
        ("timestamp", np.datetime64("2024-03-01T12:00:00.000000001"), NOON),
        ("timestamp", Timestamp(1.5), dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)),
        ("timestamp", dt.datetime(1850, 1, 1, 0, 0, 0, 1, UTC), dt.datetime(1850, 1, 1, 0, 0, 0, 1, UTC)),
        ("long", None, None),
        (None, "Ärztin", "Ärztin"),
        (None, np.str_("a"), "a"),
        (None, uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    ],
)
def test_values_keep_their_types(kind: str | None, value: Any, wanted: Any) -> None:
    """Exactly, also beside a cell of text, which is cast as one of a file is."""
    bound = by_policy(policy(kind))
    assert one(value, bound) == wanted
    assert checked([element(x=value), element(x=value)], bound).rows.column("x").to_pylist() == [wanted] * 2
    text = {"long": "5", "int": "5", "double": "5", "boolean": "true", "date": "2024-05-01"}.get(
        kind or "", ""
    )
    mixed = checked([element(x=text), element(x=value), element(x=None)], bound)
    assert mixed.rejected == []
    assert mixed.rows.column("x").to_pylist()[1:] == [wanted, None]
    assert mixed.rows.schema == bound.canonical_schema


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("long", 2**70, "not a value of type int64"),
        ("long", 1.5, "not a value of type int64"),
        ("long", float("nan"), "not a value of type int64"),
        ("long", True, "a value of type bool, but the field is int64"),
        ("long", NOON, "a value of type datetime, but the field is int64"),
        ("long", "1.5x", "not a value of type int64"),
        ("double", float("inf"), "not finite"),
        ("double", 10**400, "not a value of type double"),
        ("double", b"1", "a value of type bytes"),
        ("decimal(12,2)", Decimal("0.001"), "not a value of type decimal"),
        ("decimal(4,2)", Decimal("123.00"), "not a value of type decimal"),
        ("decimal(12,2)", Decimal("NaN"), "not a value of type decimal"),
        ("boolean", 2, "a value of type int, but the field is bool"),
        ("date", NOON, "a value of type datetime, but the field is date32"),
        ("timestamp", MAX_TIMESTAMP, "beyond the calendar"),
        ("timestamp", dt.datetime(1, 1, 1, tzinfo=PRAGUE), "not a value of type timestamp"),
        ("timestamp", 1_700_000_000, "a value of type int, but the field is timestamp"),
        (None, Decimal("12.50"), "a value of type Decimal, but the field is text; say as: decimal(p,s)"),
        (None, 7, "a value of type int, but the field is text; say as: long"),
        (None, 7.0, "a value of type float, but the field is text; say as: double"),
        (None, True, "a value of type bool, but the field is text; say as: boolean"),
        (None, NOON, "a value of type datetime, but the field is text; say as: timestamp"),
        (None, NOON.date(), "a value of type date, but the field is text; say as: date"),
        (None, ["a"], "a value of type list, but the field is text"),
        ("string", 7, "a value of type int, but the field is text"),
    ],
)
def test_a_value_of_another_type_is_a_bad_value(kind: str | None, value: Any, message: str) -> None:
    """Its own row's alone, with a message that names field and mend and no value."""
    bound = by_policy(policy(kind))
    reason, field, told = one(value, bound)
    assert (reason, field) == ("bad_value", "x")
    assert f"x: {message}" in told or message in told
    good = "a" if kind in (None, "string") else None
    beside = checked([element(x=good), element(x=value), element(x=good)], bound)
    assert (beside.rows.num_rows, len(beside.rejected)) == (2, 1)


def test_a_rejected_row_shows_what_came() -> None:
    """As text; of a number of very many digits its type."""
    bound = by_policy(policy("long"))
    shown = [
        checked([element(x=value)], bound).rejected[0]["row"]["x"] for value in (1.5, Decimal("2.5"), NOON)
    ]
    assert shown == ["1.5", "2.5", "2024-03-01T12:00:00+00:00"]
    assert checked([element(x=10**6000)], bound).rejected[0]["row"]["x"] == "<int>"
    assert "name" not in checked([element(x=1.5)], bound).rejected[0]["row"]


@pytest.mark.parametrize(
    ("value", "wanted"), [(17, "17"), (np.int64(17), "17"), (True, "true"), ("17", "17"), (None, None)]
)
def test_labels_may_be_whole_numbers(value: Any, wanted: str | None) -> None:
    """Individuals, event ids and categories are told apart and not counted with: 17 and "17" are one, in each batch."""
    bound = by_policy(policy(role="quasi"))
    assert one(value, bound) == wanted
    people = checked([element(who=17), element(who="17"), element(who=18.0)], bound)
    assert people.rows.column("who").to_pylist() == ["17", "17"]
    assert [record["field"] for record in people.rejected] == ["who"]


@pytest.mark.parametrize("field", ["who", "when", "age"])
def test_an_absent_key_is_missing_and_none_is_a_null(field: str) -> None:
    """The message tells the two apart; a null quasi-identifier is a value like others."""
    bound = by_policy(policy())
    absent = {name: value for name, value in element().items() if name != field}
    (record,) = checked([absent], bound).rejected
    assert (record["reason"], record["field"]) == ("missing_value", field)
    assert record["message"] == f"{field}: the element has no such key"
    null = checked([element(**{field: None})], bound)
    assert [record["reason"] for record in null.rejected] == ([] if field == "age" else ["missing_value"])


def test_a_partition_is_needed_and_payload_is_not() -> None:
    """A dict without a payload key has a null there, as sparse messages do."""
    parted = by_policy(policy(role="insensitive", partition_by=["x"]))
    absent = {name: value for name, value in element().items() if name not in ("x", "name")}
    assert [each["field"] for each in checked([absent], parted).rejected] == ["x"]
    payload = checked([absent], by_policy(policy()))
    assert (payload.rejected, payload.rows.column("x").to_pylist()) == ([], [None])


def test_an_unknown_key_is_refused_and_its_value_is_nowhere() -> None:
    """A renamed field is noticed at its first record; with others: drop the key is not read."""
    renamed = {
        ("salary_class" if name == "x" else name): value for name, value in element(x="secret").items()
    }
    (record,) = checked([renamed], by_policy(policy())).rejected
    # Fields become names of counters, and a key may be anything.
    assert (record["reason"], record["field"]) == ("unparseable", None)
    assert "keys without a role: salary_class; give each a role, or say others: drop" in record["message"]
    assert "secret" not in str(record)
    dropped = checked([element(more="secret")], by_policy(policy(others="drop")))
    assert (dropped.rejected, dropped.rows.schema.names) == ([], ["who", "when", "age", "x"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"age": "old"}, "bad_value"),
        ({"age": NOON}, "bad_value"),
        ({}, "missing_value"),
        ({"age": "\ud800"}, "bad_value"),
    ],
)
def test_lasting_cohorts_hand_on_what_is_wrong_with_attributes(change: dict[str, Any], reason: str) -> None:
    """Nothing reads them of somebody who is known, so the row of one goes out; a newcomer's is rejected later."""
    row = {name: value for name, value in element().items() if name != "age"} | change
    found = checked([row], by_policy(policy(cohort="lasting")))
    assert found.rejected == []
    fault = QuasiFault.of_cell(found.rows.column(FAULT_COLUMN)[0].as_py())
    assert (fault.reason, fault.field) == (reason, "age")
    assert found.rows.column("age").to_pylist() == [None]


def test_text_that_is_none_breaks_its_row() -> None:
    """In every field that is read of everybody."""
    (record,) = checked([element(x="B\ud800")], by_policy(policy(cohort="lasting"))).rejected
    assert (record["reason"], record["field"], record["row"]["x"]) == ("unparseable", "x", "B\\ud800")


class Payment(NamedTuple):
    """A record with a type of its own."""

    who: int
    when: dt.datetime
    age: int | None
    x: float
    name: str


@dataclasses.dataclass
class Visit:
    """The same as a dataclass."""

    who: bytes
    when: dt.date
    age: str
    x: Any
    name: str


def test_a_records_type_gives_its_columns_their_types() -> None:
    """Where the policy does not say ``as``; text and what tells nothing are as files of text have them."""
    for kind, declared, wanted in (
        (Payment, None, [pa.int64(), pa.timestamp("ms", tz="UTC"), pa.int64(), pa.float64()]),
        (
            Payment,
            "decimal(9,2)",
            [pa.int64(), pa.timestamp("ms", tz="UTC"), pa.int64(), pa.decimal128(9, 2)],
        ),
        (Visit, None, [pa.binary(), pa.timestamp("ms", tz="UTC"), pa.float64(), pa.string()]),
    ):
        which = policy(declared)
        fields = fields_of(kind)
        assert fields is not None
        bound = bind(which, records_schema(which, fields), text=False, source="test")
        assert bound.canonical_schema.types == wanted
    assert fields_of(type("Lost", (Payment,), {"__annotations__": {"who": "NowhereToBeFound"}})) is None
    assert fields_of(dict[str, int]) is None
    assert fields_of(beam.typehints.Dict[str, int]) is None


def test_typed_records_are_read_as_their_types_say() -> None:
    """Text in a typed field is cast as a file's; a field that the records do not have is missing, payload too."""
    which = policy()
    bound = bind(which, records_schema(which, fields_of(Payment) or {}), text=False, source="test")
    rows: list[Any] = [
        Payment(1, NOON, 30, 1.5, "Eve"),
        Payment(2, NOON, None, 2, "Eve"),
        Payment("3", "2024-03-01", "31", "2.5", "Eve"),  # type: ignore[arg-type]
    ]
    found = checked(rows, bound)
    assert found.rejected == []
    assert found.rows.schema == bound.canonical_schema
    assert found.rows.column("x").to_pylist() == [1.5, 2.0, 2.5]
    assert found.rows.column("who").to_pylist() == [1, 2, 3]
    (record,) = checked([beam.Row(who=1, when=NOON, age=3)], bound).rejected
    assert (record["reason"], record["field"]) == ("missing_value", "x")


def test_an_empty_text_is_a_null_in_text_only() -> None:
    """Of records that were given an Arrow schema a text is what it is, in every batch."""
    which = policy(role="quasi")
    typed = (
        text_schema(which).set(1, pa.field("when", pa.timestamp("us"))).set(2, pa.field("age", pa.int64()))
    )
    for bound, wanted in ((by_policy(which), None), (bind(which, typed, text=False, source="test"), "")):
        for beside in ("b", 7):
            found = checked([element(x=""), element(x=beside)], bound)
            assert found.rows.column("x").to_pylist() == [wanted, str(beside)]


def test_a_decimal_without_digits_is_refused() -> None:
    """Its type does not tell them, and a double would round."""

    class Priced(NamedTuple):
        x: Decimal

    with pytest.raises(PolicyError, match=r"fields.x: is a Decimal, .* say as: decimal\(p,s\)"):
        records_schema(policy(), {"x": Decimal})
    assert records_schema(policy("double"), {"x": Decimal}).types == [pa.null()]
