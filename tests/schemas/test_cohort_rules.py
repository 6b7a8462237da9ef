"""Which cohorts and shapes a policy may ask for, and for how long they are remembered."""

from __future__ import annotations

from typing import Any

import pytest

from kanonflow.schemas.policy import Cohort, Shape
from kanonflow.schemas.policy_file import parse_policy, policy_digest, to_mapping
from tests.schemas.test_policy_file import feed, mistakes_of


@pytest.mark.parametrize(
    ("mapping", "start"),
    [
        (feed(shape="graph", protect="row"), "shape: belongs to protect: individual"),
        (feed(shape="graph", cohort="keep"), "cohort: keep needs shape: classes"),
        (feed(shape="graph", cohort="strict"), "cohort: strict needs shape: classes"),
        (feed(cohort="strict", protect="row"), "cohort: strict needs protect: individual"),
        (feed(cohort="strict", state_ttl="3d"), "state_ttl: must be at least cohort_windows * window"),
        (feed(cohort="stict"), "cohort: must be one of free, keep, strict (did you mean strict?)"),
        (feed(cohort_windows=1), "cohort_windows: must be a whole number of at least 2"),
        (feed(stability="much"), "stability: must be a number from 0 to 1"),
        (feed(stability=1.5), "stability: must be a number from 0 to 1"),
        (feed(stability=True), "stability: must be a number from 0 to 1"),
        (feed(stability=0.5, protect="row"), "stability: weighs the classes of before"),
        (feed(stability=0.5, shape="graph"), "stability: weighs the classes of before"),
        (feed(stability=0.5, cohort="strict"), "stability: belongs to cohort: free"),
        (feed(cohort_windows=101), "cohort_windows: must be a whole number from 2 to 100"),
    ],
)
def test_what_does_not_fit_is_refused(mapping: dict[str, Any], start: str) -> None:
    """One mistake each, which names the key and what to do."""
    (mistake,) = mistakes_of(mapping)
    assert mistake.startswith(start)


def test_graphs_and_strict_cohorts_are_policies() -> None:
    """Both can be asked for; the number of windows is part of what tells policies apart."""
    assert parse_policy(feed(shape="graph"), "", "feed").shape is Shape.GRAPH
    strict = parse_policy(feed(cohort="strict"), "", "feed")
    assert (strict.cohort, strict.cohort_windows) == (Cohort.STRICT, 5)
    longer = parse_policy(feed(cohort="strict", cohort_windows=6), "", "feed")
    assert policy_digest(longer) != policy_digest(strict)


def test_state_lasts_as_long_as_strict_cohorts_remember() -> None:
    """40 windows of a day are longer than 30 days; without ``strict`` nothing has to be remembered so long."""
    day = 86_400_000
    assert parse_policy(feed(cohort="strict", cohort_windows=40), "", "feed").state_ttl_ms == 40 * day
    assert parse_policy(feed(cohort_windows=40), "", "feed").state_ttl_ms == 30 * day
    timeless = feed(cohort="strict", window=None, max_delay=None)
    timeless["fields"] = {
        name: entry for name, entry in timeless["fields"].items() if entry != {"role": "time"}
    }
    assert any("cohort: strict is about several windows" in mistake for mistake in mistakes_of(timeless))


def test_stability_is_part_of_a_policy() -> None:
    """It is read, written out again and tells policies apart; 0 is the same as none."""
    weighed = parse_policy(feed(stability=0.25), "", "feed")
    assert weighed.stability == 0.25
    assert parse_policy(to_mapping(weighed), "", "other") == weighed
    free = parse_policy(feed(stability=0), "", "feed")
    assert free == parse_policy(feed(), "", "feed")
    assert policy_digest(free) != policy_digest(weighed)
