"""The condition that cohorts that last rest on (``test_swap``), over chains of runs that continue each other.

A feed is cut into two or three runs over files, with what waits carried over or not; late rows come in a later run,
and some are older than the clock that it began with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.privacy.test_swap import pair_of_a_generation, pair_of_two_cohorts
from tests.swapped_feeds import Course, TrailFeed, facts, generated_feed, rows_in, run_chain

pytestmark = pytest.mark.thorough

FEEDS = 60
BATCH = 10


def cuts(feed: TrailFeed, rng: np.random.Generator) -> tuple[list[int], list[bool]]:
    """Ends of one or two runs before the last, and whether each carries over."""
    steps = max(row.arrives for row in feed.rows) + 1
    runs = min(int(rng.integers(1, 3)), steps - 1)
    ends = sorted((rng.choice(steps - 1, runs, replace=False) + 1).tolist())
    return ends, [bool(rng.random() < 0.6) for _ in ends]


def chained(feed: TrailFeed, seed: int) -> tuple[Course, Sequence[int], Sequence[bool]]:
    """The feed as a chain, and how it was cut."""
    ends, carries = cuts(feed, np.random.default_rng(seed))
    return run_chain(feed, ends, carries), ends, carries


@pytest.mark.parametrize("first", range(0, FEEDS, BATCH))
def test_exchanging_two_trails_shows_nothing_over_a_chain(first: int) -> None:
    """(S) over all runs of a chain: regular and closing releases, rows that were carried over, rejected ones."""
    for seed in range(first, first + BATCH):
        feed = generated_feed(seed)
        course, ends, carries = chained(feed, seed)
        changes = pair_of_a_generation(course, np.random.default_rng(seed))
        other = run_chain(feed.exchanged(changes), ends, carries)
        assert facts(other) == facts(course), f"feed {seed}"
        came, went = rows_in(course)
        assert went == came, f"feed {seed}: a row is released or rejected once in a chain"
        names = [result.metrics["release_id"] for _, _, result in course.results if result.release]
        assert len(set(names)) == len(names), f"feed {seed}: two releases have one name"


def test_the_chains_are_full_of_what_could_go_wrong() -> None:
    """Or the test above says little: closing releases, people who waited and entered in a later run, every reject."""
    courses = [chained(generated_feed(seed), seed)[0] for seed in range(30)]
    metrics = [result.metrics for course in courses for _, _, result in course.results]
    assert sum(line["kind"] == "closing" and line["released"] for line in metrics) >= 5
    assert sum(line["kind"] == "closing" and bool(line["people_entered"]) for line in metrics) >= 3
    assert sum(bool(line["people_entered"]) and line["chain_place"] > 0 for line in metrics) >= 10
    assert sum(line["chain_place"] > 0 and line["rows_waited"] > 0 for line in metrics) >= 10
    reasons = {record["reason"] for c in courses for _, _, result in c.results for record in result.rejected}
    assert reasons >= {"awaits_intake", "duplicate_event", "bad_value"}


def test_across_cohorts_an_exchange_shows_over_a_chain() -> None:
    """A control: at least 9 of 10 pairs of two cohorts."""
    shown = []
    for seed in range(3000, 3020):
        feed = generated_feed(seed)
        course, ends, carries = chained(feed, seed)
        changes = pair_of_two_cohorts(course, np.random.default_rng(seed))
        if changes:
            shown.append(facts(run_chain(feed.exchanged(changes), ends, carries)) != facts(course))
    assert len(shown) >= 12
    assert np.mean(shown) >= 0.9
