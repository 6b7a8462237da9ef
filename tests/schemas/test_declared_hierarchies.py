"""Hierarchies in policies: named files, rows in the policy itself, and what is refused."""

import re
from datetime import date
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
        ({"hierarchy": [["a", 1]]}, ["fields.town.hierarchy: must name a file, say how to build it"]),
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


@pytest.mark.parametrize(
    ("built", "row"),
    [
        ({"widths": [5, 10], "domain": [17, 90]}, ("23", "[20, 25)", "[20, 30)", "*")),
        ({"widths": ["5"], "origin": 17, "domain": [17, 90]}, ("23", "[22, 27)", "*")),
        ({"doubling": 8, "domain": [0, 31]}, ("23", "[16, 24)", "[16, 32)", "*")),
        ({"widths": [0.5, 2], "domain": [0, 9.9], "step": "0.1"}, ("2.3", "[2, 2.5)", "[2, 4)", "*")),
        ({"widths": [2], "domain": ["-1.50", 9], "step": 0.25}, ("-0.25", "[-2, 0)", "*")),
        ({"doubling": 0.1, "domain": [0, 0.3], "step": 0.05}, ("0.15", "[0.1, 0.2)", "[0, 0.2)", "*")),
        ({"widths": [100], "domain": [0, 1000], "step": 50}, ("150", "[100, 200)", "*")),
        (
            {"quantiles": [18, 30, 45, 60], "domain": [0, 120]},
            ("23", "[18, 30)", "[0, 30)", "[0, 60)", "*"),
        ),
        (
            {"quantiles": [18, 30, 45, 60], "domain": [0, 120]},
            ("60", "[60, 120]", "[60, 120]", "[60, 120]", "*"),
        ),
        ({"quantiles": [0.5, 5], "domain": [0, 10], "step": 0.5}, ("0.5", "[0.5, 5)", "[0, 5)", "*")),
        ({"stars": True, "domain": ["NL80", "NL81", "NL90"]}, ("NL80", "NL8*", "*")),
        (
            {"formats": ["%m/%Y", "%Y"], "domain": ["1969-12-01", "1970-01-02"]},
            ("1970-01-01", "01/1970", "1970", "*"),
        ),
        (
            {"formats": ["%b %Y", "%Y"], "domain": ["2019-12-30", "2020-01-02"]},
            ("2019-12-31", "Dec 2019", "2019", "*"),
        ),
        (
            {"calendar": ["month", "year"], "domain": ["2019-12-30", date(2020, 1, 2)]},
            ("2020-01-01", "2020-01", "2020", "*"),
        ),
    ],
)
def test_hierarchies_can_be_described(built: dict[str, Any], row: tuple[str, ...]) -> None:
    """Ranges, stars and the calendar over a declared domain; the policy's mapping then holds the rows."""
    policy = _policy(hierarchy=built)
    quasi = policy.field("town").quasi
    assert quasi is not None
    assert quasi.hierarchy is not None
    assert row in quasi.hierarchy.rows
    assert parse_policy(to_mapping(policy), "again", "test") == policy


