"""What policies say of cohorts: the default, and what is refused with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from kanonflow.schemas.policy_file import parse_policy, to_mapping
from tests.schemas.test_policy_file import feed, mistakes_of, with_field


@pytest.mark.parametrize(
    ("mapping", "start", "instead"),
    [
        (feed(cohort="window", protect="row"), "cohort: belongs to protect: individual", "leave it out"),
        (feed(cohort="windw"), "cohort: must be one of window", "did you mean window?"),
        (feed(cohort=["lasting"]), "cohort: must be one of window", "window"),
    ],
)
def test_a_wrong_cohort_is_refused_with_what_to_write(
    mapping: dict[str, Any], start: str, instead: str
) -> None:
    """One mistake each, which names the key and the mend."""
    (mistake,) = mistakes_of(mapping)
    assert mistake.startswith(start)
    assert instead in mistake


@pytest.mark.parametrize("head", [{"cohort": "window"}, {"protect": "row"}])
def test_only_cohorts_that_last_are_split(head: dict[str, Any]) -> None:
    """Elsewhere partition_by is the whole answer: a release is all that is promised."""
    (mistake,) = mistakes_of(with_field("x", "insensitive", split_by=["x"], **head))
    assert mistake.startswith("split_by: belongs to cohort: lasting; leave it out")
    assert not mistakes_of(with_field("x", "insensitive", split_by=["x"]))


def test_a_policy_that_splits_nothing_is_written_as_ever() -> None:
    """So digests of builds that did not know the key go on; one that splits reads back equal, and is another."""
    plain, split = (
        parse_policy(with_field("x", "insensitive", **head), "", "feed") for head in ({}, {"split_by": ["x"]})
    )
    assert "split_by" not in to_mapping(plain)
    assert parse_policy({**to_mapping(plain), "split_by": []}, "", "feed") == plain
    assert parse_policy(to_mapping(split), "", "feed") == split
    assert split.release_by == ("state", "x")
    assert plain.release_by == ("state",)


def test_cohorts_that_last_are_the_default() -> None:
    """Written or left out, where there is a window; without one people are put together once in any case."""
    assert parse_policy(feed(cohort="lasting"), "", "feed") == parse_policy(feed(), "", "feed")
    assert to_mapping(parse_policy(feed(), "", "feed"))["cohort"] == "lasting"
    single = feed(window=None, max_delay=None)
    del single["fields"]["booked"]
    assert to_mapping(parse_policy(single, "", "feed"))["cohort"] == "window"
    assert "cohort" not in to_mapping(parse_policy(feed(protect="row"), "", "feed"))
