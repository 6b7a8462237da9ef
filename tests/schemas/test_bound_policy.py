"""Binding a policy to an input: types, domains in units, and every misfit at once."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy_file import parse_policy

MILLISECONDS, MICROSECONDS = pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")


def bound(
    fields: dict[str, Any], columns: dict[str, pa.DataType], text: bool = False, **head: Any
) -> BoundPolicy:
    """A policy of these fields (and a quasi-identifier, so that it is one) bound to these columns."""
    fields = {"sex": {"role": "quasi", "type": "categorical"}, **fields}
    policy = parse_policy({"version": 1, "k": 2, "fields": fields, **head}, "", "people")
    return bind(
        policy, pa.schema(list({"sex": pa.string(), **columns}.items())), text=text, source="people.csv"
    )


def mistakes_of(*args: Any, **kwargs: Any) -> tuple[str, ...]:
    """What the binding is refused for."""
    with pytest.raises(PolicyError) as caught:
        bound(*args, **kwargs)
    assert str(caught.value).startswith("people does not fit people.csv: ")
    return caught.value.mistakes


def test_text_takes_its_types_from_the_policy() -> None:
    """In a text input ``as`` decides, else the role: numbers are doubles, dates dates, times instants."""
    fields = {
        "when": {"role": "time"},
        "who": {"role": "individual"},
        "age": {"role": "quasi", "type": "numeric"},
        "size": {"role": "quasi", "type": "numeric", "as": "int"},
        "born": {"role": "quasi", "type": "date"},
        "seen": {"role": "quasi", "type": "date", "as": "timestamp"},
        "pay": {"role": "sensitive", "as": "decimal(9,2)"},
        "note": {"role": "insensitive"},
        "id": {"role": "identifier"},
    }
    binding = bound(fields, dict.fromkeys(fields, pa.string()), text=True, window="1d", cohort="window")
    assert binding.canonical_schema == pa.schema(
        [
            ("sex", pa.string()),
            ("when", MILLISECONDS),
            ("who", pa.string()),
            ("age", pa.float64()),
            ("size", pa.int32()),
            ("born", pa.date32()),
            ("seen", MILLISECONDS),
            ("pay", pa.decimal128(9, 2)),
            ("note", pa.string()),
        ]
    )
    assert binding.input_columns == tuple(binding.canonical_schema.names)
    assert all(column.from_text for column in binding.columns)
    assert [column.in_ranges and column.values.grid for column in binding.quasis] == [
        False,
        "float",
        "integer",
        "date",
        "timestamp",
    ]
    assert pickle.loads(pickle.dumps(binding)) == binding


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (pa.int8(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.binary(4), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("s"), MILLISECONDS),
        (pa.timestamp("us", tz="Europe/Berlin"), MICROSECONDS),
        (pa.timestamp("ns"), MICROSECONDS),
        (pa.decimal256(30, 4), pa.decimal128(30, 4)),
        (pa.null(), pa.string()),
        (pa.uuid(), pa.string()),
        (pa.time32("s"), pa.time64("us")),
        (pa.time64("ns"), pa.time64("us")),
    ],
)
def test_typed_payload_keeps_its_type(given: pa.DataType, kept: pa.DataType) -> None:
    """A typed column keeps its logical type, in the narrowest canonical one that holds all of its values."""
    assert bound({"x": "sensitive"}, {"x": given}).column("x").arrow_type == kept


def test_a_typed_input_is_cast_where_the_policy_says_so() -> None:
    """``as`` applies to columns of text and to those of another type; an instant keeps its unit."""
    fields = {"x": {"role": "quasi", "type": "numeric", "as": "double"}}
    assert bound(fields, {"x": pa.string()}).column("x").from_text
    cast = bound(fields, {"x": pa.int64()}).column("x")
    assert (cast.arrow_type, cast.own_type, cast.values.grid) == (pa.float64(), pa.int64(), "float")
    assert bound(fields, {"x": pa.float64()}).column("x").own_type is None
    person = {"x": {"role": "individual", "as": "long"}}
    assert bound(person, {"x": pa.float64()}).column("x").arrow_type == pa.int64()
    instant = {"x": {"role": "sensitive", "as": "timestamp"}}
    for given, kept in ((pa.timestamp("ms"), MILLISECONDS), (pa.date32(), MICROSECONDS)):
        column = bound(instant, {"x": given}).column("x")
        assert (column.arrow_type, column.own_type) == (kept, None)
    (mistake,) = mistakes_of({"x": {"role": "quasi", "type": "numeric"}}, {"x": pa.string()})
    assert mistake.startswith("fields.x: is string in the input, but type: numeric needs a column of numbers")


@pytest.mark.parametrize(
    ("entry", "given", "part"),
    [
        ({"role": "quasi", "type": "numeric"}, pa.date32(), "type: numeric needs"),
        ({"role": "quasi", "type": "numeric"}, pa.decimal128(19, 0), "at most 18 digits"),
        ({"role": "quasi", "type": "date"}, pa.int64(), "type: date needs"),
        ({"role": "quasi", "type": "categorical"}, pa.float64(), "type: categorical needs"),
        ({"role": "individual"}, pa.float64(), "add as: long"),
        (
            {"role": "sensitive", "as": "timestamp"},
            pa.int64(),
            "say how the numbers spell it, as in format: epoch_s",
        ),
        (
            {"role": "sensitive", "as": "long"},
            pa.bool_(),
            "fields.x.as: bool in the input cannot be read as long",
        ),
        ({"role": "sensitive", "as": "date"}, pa.float64(), "cannot be read as date"),
        ({"role": "sensitive", "as": "boolean"}, pa.int8(), "cannot be read as boolean"),
        ({"role": "sensitive", "as": "string"}, pa.binary(), "cannot be read as string"),
        ({"role": "sensitive"}, pa.list_(pa.int64()), "not supported; give it role: identifier"),
        ({"role": "sensitive"}, pa.duration("s"), "not supported"),
        ({"role": "quasi", "type": "date"}, pa.time64("us"), "times of day have no ranges; add as: string"),
        ({"role": "quasi", "type": "categorical"}, pa.time32("s"), "type: categorical"),
        ({"role": "individual"}, pa.time32("s"), "role: individual needs"),
        ({"role": "quasi", "type": "numeric", "grid": 0.5}, pa.int64(), "cannot hold multiples"),
        ({"role": "quasi", "type": "numeric", "domain": [0.5, 9]}, pa.int64(), "cannot hold its ends"),
        (
            {"role": "quasi", "type": "numeric", "domain": ["0.001", 9]},
            pa.decimal128(9, 2),
            "cannot hold its ends",
        ),
        ({"role": "quasi", "type": "date", "grid": "hour"}, pa.date32(), "hour is finer"),
        (
            {"role": "quasi", "type": "date", "domain": ["2020-01-01T00:00", "2020-01-02T00:00"]},
            pa.date32(),
            "give two dates without a time",
        ),
    ],
)
def test_types_that_do_not_fit(entry: dict[str, Any], given: pa.DataType, part: str) -> None:
    """A column that cannot play its role is refused with what it would need."""
    (mistake,) = mistakes_of({"x": entry}, {"x": given})
    assert mistake.startswith("fields.x")
    assert part in mistake


def test_all_misfits_are_reported_at_once() -> None:
    """Missing fields, fields without a role and wrong types come in one error."""
    fields = {"gone": "sensitive", "x": {"role": "quasi", "type": "date"}}
    columns = {"x": pa.int64(), "new": pa.string(), "newer": pa.string()}
    starts = [
        "fields that the input does not have: gone;",
        "input fields without a role: new, newer;",
        "fields.x",
    ]
    found = mistakes_of(fields, columns)
    assert [mistake.startswith(start) for mistake, start in zip(found, starts, strict=True)] == [True] * 3
    assert bound({}, {"new": pa.string()}, others="drop").input_columns == ("sex",)


def test_domains_are_in_the_units_of_the_column() -> None:
    """Unscaled decimals, days, milliseconds; a last date includes its whole day."""
    numeric = {"role": "quasi", "type": "numeric", "domain": [-1.5, 20]}
    dates = {"role": "quasi", "type": "date", "domain": ["1969-12-31", "1970-01-02"]}
    instants = {
        "role": "quasi",
        "type": "date",
        "domain": ["1970-01-01T00:00:01", "1970-01-01T02:00:00+01:00"],
    }
    binding = bound(
        {"a": numeric, "b": numeric, "c": dates, "d": dates, "e": instants},
        {"a": pa.float64(), "b": pa.decimal128(9, 2), "c": pa.date32(), "d": MICROSECONDS, "e": MILLISECONDS},
    )
    assert [column.domain for column in binding.quasis] == [
        None,
        (-1.5, 20.0),
        (-150, 2000),
        (-1, 1),
        (-86_400_000, 2 * 86_400_000 - 1),
        (1000, 3_600_000),
    ]


def test_published_names_must_differ() -> None:
    """Avro knows fewer names than CSV: two fields must not become one, nor a column of the release."""
    found = mistakes_of(
        {"a-b": "sensitive", "a_b": "sensitive", "window-end": "sensitive"},
        dict.fromkeys(["a-b", "a_b", "window-end"], pa.string()),
    )
    assert len(found) == 2
    assert "like a-b" in found[0]
    assert "like the release itself" in found[1]


def test_partition_fields_lead_the_payload() -> None:
    """A release has its partition fields first, then the policy's order."""
    fields = {"pay": "sensitive", "state": "insensitive", "id": {"role": "identifier"}}
    binding = bound(fields, dict.fromkeys(fields, pa.string()), partition_by="state")
    assert [column.name for column in binding.payload] == ["state", "pay"]


