"""What a policy may say of payload that tells less, and what releases say of it."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_file import parse_policy, policy_digest, to_mapping
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.rows.classify import classify

ROOT = Path(__file__).parents[2]
COLUMNS = ("who", "when", "age", "town", "amount", "mcc", "id", "paid")


def policy(fields: dict[str, Any] | None = None, **head: Any) -> Policy:
    """A policy of people in windows of a day."""
    declared: dict[str, Any] = {
        "who": "individual",
        "when": "time",
        "age": {"role": "quasi", "type": "numeric", "as": "int"},
        "town": "insensitive",
        "amount": {"role": "sensitive", "as": "decimal(9,2)"},
        "mcc": "insensitive",
        "id": "event_id",
        "paid": {"role": "insensitive", "as": "timestamp"},
    }
    return parse_policy(
        {"version": 1, "k": 3, "window": "1d", "fields": {**declared, **(fields or {})}, **head}, "p", "p"
    )


def bound(fields: dict[str, Any], schema: pa.Schema | None = None) -> BoundPolicy:
    """The policy bound to CSV, or to typed columns."""
    text = schema is None
    return bind(
        policy(fields),
        schema or pa.schema([(name, pa.string()) for name in COLUMNS]),
        text=text,
        source="in",
    )


def refused(fields: dict[str, Any], **head: Any) -> list[str]:
    """The mistakes of a policy."""
    with pytest.raises(PolicyError) as caught:
        policy(fields, **head)
    return list(caught.value.mistakes)


GRIDS: dict[str, Any] = {
    "amount": {"role": "sensitive", "as": "decimal(9,2)", "round": 10, "bottom": 0, "top": 5000},
    "mcc": {"role": "insensitive", "truncate": 4},
    "paid": {"role": "insensitive", "as": "weekday", "timezone": "Europe/Prague"},
    "when": {"role": "time", "timezone": "Europe/Prague"},
    "hour": {"role": "insensitive", "from": "when", "as": "hour"},
}


def test_all_mistakes_are_named_at_once() -> None:
    """A key on a wrong role or type, a grid that is none, an end off the grid; each with its field and the mend."""
    mistakes = refused(
        {
            "who": {"role": "individual", "truncate": 3},
            "when": {"role": "time", "as": "hour"},
            "age": {"role": "quasi", "type": "numeric", "as": "int", "round": 10},
            "town": {"role": "insensitive", "truncate": 1},
            "id": {"role": "event_id", "truncate": 8},
            "mcc": {"role": "insensitive", "truncate": 0},
            "amount": {"role": "sensitive", "as": "decimal(9,2)", "round": 10, "bottom": 20, "top": 15},
            "paid": {"role": "insensitive", "as": "minute"},
            "fee": {"role": "sensitive", "as": "double", "round": 0},
            "tip": {"role": "sensitive", "as": "int", "round": 2.5, "truncate": 2},
            "note": {"role": "sensitive", "as": "string", "round": 5},
            "long": {"role": "sensitive", "as": "double", "round": "0.12345678901234567"},
        },
        partition_by=["town"],
    )
    for place, words in (
        ("fields.who.truncate:", "leave it out with role: individual"),
        (
            "fields.when.as: hour",
            "add a field such as booked_hour: {role: insensitive, from: when, as: hour}",
        ),
        ("fields.age.round:", "published as they are (role: sensitive or insensitive)"),
        ("fields.town.truncate:", "in partition_by or split_by, which take values as they are"),
        ("fields.id.truncate:", "leave it out with role: event_id"),
        ("fields.mcc.truncate:", "whole number of at least 1"),
        ("fields.amount.top:", "must not be below bottom"),
        ("fields.amount.top:", "must be a multiple of round (10)"),
        ("fields.paid.as:", "hour, weekday, part_of_day"),
        ("fields.fee.round:", "positive number"),
        ("fields.tip.round:", "type int cannot hold it"),
        ("fields.tip.truncate:", "belongs to text"),
        ("fields.note.round:", "belongs to numbers"),
        ("fields.long.round:", "at most 15 digits"),
    ):
        assert any(each.startswith(place) and words in each for each in mistakes), (place, words, mistakes)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ({"role": "insensitive", "from": "paid", "as": "hour"}, "paid is not the field with role: time"),
        ({"role": "insensitive", "from": "when"}, "belongs to role: sensitive or insensitive with as: hour"),
        ({"role": "identifier", "from": "when", "as": "hour"}, "belongs to role: sensitive or insensitive"),
        ({"role": "insensitive", "from": "when", "as": "hour", "format": "%Y"}, "say it there"),
    ],
)
def test_only_the_event_time_is_published_from_another_column(field: dict[str, Any], words: str) -> None:
    """Anything else would publish a column under a name that hides which one it is."""
    assert any(words in each for each in refused({"hour": field}))


def test_a_field_from_the_time_has_a_name_of_its_own() -> None:
    """A column of the input is not hidden behind it."""
    with pytest.raises(PolicyError, match=r"fields\.hour\.from: the input has a column of this name itself"):
        bound(GRIDS, pa.schema([(name, pa.string()) for name in (*COLUMNS, "hour")]))


@pytest.mark.parametrize(
    ("field", "kind", "words"),
    [
        (
            {"role": "sensitive", "round": 10},
            pa.string(),
            "amount.round: belongs to numbers; for text add as:",
        ),
        ({"role": "sensitive", "round": "0.5"}, pa.int64(), "amount.round: the field's type long cannot"),
        ({"role": "sensitive", "top": 10**10}, pa.int32(), "amount.top: the field's type int cannot hold it"),
        ({"role": "sensitive", "truncate": 2}, pa.int64(), "amount.truncate: belongs to text"),
        ({"role": "sensitive", "truncate": 2}, pa.binary(), "amount.truncate: belongs to text"),
        ({"role": "sensitive", "as": "hour"}, pa.date32(), "amount.as: hour needs times"),
        ({"role": "sensitive", "as": "hour"}, pa.int64(), "say how the numbers spell it"),
        ({"role": "sensitive", "as": "hour"}, pa.bool_(), "cannot be read as hour"),
    ],
)
def test_what_only_the_input_tells_is_refused_when_it_is_bound(
    field: dict[str, Any], kind: pa.DataType, words: str
) -> None:
    """Types of columns, where the policy says none."""
    columns = [(name, pa.string()) for name in COLUMNS if name != "amount"]
    with pytest.raises(PolicyError) as caught:
        bound({"amount": field}, pa.schema([*columns, ("amount", kind)]))
    assert any(words in each for each in caught.value.mistakes), caught.value.mistakes


def test_the_example_of_the_document_is_a_policy() -> None:
    """docs/policy.md: it reads, binds to files of text, and publishes what the comments say."""
    section = (ROOT / "docs/policy.md").read_text().split("## Payload that tells less\n")[1].split("\n- ")[0]
    example = yaml.safe_load("\n".join(line for line in section.splitlines() if line.startswith("    ")))
    own = {"who": "individual", "age": {"role": "quasi", "type": "numeric"}, **example}
    documented = parse_policy({"version": 1, "k": 3, "window": "1d", "fields": own}, "p", "p")
    columns = [(field.name, pa.string()) for field in documented.fields if field.source is None]
    made = bind(documented, pa.schema(columns), text=True, source="in")
    cells = {
        "amount": "5005.00",
        "mcc": "5411",
        "paid_at": "2026-03-01T23:30:00",
        "booked_at": "2026-03-01T08:00",
    }
    row = pa.table({name: [cells.get(name, "1")] for name, _ in columns})
    (published,) = classify(row, made).rows.select([each.name for each in made.payload]).to_pylist()
    assert published == {"amount": Decimal(5000), "mcc": "54", "paid_at": "sunday", "booked_hour": 8}


def test_types_stay_but_those_of_parts_of_times() -> None:
    """An hour is an int; a weekday a string; an amount keeps its scale."""
    types = {column.name: column.arrow_type for column in bound(GRIDS).payload}
    assert types == {
        "town": pa.string(),
        "amount": pa.decimal128(9, 2),
        "mcc": pa.string(),
        "paid": pa.string(),
        "hour": pa.int32(),
    }


def test_a_release_says_each_grid() -> None:
    """Its keys, for programs, and the whole in words."""
    schema = release_avro_schema(bound(GRIDS))
    told = {field["name"]: field.get("kanonflow", {}) for field in schema["fields"]}
    assert told["amount"]["round"] == "10"
    assert told["amount"]["top"] == "5000"
    assert told["amount"]["published"] == "rounded to multiples of 10, at least 0, at most 5,000"
    assert told["mcc"]["published"] == "first 4 characters"
    assert told["paid"]["published"] == "the day of the week, Europe/Prague"
    assert told["hour"]["published"] == "the hour of the day, 0 to 23, Europe/Prague"
    assert told["town"] == {"field": "town", "role": "insensitive"}


def test_grids_are_written_back_as_they_were_read() -> None:
    """To the last digit."""
    one = policy({**GRIDS, "fee": {"role": "sensitive", "as": "double", "round": "0.05"}})
    assert parse_policy(to_mapping(one), "p", "p") == one
    assert to_mapping(one)["fields"]["fee"]["round"] == "0.05"


def digest(one: Policy) -> str:
    """The beginning of a digest's digest."""
    return hashlib.sha256(policy_digest(one)).hexdigest()[:16]


def test_a_policy_without_grids_keeps_its_digest() -> None:
    """The bytes that states and releases of earlier builds know it by; with a grid it is another policy."""
    assert digest(read_policy(str(ROOT / "policies/sparkov.yaml"))) == "35dcbd2e8ee8cb52"
    assert digest(policy()) == "1cbecb51e24e6efe"
    assert len({digest(policy(fields)) for fields in (None, GRIDS, {"mcc": GRIDS["mcc"]})}) == 3
