"""Cohorts that last rest on one condition: exchange the trails of two people of a cohort, and nothing is decided anew.

    (S)  who enters when, who is grouped with whom, which rows go out, wait or are rejected, every box and every time
         stay as they are; only whose rows they are changes.

With (S), and k people or more in each cohort, all releases of an epoch together leave everybody in a cohort equally
likely to be whom a bundle of rows belongs to. So (S) is tested as such: feeds full of ties, nulls, late, expired,
broken and repeated rows go through the step of each partition twice, once with trails exchanged, and both courses must
show the same, to the last bit of the last metric. Only the payloads of a group may stand on other rows of it, for the
keystream follows from the content. ``test_swap_controls.py`` switches off each rule that (S) rests on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.transforms.roster import founding
from kanonflow.transforms.rows.elements import from_ipc
from tests.swapped_feeds import (
    Course,
    TrailFeed,
    disturbed,
    facts,
    generated_feed,
    reads_anything,
    rows_in,
    run,
)
from tests.swapped_on_beam import in_time, shows

pytestmark = pytest.mark.thorough

FEEDS = 200
BATCH = 10
OF_CELLS = frozenset({"outdated_values"})
"""The one metric, restricted, that tells of what rows of known people say."""
Choice = Callable[[Course, np.random.Generator], dict[int, int]]


def pair_of_a_generation(course: Course, rng: np.random.Generator) -> dict[int, int]:
    """Two people of one cohort, to be exchanged; nobody where there is no cohort."""
    generations = course.generations()
    if not generations:
        return {}
    one, other = rng.choice(generations[rng.integers(len(generations))], 2, replace=False).tolist()
    return {one: other, other: one}


def pair_of_two_cohorts(course: Course, rng: np.random.Generator) -> dict[int, int]:
    """Two people of one partition and of different cohorts."""
    people = sorted(course.entered)
    if not people:
        return {}
    one = int(rng.choice(people))
    entry = course.entered[one]
    others = [
        other
        for other in people
        if course.entered[other].partition == entry.partition and course.entered[other].cohort != entry.cohort
    ]
    if not others:
        return {}
    other = int(rng.choice(others))
    return {one: other, other: one}


def shuffled_generations(course: Course, rng: np.random.Generator) -> dict[int, int]:
    """Everybody of every cohort, at random."""
    return {
        person: other
        for generation in course.generations()
        for person, other in zip(generation, rng.permutation(generation).tolist(), strict=True)
    }


def exchanged_shows_the_same(feed: TrailFeed, choose: Choice, seed: int) -> bool:
    """Whether a course shows the same once trails are exchanged."""
    course = run(feed)
    changes = choose(course, np.random.default_rng(seed))
    return facts(run(feed.exchanged(changes))) == facts(course)


def disturbed_and_exchanged_shows_the_same(course: Course, choose: Choice, seed: int) -> bool:
    """The same where, besides, rows say anything at all of people who are known."""
    changes = choose(course, np.random.default_rng(seed))
    other = disturbed(course, seed, unreadable=reads_anything(course.feed.policy)).exchanged(changes)
    return facts(run(other), OF_CELLS) == facts(course, OF_CELLS)


@pytest.mark.parametrize("first", range(0, FEEDS, BATCH))
def test_exchanging_two_trails_of_a_cohort_shows_nothing(first: int) -> None:
    """(S): boxes, times, groups, payloads of groups, who waits, who is rejected and why, who enters, every metric.

    And rule 0 with it: any cells at all in rows that come after their person's entry change nothing.
    """
    for seed in range(first, first + BATCH):
        course = run(generated_feed(seed))
        assert disturbed_and_exchanged_shows_the_same(course, pair_of_a_generation, seed), f"feed {seed}"
        came, went = rows_in(course)
        assert went == came, f"feed {seed}: a row is released or rejected once, and nothing waits at the end"


def test_exchanging_trails_shows_nothing_where_intakes_are_founded_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cut of a large intake is a function of who enters and of their values, never of their rows."""
    made: list[int] = []
    cut = founding.make_cut

    def recorded(*args: Any) -> Any:
        made.append(cut(*args).pieces)
        return cut(*args)

    monkeypatch.setattr(founding, "make_cut", recorded)
    for name, small in (("PART", 8), ("PIECE", 4), ("SAMPLE", 12), ("SHARES", 2)):
        monkeypatch.setattr(founding, name, small)
    for seed in range(5000, 5020):
        course = run(generated_feed(seed))
        for choose in (pair_of_a_generation, shuffled_generations):
            assert disturbed_and_exchanged_shows_the_same(course, choose, seed), f"feed {seed}"
    assert sum(pieces > 1 for pieces in made) > 15


