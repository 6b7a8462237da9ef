"""Hierarchies in policies: named files, rows in the policy itself, and what is refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kanonflow.schemas.avro_schema import release_arrow_schema, release_avro_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy, QuasiType
from kanonflow.schemas.policy_file import load_policy, parse_policy, policy_digest, to_mapping

ROWS = [["Breda", "Brabant", "*"], ["Tilburg", "Brabant", "*"], ["Goes", "Zeeland", "*"]]
FILE = "".join(";".join(row) + "\n" for row in ROWS)


def _policy(**entry: Any) -> Policy:
    fields = {"town": {"role": "quasi", "type": "hierarchy", "hierarchy": ROWS} | entry}
    return parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")


def test_a_file_beside_the_policy_is_read_and_kept(tmp_path: Path) -> None:
    """A named file and its rows written out are one policy, which its mapping gives back; the domain is its leaves."""
    (tmp_path / "towns.csv").write_text(FILE)
    (tmp_path / "test.yaml").write_text(
        "version: 1\nk: 2\nfields:\n  town: {role: quasi, type: categorical, hierarchy: towns.csv}\n"
    )
    policy = load_policy(tmp_path / "test.yaml")
    assert policy == _policy()
    quasi = policy.field("town").quasi
    assert quasi is not None
    assert quasi.type is QuasiType.HIERARCHY
    assert parse_policy(to_mapping(policy), "again", "test") == policy
    changed = [*ROWS[:2], ["Goes", "Brabant", "*"]]
    assert policy_digest(policy) != policy_digest(_policy(hierarchy=changed))
    bound = bind(policy, pa.schema([("town", pa.string())]), text=True, source="test")
    assert bound.quasis[0].categories == ("Breda", "Tilburg", "Goes")
    assert release_arrow_schema(bound).field("town") == pa.field("town", pa.string())
    told = release_avro_schema(bound)["fields"][3]
    assert told["type"] == ["null", "string"]
    assert told["kanonflow"] == {"field": "town", "role": "quasi", "type": "hierarchy"}


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        ({"hierarchy": [["a", "b"], ["a", "c"]]}, ["'a' occurs 2 times", "the last level has 2 labels"]),
        ({"hierarchy": [["a", 1]]}, ["fields.town.hierarchy: must name a file, or be a list of rows"]),
        ({"domain": ["Breda"]}, ["fields.town.domain: the values of a hierarchy are its domain"]),
        ({"grid": 5}, ["fields.town.grid: a hierarchy has no grid"]),
        ({"type": "numeric"}, ["fields.town.hierarchy: belongs to type: hierarchy"]),
        (
            {"outside": "code"},
            ["fields.town.outside: code needs a domain", "code works for numeric and date"],
        ),
    ],
)
def test_wrong_declarations_are_refused(entry: dict[str, Any], parts: list[str]) -> None:
    """Every mistake of the rows and of the keys around them, all at once."""
    with pytest.raises(PolicyError) as caught:
        _policy(**entry)
    assert len(caught.value.mistakes) == len(parts)
    for part in parts:
        assert part in str(caught.value)


def test_all_mistakes_of_a_named_file_stand_with_the_others(tmp_path: Path) -> None:
    """The policy's own mistakes and the file's come together, the file named."""
    (tmp_path / "towns.csv").write_text(FILE + "Goes;Brabant;*\nUlm;;*\n")
    (tmp_path / "test.yaml").write_text(
        "version: 1\nk: 1\nfields:\n  town: {role: quasi, type: hierarchy, hierarchy: towns.csv}\n"
        "  job: {role: quasi, type: hierarchy, hierarchy: jobs.csv}\n"
    )
    with pytest.raises(PolicyError) as caught:
        load_policy(tmp_path / "test.yaml")
    for part in (
        "k: must be",
        "fields.town.hierarchy: towns.csv: lines 3, 4: the value 'Goes' occurs 2 times",
        "fields.town.hierarchy: towns.csv: line 5, level 1: is empty",
        "fields.job.hierarchy: jobs.csv: cannot be read",
    ):
        assert part in str(caught.value)
