"""What is told about policies is what the reader does: the JSON Schema, the tables of docs/policy.md, the defaults."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas import policy_keys
from kanonflow.schemas.built_hierarchies import BUILDERS, KEYS, build_hierarchy
from kanonflow.schemas.errors import HierarchyError, PolicyError
from kanonflow.schemas.key_kinds import Key
from kanonflow.schemas.policy import Policy, SolverChoice
from kanonflow.schemas.policy_documents import policy_schema, policy_tables
from kanonflow.schemas.policy_fields import Field, Quasi
from kanonflow.schemas.policy_file import load_policy, parse_policy, policy_digest, to_mapping
from kanonflow.schemas.policy_keys import CSV, FIELD, HEAD, QUASI, SOLVER

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "policies").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(policy_schema())
FEED: dict[str, Any] = {
    "version": 1,
    "name": "feed",
    "k": 5,
    "window": "1d",
    "max_delay": "2d",
    "max_ahead": "1d",
    "partition_by": ["state"],
    "max_window_rows": 1000,
    "individual": "card",
    "protect": "individual",
    "cohort": "window",
    "others": "drop",
    "metrics": "public",
    "solver": {"method": "auto", "evaluations_per_row": 100, "deadline": "1s", "threads": 1, "loss": "sil"},
    "fields": {
        "booked": {"role": "time", "as": "timestamp", "also_quasi": True, "type": "date", "grid": "day"},
        "lat": {"role": "quasi", "type": "numeric", "domain": [17, 72], "grid": "0.1", "weight": 2},
        "sex": {"role": "quasi", "type": "categorical", "outside": "reject"},
        "amount": {"role": "sensitive", "diversity": {"kind": "frequency", "l": 2}, "accept_risk": "known"},
        "state": "insensitive",
    },
}


def refused(mapping: object) -> tuple[str, ...]:
    """The reader's mistakes; none when it takes the policy."""
    try:
        parse_policy(mapping, "feed.yaml", "feed")
    except PolicyError as error:
        return error.mistakes
    return ()


def plain(mapping: object) -> Any:
    """As an editor sees it: a date in YAML is text in JSON."""
    return json.loads(json.dumps(mapping, default=str))


def test_the_tables_of_the_document_are_those_of_the_keys() -> None:
    """docs/policy.md ends with the tables that the keys give."""
    assert (ROOT / "docs" / "policy.md").read_text().endswith("\n\n" + policy_tables().rstrip() + "\n")


def test_every_key_is_in_the_document_by_name() -> None:
    """Of every table of keys that the reader goes by, with those of groups and of mappings that build a hierarchy."""
    told = set(re.findall(r"^\| `([\w.]+)` \|", (ROOT / "docs" / "policy.md").read_text(), re.MULTILINE))
    tables = [value for value in vars(policy_keys).values() if isinstance(value, tuple) and value]
    keys = [key for table in tables for key in table if isinstance(key, Key)]
    for key in keys:
        assert any(name.split(".")[-1] == key.name for name in told), key.name
    assert {key.name for key in (*HEAD, *SOLVER, *CSV, *FIELD)} <= told
    assert {key.name for key in KEYS} <= told
    with pytest.raises(HierarchyError) as refused:
        build_hierarchy(dict.fromkeys(told, 1))
    unknown = {mistake.partition(":")[0] for mistake in refused.value.mistakes if "unknown key" in mistake}
    assert {key.name for key in KEYS} - unknown == {*BUILDERS, "domain"}, (
        "origin goes with one of two builders"
    )


def test_the_schema_is_one() -> None:
    """A JSON Schema by its own rules."""
    jsonschema.Draft202012Validator.check_schema(policy_schema())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_pass_the_schema(path: Path) -> None:
    """As they stand in their files, and with all defaults spelled out."""
    VALIDATOR.validate(plain(yaml.safe_load(path.read_text())))
    VALIDATOR.validate(plain(to_mapping(load_policy(path))))


