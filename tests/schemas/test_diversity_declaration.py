"""What a policy may ask of sensitive fields, and what it is refused for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_fields import Closeness, ClosenessDistance, Diversity, DiversityKind
from kanonflow.schemas.policy_file import parse_policy, policy_digest, policy_from_avro_schema, to_mapping

FREQUENT = {"kind": "frequency", "l": 3}
CLOSE = {"distance": "ordered", "t": 0.2}


def mapping(amount: Any = None, **head: Any) -> dict[str, Any]:
    """A policy over single rows with one sensitive field."""
    fields = {
        "age": {"role": "quasi", "type": "numeric", "as": "int"},
        "amount": {"role": "sensitive", "as": "double"} | (amount or {}),
    }
    return {"version": 1, "k": 5, "fields": fields} | head


def policy(amount: Any = None, **head: Any) -> Policy:
    return parse_policy(mapping(amount, **head), "a test", "test")


def mistakes(given: dict[str, Any]) -> list[str]:
    """What the policy is refused for."""
    with pytest.raises(PolicyError) as raised:
        parse_policy(given, "a test", "test")
    return list(raised.value.mistakes)


def test_rules_are_read_and_written_back() -> None:
    """Both keys, as a file or an Avro property holds them; they count in the policy's digest."""
    read = policy({"diversity": FREQUENT, "closeness": CLOSE})
    field = read.field("amount")
    assert field.diversity == Diversity(DiversityKind.FREQUENCY, 3.0)
    assert field.closeness == Closeness(ClosenessDistance.ORDERED, 0.2)
    assert read.ruled == (field,)
    assert parse_policy(to_mapping(read), "again", "test") == read
    assert policy_digest(read) != policy_digest(policy({"diversity": FREQUENT}))
    avro = {
        "type": "record",
        "name": "test",
        "kanonflow": {"k": 5},
        "fields": [
            {"name": name, "type": "double", "kanonflow": entry}
            for name, entry in mapping({"diversity": FREQUENT, "closeness": CLOSE})["fields"].items()
        ],
    }
    assert policy_from_avro_schema(avro, "a schema").ruled == read.ruled


def test_rules_make_classes_of_rows() -> None:
    """Without a rule single rows stand in a graph; with one they form closed classes."""
    assert not policy().closed
    assert policy().ruled == ()
    assert policy({"closeness": {"distance": "equal", "t": 0.5}}).closed


def test_all_mistakes_are_reported_at_once() -> None:
    """Keys, numbers and limits of several fields, each named."""
    given = mapping({"diversity": {"kind": "frequent", "l": "many"}, "closeness": {"distance": "equal"}})
    given["fields"]["age"] |= {"diversity": FREQUENT}
    given["fields"]["other"] = {
        "role": "sensitive",
        "diversity": {"kind": "distinct", "l": 2.5, "m": 1},
        "closeness": {"distance": "equal", "t": 1},
    }
    given["fields"]["third"] = {"role": "sensitive", "diversity": {"kind": "entropy", "l": 1}}
    given["fields"]["fourth"] = {"role": "sensitive", "diversity": {"kind": "distinct", "l": 6}}
    found = "\n".join(mistakes(given))
    for expected in (
        "fields.amount.diversity.kind: must be one of distinct, entropy, frequency (did you mean frequency?)",
        "fields.amount.diversity.l: must be a number",
        "fields.amount.closeness: must be a mapping such as {distance: equal, t: 0.2}",
        "fields.age.diversity: only a field with role: sensitive has it, and this is role: quasi",
        "fields.other.diversity.m: unknown key",
        "fields.other.diversity.l: must be a whole number of at least 2 for kind: distinct",
        "fields.other.closeness.t: must be above 0 and below 1",
        "fields.third.diversity.l: must be above 1",
        "fields.fourth.diversity.l: must be at most k = 5",
    ):
        assert expected in found


def test_graphs_are_refused() -> None:
    """A graph meets such rules only on average: no rows of individuals one by one."""
    given = mapping({"diversity": FREQUENT}, individual="card", protect="row")
    assert "say protect: individual" in "\n".join(mistakes(given))
    assert parse_policy(mapping({"diversity": FREQUENT}, individual="card"), "a test", "test").closed


def test_an_ordered_distance_needs_an_order() -> None:
    """Text and bytes have none; numbers, dates, instants and decimals have."""
    ordered = policy({"closeness": CLOSE, "as": None})
    for kind in (pa.float64(), pa.int32(), pa.date32(), pa.decimal128(9, 2), pa.timestamp("ms", tz="UTC")):
        bind(ordered, pa.schema({"age": pa.int32(), "amount": kind}), text=False, source="a test")
    for kind in (pa.binary(), pa.bool_()):
        with pytest.raises(PolicyError, match=r"amount\.closeness\.distance: ordered needs numbers"):
            bind(ordered, pa.schema({"age": pa.int32(), "amount": kind}), text=False, source="a test")