def test_columns_of_one_name_are_refused() -> None:
    """Two columns of one name leave open which of them has the role."""
    policy = parse_policy(
        {"version": 1, "k": 2, "fields": {"a": {"role": "quasi", "type": "categorical"}}}, "", "p"
    )
    with pytest.raises(PolicyError, match="several columns of the name a"):
        bind(policy, pa.schema([("a", pa.string()), ("a", pa.string())]), text=True, source="x")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.date32(), None),
        (pa.date64(), None),
        (pa.timestamp("ns", tz="Europe/Paris"), None),
        (pa.timestamp("s"), None),
        (pa.string(), "date"),
        (pa.string(), "timestamp"),
    ],
)
def test_dates_and_instants_under_a_hierarchy_are_days(kind: pa.DataType, value: str | None) -> None:
    """Days are its leaves; text is read as what it is said to be; other hierarchies are refused by the field's name."""
    entry = {"role": "quasi", "type": "hierarchy", **({} if value is None else {"as": value})}
    days = {"calendar": ["month"], "domain": ["2020-01-01", "2020-03-31"]}
    column = bound({"born": {**entry, "hierarchy": days}}, {"born": kind}).column("born")
    assert column.arrow_type == pa.date32()
    assert not column.in_ranges
    assert column.text_type == (MILLISECONDS if value == "timestamp" else pa.date32())
    for leaf in ("spring", "2020-1-1", "20200101"):
        (mistake,) = mistakes_of(
            {"born": {**entry, "hierarchy": [[leaf, "*"], ["2020-01-02", "*"]]}}, {"born": kind}
        )
        assert mistake.startswith("fields.born: is ")
        assert "its hierarchy is not one of days; build it, as in {calendar" in mistake
        assert leaf not in mistake
