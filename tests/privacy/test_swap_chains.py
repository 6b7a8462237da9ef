"""The condition that cohorts that last rest on (``test_swap``), over chains of runs that continue each other.

A feed is cut into two or three runs over files, with what waits carried over or not; late rows come in a later run,
and some are older than the clock that it began with.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.rows.elements import from_ipc
from tests.privacy.test_swap import pair_of_a_generation, pair_of_two_cohorts
from tests.small_feeds import HOUR
from tests.swapped_feeds import (
    Course,
    TrailFeed,
    facts,
    generated_feed,
    metrics_shown,
    rejected_shown,
    rows_in,
    run,
    run_chain,
)

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


def changed(policy: Policy, rng: np.random.Generator) -> Policy:
    """Another policy that may continue a chain: any of the keys that leave whom a cohort holds as it is."""
    assert policy.cohort_size is not None
    k = int(rng.integers(2, policy.cohort_size + 1))
    size = k + int(rng.integers(0, 3))
    return replace(
        policy,
        k=k,
        cohort_size=size,
        intake=int(rng.choice([size, 2 * size, 200])),
        max_outdated=float(rng.choice([0.0, 0.5])),
        solver=replace(policy.solver, evaluations_per_row=int(rng.choice([1, 20, 60]))),
    )


@pytest.mark.parametrize("first", range(0, FEEDS // 2, BATCH))
def test_exchanging_two_trails_shows_nothing_where_the_policy_changed(first: int) -> None:
    """(S) over a chain in which each run has keys of its own: k, cohort_size, intake, and what the solver may do."""
    for seed in range(first, first + BATCH):
        feed, rng = generated_feed(seed), np.random.default_rng(seed + 500)
        ends, carries = cuts(feed, np.random.default_rng(seed))
        policies = [feed.policy]
        while len(policies) <= len(ends):
            # No more than the cohorts that are there have people: more is refused (``continued_run``).
            policies.append(changed(min(policies, key=lambda each: each.cohort_size or 0), rng))
        course = run_chain(feed, ends, carries, policies=policies)
        changes = pair_of_a_generation(course, np.random.default_rng(seed))
        other = run_chain(feed.exchanged(changes), ends, carries, policies=policies)
        assert facts(other) == facts(course), f"feed {seed}"
        came, went = rows_in(course)
        assert went == came, f"feed {seed}: a row is released or rejected once in a chain"


def test_a_changed_policy_changes_what_a_chain_shows() -> None:
    """Or the test above says what the one before it says: half of the feeds come out otherwise."""
    differing = 0
    for seed in range(20):
        feed, rng = generated_feed(seed), np.random.default_rng(seed + 500)
        ends, carries = cuts(feed, np.random.default_rng(seed))
        policies = [feed.policy, *(changed(feed.policy, rng) for _ in ends)]
        there, here = run_chain(feed, ends, carries), run_chain(feed, ends, carries, policies=policies)
        differing += facts(there) != facts(here)
    assert differing >= 10


def test_the_chains_are_full_of_what_could_go_wrong() -> None:
    """Or the test above says little: closing releases, people who waited and entered in a later run, every reject."""
    courses = [chained(generated_feed(seed), seed)[0] for seed in range(30)]
    metrics = [result.metrics for course in courses for _, _, result in course.results]
    assert sum(line["kind"] == "closing" and line["released"] for line in metrics) >= 5
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


def in_time(feed: TrailFeed) -> TrailFeed:
    """The feed without rows that come later than ``max_delay`` after their window."""
    delay = feed.policy.waiting_ms // HOUR
    keep = [row.arrives - row.hour <= delay for row in feed.rows]
    rows = tuple(row for row, kept in zip(feed.rows, keep, strict=True) if kept)
    return replace(feed, rows=rows, owners=feed.owners[np.array(keep)])


def sparse_feed(seed: int) -> TrailFeed:
    """Two partitions, one of them of few people; no row comes later than ``max_delay``."""
    feed = in_time(generated_feed(seed, partition_by=["town"]))
    people = enumerate(feed.people)
    towns = tuple(each._replace(town="Bonn" if number % 5 else "Ulm") for number, each in people)
    return replace(feed, people=towns)


def shown(course: Course) -> list[tuple[Any, ...]]:
    """What each step of a partition made, but for names and for the order of partitions."""
    told = []
    for key, _, result in course.results:
        metrics = {
            name: value
            for name, value in metrics_shown(result.metrics).items()
            if name not in ("release_id", "chain_place", "versions")
        }
        if not metrics["released"]:  # which run looks at it, is no part of it
            continue
        groups: dict[int, list[str]] = defaultdict(list)
        assert result.release is not None
        for row in from_ipc(result.release.ipc).drop_columns(["release_id"]).to_pylist():
            groups[row.pop("class_id")].append(repr(sorted(row.items())))
        told.append(
            (metrics["window_end"], key, metrics, sorted(map(sorted, groups.values())), result.segment)
        )
    return sorted(told, key=lambda each: each[:2])


def rejected_rows(course: Course) -> Counter[tuple[Any, ...]]:
    """All rejected rows, each with its reason."""
    return Counter(
        [
            *course.refused,
            *(rejected_shown(row) for _, _, result in course.results for row in result.rejected),
        ]
    )


@pytest.mark.parametrize("seed", range(7000, 7012))
def test_nights_that_carry_over_are_one_long_run(seed: int) -> None:
    """A run an hour, each carrying over: release by release the rows, boxes, groups and people who entered are those of
    one run to which the same rows came as time went on. Two partitions, one of them sparse; late rows, expired rows,
    repeats; only where no row comes later than max_delay."""
    feed = sparse_feed(seed)
    steps = max(row.arrives for row in feed.rows) + 1
    nights = run_chain(feed, list(range(1, steps)), [True] * (steps - 1))
    long = run(feed)
    assert shown(nights) == shown(long)
    assert rejected_rows(nights) == rejected_rows(long)


@pytest.mark.parametrize("rule", ["wake", "state"])
def test_without_each_rule_nights_are_not_one_long_run(rule: str) -> None:
    """Controls: partitions that have no new row are not woken; what was carried over is dropped."""
    differing = 0
    for seed in range(7000, 7012):
        feed = sparse_feed(seed)
        steps = max(row.arrives for row in feed.rows) + 1
        nights = run_chain(feed, list(range(1, steps)), [True] * (steps - 1), frozenset({rule}))
        differing += shown(nights) != shown(run(feed)) or rejected_rows(nights) != rejected_rows(run(feed))
    assert differing >= (1 if rule == "wake" else 8)
