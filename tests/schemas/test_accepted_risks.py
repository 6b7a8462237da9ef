"""accept_risk in a field's declaration: where it may stand, what it must be, and that it is kept."""

from __future__ import annotations

from typing import Any

import pytest

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Field, Policy, Quasi, QuasiType, Role
from kanonflow.schemas.policy_file import parse_policy, policy_digest, policy_from_avro_schema, to_mapping

REASON = "Partners reconcile by it."


def policy(entry: Any) -> Policy:
    """A policy with a field ``pay`` declared so."""
    fields = {"age": {"role": "quasi", "type": "numeric"}, "pay": entry}
    return parse_policy({"version": 1, "k": 3, "fields": fields}, "", "t")


def test_a_reason_for_an_accepted_risk_is_kept() -> None:
    """Back to a mapping and in the digest of the whole policy; without one nothing is added."""
    accepted = policy({"role": "sensitive", "accept_risk": f" {REASON} "})
    assert accepted.field("pay").accept_risk == REASON
    assert parse_policy(to_mapping(accepted), "", "t") == accepted
    without = policy("sensitive")
    assert "accept_risk" not in to_mapping(without)["fields"]["pay"]
    assert policy_digest(without) != policy_digest(accepted)


def test_a_reason_may_stand_in_an_avro_schema() -> None:
    """In the field's property, like all that a policy file says of a field."""
    fields = [
        {"name": "age", "type": "int", "kanonflow": {"role": "quasi", "type": "numeric"}},
        {"name": "pay", "type": "int", "kanonflow": {"role": "sensitive", "accept_risk": REASON}},
    ]
    schema = {"type": "record", "name": "People", "kanonflow": {"k": 3}, "fields": fields}
    assert policy_from_avro_schema(schema, "x.avsc").field("pay").accept_risk == REASON


@pytest.mark.parametrize("reason", ["", "  ", True, 7, None, ["x"]])
def test_a_reason_is_text(reason: Any) -> None:
    """An empty one, a switch, a number, nothing: one mistake, which says what is wanted."""
    with pytest.raises(PolicyError) as caught:
        policy({"role": "insensitive", "accept_risk": reason})
    (mistake,) = caught.value.mistakes
    assert mistake.startswith("fields.pay.accept_risk: must be the reason")


@pytest.mark.parametrize(
    "entry",
    [
        {"role": "identifier"},
        {"role": "individual"},
        {"role": "quasi", "type": "numeric"},
        {"role": "event_id"},
    ],
)
def test_only_payload_has_a_risk_to_accept(entry: dict[str, Any]) -> None:
    """Fields that are dropped or generalized are not measured."""
    with pytest.raises(
        PolicyError, match=r"pay.accept_risk: belongs to fields that are published as they are"
    ):
        policy({**entry, "accept_risk": REASON})


def test_a_policy_built_in_code_needs_a_reason_too() -> None:
    """The same rule, without a file."""
    fields = (
        Field("age", Role.QUASI, quasi=Quasi(QuasiType.NUMERIC)),
        Field("pay", Role.SENSITIVE, accept_risk=" "),
    )
    with pytest.raises(PolicyError, match="must be the reason"):
        Policy(name="t", k=3, fields=fields)
