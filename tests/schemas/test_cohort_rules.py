"""What policies say of cohorts: the default, and what is refused with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from kanonflow.schemas.policy_file import parse_policy, to_mapping
from tests.schemas.test_policy_file import feed, mistakes_of


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


def test_cohorts_that_last_are_the_default() -> None:
    """Written or left out, where there is a window; without one people are put together once in any case."""
    assert parse_policy(feed(cohort="lasting"), "", "feed") == parse_policy(feed(), "", "feed")
    assert to_mapping(parse_policy(feed(), "", "feed"))["cohort"] == "lasting"
    single = feed(window=None, max_delay=None)
    del single["fields"]["booked"]
    assert to_mapping(parse_policy(single, "", "feed"))["cohort"] == "window"
    assert "cohort" not in to_mapping(parse_policy(feed(protect="row"), "", "feed"))