_PLACES = (
    *(((), key.name) for key in HEAD),
    *((("solver",), key.name) for key in SOLVER),
    *((("fields", name), key.name) for name in ("booked", "lat", "sex", "amount") for key in FIELD),
    *((("fields", "amount", "diversity"), key) for key in ("kind", "l", "t")),
    ((), "colour"),
    (("fields", "lat"), "rolle"),
)
_VALUES = st.one_of(
    st.none(),
    st.integers(-3, 12),
    st.floats(-2, 2),
    st.booleans(),
    st.sampled_from(["", " ", "1d", "2", "row", "quasi", "public", "numeric", "auto", "drop", "x y", "0.5"]),
    st.lists(st.sampled_from(["a", 1, None, 2.5]), max_size=2),
    st.dictionaries(st.sampled_from(["a", "kind", "l"]), st.sampled_from(["frequency", 2, True]), max_size=2),
)


@settings(max_examples=400, derandomize=True)
@given(st.sampled_from(_PLACES), _VALUES)
def test_what_the_schema_refuses_the_reader_refuses(
    place: tuple[tuple[str, ...], str], value: object
) -> None:
    """One key of a good policy gets another value: an editor never marks what ``policy check`` takes."""
    within, key = place
    changed = plain(FEED)
    holder = changed
    for name in within:
        holder = holder[name]
    holder[key] = value
    if not VALIDATOR.is_valid(changed):
        assert refused(changed), (place, value)


def test_the_schema_refuses_what_an_editor_can_know() -> None:
    """Words, kinds and limits of single keys, and keys that there are not."""
    assert refused(FEED) == ()
    VALIDATOR.validate(FEED)
    for change in (
        {"k": 1},
        {"window": "a day"},
        {"colour": "red"},
        {"cohort": "strict"},
        {"solver": {"threads": 0}},
        {"fields": {**FEED["fields"], "sex": {"role": "quasy"}}},
        {"fields": {**FEED["fields"], "sex": {"role": "quasi", "type": "categorical", "l": 2}}},
    ):
        assert not VALIDATOR.is_valid(FEED | change), change
        assert refused(FEED | change), change


@pytest.mark.parametrize(
    ("keys", "holder"),
    [(HEAD, Policy), (SOLVER, SolverChoice), (QUASI, Quasi)],
    ids=["head", "solver", "quasi"],
)
def test_defaults_are_those_of_the_policy(keys: tuple[Key, ...], holder: type) -> None:
    """A default that the tables tell is the one that holds, and each key is held where its table says."""
    members = {member.name: member.default for member in dataclasses.fields(holder)}
    for key in keys:
        if key.name in ("individual", "hierarchy_folder"):  # they are gone once the fields are read
            continue
        assert key.member in members
        if key.default is not None:
            assert members[key.member] == key.default, key.name


def test_each_key_of_a_field_is_held_by_it() -> None:
    """Those of quasi-identifiers by its ``quasi``."""
    quasi = {key.name for key in QUASI}
    for key in FIELD:
        assert hasattr(Field, key.member) or key.member in {
            member.name for member in dataclasses.fields(Quasi if key.name in quasi else Field)
        }


def test_equal_policies_have_equal_digests() -> None:
    """A weight is a number: 2 and 2.0 are one policy, from a file and from a program."""
    read = parse_policy(FEED, "", "feed")
    fields = [
        dataclasses.replace(field, quasi=dataclasses.replace(field.quasi, weight=2))
        if field.quasi is not None and field.quasi.weight == 2.0
        else field
        for field in read.fields
    ]
    built = dataclasses.replace(read, fields=tuple(fields))
    assert built == read
    assert policy_digest(built) == policy_digest(read)


def test_a_number_is_finite() -> None:
    """What no float can hold is a mistake of its key."""
    fields = {
        **FEED["fields"],
        "amount": {"role": "sensitive", "diversity": {"kind": "frequency", "l": "1e400"}},
    }
    (mistake,) = refused(FEED | {"fields": fields})
    assert "diversity.l" in mistake
