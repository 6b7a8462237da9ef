"""``publish_member`` and ``publish_group`` in a policy: what it says, what it must not, in which words it is told."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kanonflow.schemas.avro_schema import release_arrow_schema, release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_documents import policy_schema
from kanonflow.schemas.policy_file import parse_policy, policy_digest, to_mapping
from kanonflow.schemas.published_group import PublishedGroup
from kanonflow.schemas.published_member import PublishedMember
from kanonflow.transforms.rows.element_rows import text_schema

SAID = {"name": "customer", "accept_risk": "analysts follow customers"}


def policy(said: Any, fields: dict[str, Any] | None = None, **head: Any) -> Policy:
    plain = {
        "version": 1,
        "k": 5,
        "window": "1d",
        "fields": {
            "who": "individual",
            "when": "time",
            "age": {"role": "quasi", "type": "numeric"},
            "town": "insensitive",
            "amount": "sensitive",
            "account no": "identifier",
        }
        | (fields or {}),
    }
    return parse_policy(plain | {"publish_member": said} | head, "test", "test")


def mistakes(said: Any, **head: Any) -> list[str]:
    with pytest.raises(PolicyError) as error:
        policy(said, **head)
    return list(error.value.mistakes)


def bound_of(made: Policy) -> BoundPolicy:
    return bind(made, text_schema(made), text=True, source="test")


def test_it_is_read_and_written() -> None:
    """As it was said; a name is not needed. Without it nothing is written, and the digest is that of before."""
    assert policy(SAID).publish_member == PublishedMember("analysts follow customers", "customer")
    assert to_mapping(policy(SAID))["publish_member"] == SAID
    assert parse_policy(to_mapping(policy(SAID)), "test", "test") == policy(SAID)
    short = policy({"accept_risk": "why"}).publish_member
    assert short is not None
    assert short.name == "member"
    assert "publish_member" not in to_mapping(policy(None))
    assert b"member" not in policy_digest(policy(None))
    assert policy_digest(policy(SAID)) != policy_digest(policy(None))


REFUSED = {
    "a plain yes": (True, {}, "publish_member: must be a mapping such as {name: member, accept_risk:"),
    "no reason": (
        {"name": "customer"},
        {},
        "publish_member.accept_risk: missing; say why every reader may link",
    ),
    "an empty reason": ({"accept_risk": " "}, {}, "publish_member.accept_risk: must be the reason"),
    "another key": (SAID | {"of": 1}, {}, "publish_member.of"),
    "no name of Avro": (SAID | {"name": "the member"}, {}, "publish_member.name: use letters, digits and _"),
    "a column of releases": (
        SAID | {"name": "class_id"},
        {},
        "publish_member.name: a release has a column class_id",
    ),
    "another of them": (
        SAID | {"name": "window_end"},
        {},
        "publish_member.name: a release has a column window_end",
    ),
    "a field's": (SAID | {"name": "amount"}, {}, "publish_member.name: amount is a field's name"),
    "that of a field that is not published": (
        SAID | {"name": "who"},
        {},
        "publish_member.name: who is a field's",
    ),
    "as a field would be published": (
        SAID | {"name": "account_no"},
        {},
        "publish_member.name: account_no is a",
    ),
    "cohorts of a window": (SAID, {"cohort": "window"}, "publish_member: belongs to cohort: lasting"),
    "rows": (SAID, {"protect": "row"}, "publish_member: belongs to cohort: lasting"),
    "known purchases that are measured": (
        SAID,
        {"against": {"known_purchases": {"of": ["amount"]}}},
        "publish_member: beside against.known_purchases without drop",
    ),
    "known windows that are measured": (
        SAID,
        {"against": {"known_windows": {"count": 2}}},
        "publish_member: beside against.known_windows without drop",
    ),
}


@pytest.mark.parametrize(("said", "head", "start"), REFUSED.values(), ids=REFUSED)
def test_mistakes_name_the_key_and_the_mend(said: Any, head: dict[str, Any], start: str) -> None:
    """One each."""
    (mistake,) = mistakes(said, **head)
    assert mistake.startswith(start)


def test_beside_clauses_that_drop_it_may_stand() -> None:
    """Of rows that are out these promise as much to whoever links."""
    against = {
        "known_people": 1,
        "known_windows": {"drop": True},
        "known_purchases": {"of": ["amount"], "drop": True},
    }
    assert policy(SAID, against=against).publish_member is not None
    assert policy(SAID, against={"known_people": 2}).publish_member is not None


def test_a_release_has_the_column_last_and_says_what_it_is() -> None:
    """Text that is always there; in the schema first of all that every reader links."""
    bound = bound_of(policy(SAID))
    assert release_arrow_schema(bound)[-1] == pa.field("customer", pa.string(), nullable=False)
    schema = release_avro_schema(bound, epoch=1)
    assert schema["fields"][-1]["name"] == "customer"
    assert schema["fields"][-1]["type"] == "string"
    assert schema["fields"][-1]["kanonflow"]["role"] == "member"
    assert schema["kanonflow"]["publish_member"].startswith(
        "Every reader links: the column customer has one number"
    )
    assert "publish_member" not in release_avro_schema(bound_of(policy(None)), epoch=1)["kanonflow"]
    assert "reason" not in str(schema)
    assert SAID["accept_risk"] not in str(schema)


def test_what_a_policy_covers_begins_with_it() -> None:
    """And the reason is among the risks that are accepted."""
    made = policy(SAID)
    assert made.promise.covered(made)[0].startswith("Every reader links: the column customer")
    assert made.accepted_risks == {"publish_member": "analysts follow customers"}
    assert policy(None).accepted_risks == {}
    assert not policy(None).promise.covered(policy(None))[0].startswith("Every reader")


def test_editors_know_it() -> None:
    """The JSON Schema has the key with its own two."""
    described = policy_schema()["properties"]["publish_member"]["anyOf"][0]
    assert set(described["properties"]) == {"name", "accept_risk"}
    assert described["additionalProperties"] is False


GROUP = {"name": "set", "members": "people", "accept_risk": "trends of groups"}


def test_ids_of_groups_are_read_and_written() -> None:
    """As they were said; without them nothing is written, and the digest is that of before."""
    made = policy(None, publish_group=GROUP)
    assert made.publish_group == PublishedGroup("trends of groups", "set", "people")
    assert to_mapping(made)["publish_group"] == GROUP
    assert parse_policy(to_mapping(made), "test", "test") == made
    assert made.accepted_risks["publish_group"] == "trends of groups"
    assert "publish_group" not in to_mapping(policy(None))
    assert b"group" not in policy_digest(policy(None))
    short = policy(None, publish_group={"accept_risk": "why"}).publish_group
    assert short == PublishedGroup("why", "group_id", None)
    against = {"known_windows": {"count": 2}}
    assert policy(None, publish_group=GROUP, against=against).publish_group is not None


REFUSED_GROUPS = {
    "no reason": ({"name": "set"}, {}, "publish_group.accept_risk: missing; say why every reader may follow"),
    "no name of Avro": (GROUP | {"name": "the set"}, {}, "publish_group.name: use letters, digits and _"),
    "a field's": (GROUP | {"members": "amount"}, {}, "publish_group.members: amount is a field's name"),
    "one name for both": (
        GROUP | {"members": "set"},
        {},
        "publish_group.members: a release has a column set",
    ),
    "that of the number of people": (
        GROUP,
        {"publish_member": SAID | {"name": "set"}},
        "publish_member.name: a release has a column set",
    ),
    "cohorts of a window": (GROUP, {"cohort": "window"}, "publish_group: belongs to cohort: lasting"),
}


@pytest.mark.parametrize(("said", "head", "start"), REFUSED_GROUPS.values(), ids=REFUSED_GROUPS)
def test_mistakes_of_ids_of_groups_name_the_key_and_the_mend(
    said: Any, head: dict[str, Any], start: str
) -> None:
    """One each."""
    head = dict(head)
    (mistake,) = mistakes(head.pop("publish_member", None), publish_group=said, **head)
    assert mistake.startswith(start)


def test_a_release_has_the_columns_beside_class_id() -> None:
    """An id of text and a whole number, always there; in the schema that every reader follows groups."""
    bound = bound_of(policy(SAID, publish_group=GROUP))
    arrow = release_arrow_schema(bound)
    assert arrow.names[3:6] == ["class_id", "set", "people"]
    assert [arrow.field(name).type for name in ("set", "people")] == [pa.string(), pa.int64()]
    assert arrow.names[-1] == "customer"
    schema = release_avro_schema(bound, epoch=1)
    assert [field["kanonflow"]["role"] for field in schema["fields"][4:6]] == ["group", "group"]
    assert schema["kanonflow"]["publish_group"].startswith("Every reader follows groups: the column set has")
    assert GROUP["accept_risk"] not in str(schema)