@pytest.mark.parametrize(
    ("built", "parts"),
    [
        ({"widths": [5], "stars": True}, ["needs one of", "domain: missing"]),
        ({"domain": [1, 2]}, ["needs one of"]),
        ({"stars": True, "origin": 1, "domain": ["a"]}, ["origin: unknown key"]),
        ({"widths": [5, 7], "domain": [1, 2]}, ["width 7: must be a multiple"]),
        ({"widths": 5, "domain": [1, 2]}, ["widths: must be a list"]),
        ({"doubling": "x", "domain": [1, 2]}, ["doubling: must be a number"]),
        ({"widths": [5], "domain": [2, 1]}, ["domain: must hold 1 to 200,000"]),
        ({"widths": [5], "domain": [1, 10**9]}, ["domain: must hold 1 to 200,000"]),
        ({"widths": [5], "domain": [0.5, 2]}, ["domain: must be [low, high], two whole numbers"]),
        ({"widths": [5], "domain": [0.5, 2], "step": 0.3}, ["domain: both ends must be multiples of step"]),
        ({"widths": [5], "domain": [0, 2], "step": 0}, ["step: must be above 0"]),
        ({"widths": [5], "domain": [0, 1], "step": 0.000001}, ["domain: must hold 1 to 200,000"]),
        ({"calendar": ["year"], "step": 1, "domain": ["2020-01-01", "2020-01-02"]}, ["step: unknown key"]),
        ({"quantiles": [5], "origin": 1, "domain": [0, 10]}, ["origin: unknown key"]),
        ({"quantiles": [0, 11], "domain": [0, 10]}, ["cut 0: must be above 0", "cut 11: must be above 0"]),
        ({"quantiles": [5, 5], "domain": [0, 10]}, ["cut 5: must be above the cut before, 5"]),
        ({"quantiles": [], "domain": [0, 10]}, ["quantiles: must be a list of numbers"]),
        (
            {"stars": True},
            ["domain: missing; the values that the hierarchy is built over; texts that nobody"],
        ),
        ({"stars": "yes", "domain": ["a"]}, ["stars: must be true"]),
        (
            {"formats": ["%d/%m/%Y", "%H", "year"], "domain": ["2020-01-01", "2020-01-02"]},
            ["%d/%m/%Y: tells the day", "%H: %H is no part", "year: has no part of a date"],
        ),
        (
            {"formats": ["%Y", "%m/%Y"], "domain": ["2020-01-01", "2020-03-02"]},
            ["%m/%Y: parts what %Y has together; go from short to long"],
        ),
        ({"formats": "%Y", "domain": ["2020-01-01", "2020-03-02"]}, ["formats: must be a list such as"]),
        ({"stars": True, "domain": [1]}, ["domain: must list the values as texts"]),
        ({"calendar": ["year"], "domain": ["2020-01-01"]}, ["domain: must be [first, last]"]),
        ({"calendar": ["year"], "domain": ["x", "y"]}, ["domain: must be [first, last]"]),
        ({"calendar": ["week"], "domain": ["2020-01-01", "2020-01-02"]}, ["week: no part of the calendar"]),
    ],
)
def test_wrong_descriptions_are_refused(built: dict[str, Any], parts: list[str]) -> None:
    """Each by its key, below the field's."""
    with pytest.raises(PolicyError) as caught:
        _policy(hierarchy=built)
    assert len(caught.value.mistakes) == len(parts)
    for part in parts:
        assert f"fields.town.hierarchy: {part}" in str(caught.value)


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


def test_hierarchy_files_stay_below_the_folder_of_the_policy(tmp_path: Path) -> None:
    """Also through a link or an absolute path: a message would repeat labels of any file. A folder can be named."""
    inside, outside = tmp_path / "policies", tmp_path / "shared"
    (inside / "more").mkdir(parents=True)
    outside.mkdir()
    rows = "Bonn;Rhine;*\nKiel;North;*\n"
    for place in (inside / "more" / "towns.csv", outside / "towns.csv"):
        place.write_text(rows)
    (inside / "link.csv").symlink_to(outside / "towns.csv")
    (inside / "inner.csv").symlink_to(inside / "more" / "towns.csv")

    def policy(file: str, head: str = "") -> Policy:
        (inside / "p.yaml").write_text(
            f"version: 1\nk: 2\n{head}fields:\n  town: {{role: quasi, type: hierarchy, hierarchy: {file}}}\n"
        )
        return load_policy(inside / "p.yaml")

    for file in ("more/towns.csv", "inner.csv", "more/../more/towns.csv", str(inside / "more" / "towns.csv")):
        policy(file)
    for file in (
        "../shared/towns.csv",
        "link.csv",
        str(outside / "towns.csv"),
        "more/../../shared/towns.csv",
    ):
        told = rf"fields\.town\.hierarchy: {re.escape(file)}: is outside of the folder .*hierarchy_folder"
        with pytest.raises(PolicyError, match=told) as caught:
            policy(file)
        assert "Bonn" not in str(caught.value)
        policy(file, "hierarchy_folder: ../shared\n")
    with pytest.raises(PolicyError, match="hierarchy_folder: must name a folder"):
        policy("more/towns.csv", "hierarchy_folder: 3\n")


def test_decimals_need_a_hierarchy_of_their_digits() -> None:
    """Leaves are matched as text, which of decimal(9,1) has one digit: they are; else field and mend are named."""
    built = {"widths": [0.5, 2], "domain": [0, 9.9], "step": 0.1}
    column = pa.schema([("town", pa.decimal128(9, 1))])
    bound = bind(_policy(hierarchy=built, **{"as": "decimal(9,1)"}), column, text=False, source="test")
    assert bound.quasis[0].arrow_type == pa.decimal128(9, 1)
    assert "2.0" in (bound.quasis[0].categories or ())
    for kind, declared, words in (
        (pa.decimal128(9, 2), None, "is not one of decimals of 2 digits; build it with step: 0.01"),
        (
            pa.string(),
            "decimal(9,2)",
            "is text in the input, but its hierarchy is not one of decimals of 2 digits",
        ),
        (pa.float64(), None, "type: hierarchy needs exact values; add as: decimal(9,2)"),
    ):
        policy = _policy(hierarchy=built, **({} if declared is None else {"as": declared}))
        with pytest.raises(PolicyError, match=r"fields\.town: ") as caught:
            bind(policy, pa.schema([("town", kind)]), text=kind == pa.string(), source="test")
        assert words in str(caught.value)