def test_exchanging_trails_shows_nothing_by_another_scale() -> None:
    """Positions are a function of the policy and of a value: nothing of who has rows moves them."""
    scales: tuple[dict[str, Any], ...] = (
        {"scale": "log", "log_from": 5},
        {"scale": "rank", "quantiles": [20, 20, 30, 31, 60]},
    )
    differ = []
    feeds = ((seed, generated_feed(seed)) for seed in range(6100, 6200))
    aged = ((seed, feed) for seed, feed in feeds if "age" in to_mapping(feed.policy)["fields"])
    for keys, (seed, feed) in zip(scales, aged, strict=False):
        plain = to_mapping(feed.policy)
        plain["fields"]["age"] |= keys
        course = run(replace(feed, policy=parse_policy(plain, "test", "test")))
        assert disturbed_and_exchanged_shows_the_same(course, pair_of_a_generation, seed), f"feed {seed}"
        differ.append(facts(course) != facts(run(feed)))
    assert any(differ), "or the scale changed nothing, and nothing was tried"


def test_exchanging_trails_shows_nothing_where_payload_is_on_a_grid() -> None:
    """The grid is the policy's: what is released of a row follows from its own cell, and cells come to be equal."""
    for seed in range(6000, 6010):
        feed = generated_feed(seed)
        plain = to_mapping(feed.policy)
        plain["fields"]["amount"] |= {"round": 20, "bottom": 20, "top": 60}
        plain["fields"]["hour"] = {"role": "insensitive", "from": "when", "as": "hour"}
        course = run(replace(feed, policy=parse_policy(plain, "test", "test")))
        assert disturbed_and_exchanged_shows_the_same(course, pair_of_a_generation, seed), f"feed {seed}"
        for _, _, result in course.results:
            if result.release is not None:
                rows = from_ipc(result.release.ipc)
                assert set(rows.column("amount").to_pylist()) <= {20.0, 40.0, 60.0, None}
                assert set(rows.column("hour").to_pylist()) <= set(range(24))


def test_exchanging_all_trails_of_all_cohorts_shows_nothing() -> None:
    """The whole group of exchanges, as the proof has it, and not only its generators."""
    for seed in range(1000, 1010):
        assert exchanged_shows_the_same(generated_feed(seed), shuffled_generations, seed), f"feed {seed}"


@pytest.mark.parametrize("seed", range(4000, 4004))
def test_exchanging_trails_shows_nothing_on_a_runner(seed: int) -> None:
    """From messages to releases, metrics and rejected rows: with trails exchanged and anything said of who is known,
    FnApiRunner shows what the step by itself shows of the feed as it was."""
    course = run(in_time(generated_feed(seed)))
    assert course.generations()
    changes = pair_of_a_generation(course, np.random.default_rng(seed))
    shows(course.feed, course, OF_CELLS)
    shows(disturbed(course, seed, unreadable=True).exchanged(changes), course, OF_CELLS)


def test_nothing_reads_what_rows_say_of_who_is_known() -> None:
    """Rule 0 alone."""
    for seed in range(2000, 2005):
        course = run(generated_feed(seed))
        assert disturbed_and_exchanged_shows_the_same(course, lambda course, rng: {}, seed), f"feed {seed}"


def test_the_feeds_are_full_of_what_could_go_wrong() -> None:
    """Or the tests above say little: releases of known people, several intakes, merged groups, every kind of reject."""
    courses = [run(generated_feed(seed)) for seed in range(30)]
    results = [result for course in courses for _, _, result in course.results]
    metrics = [result.metrics for result in results]
    reasons = {record["reason"] for result in results for record in result.rejected}
    reasons |= {record[0] for course in courses for record in course.refused}
    assert reasons >= {"late", "awaits_intake", "duplicate_event", "bad_value", "missing_value"}
    assert sum(result.segment is not None for result in results) > 1.5 * len(courses)
    assert sum(bool(line["groups_merged"]) for line in metrics) > len(courses)
    assert sum(bool(line["groups_kept"]) for line in metrics) > len(courses)
    assert any(line["rows_waiting"] for line in metrics)
    assert sum(not course.generations() for course in courses) < 3


def test_across_cohorts_an_exchange_shows() -> None:
    """A control: what is compared above would notice a difference. At least 9 of 10 pairs."""
    shown = []
    for seed in range(3000, 3024):
        course = run(generated_feed(seed))
        changes = pair_of_two_cohorts(course, np.random.default_rng(seed))
        if changes:
            shown.append(facts(run(course.feed.exchanged(changes))) != facts(course))
    assert len(shown) >= 15
    assert np.mean(shown) >= 0.9
