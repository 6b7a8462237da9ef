"""(S) over chains of runs whose shards are split in between: trails of two of a cohort exchanged decide nothing: not
the plan, nor who goes to which part, nor what is released there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from kanonflow.pipelines.chains import people_of_output
from kanonflow.pipelines.chains.people_of_output import people_of_state
from kanonflow.transforms.roster.roster import Segment
from kanonflow.transforms.shards import split_roster
from kanonflow.transforms.shards.shard_plan import Orders, ShardPlan
from kanonflow.transforms.shards.shards import SplitShard
from kanonflow.transforms.shards.split_roster import Marks
from kanonflow.transforms.windows.chain import CarriedState
from tests import split_feeds
from tests.privacy.test_swap import OF_CELLS, pair_of_a_generation, shuffled_generations
from tests.privacy.test_swap_chains import cuts
from tests.privacy.test_swap_people import expected_rows, named_of, with_idle
from tests.privacy.test_swap_shards import planned
from tests.small_feeds import HOUR, START
from tests.split_feeds import SplitCourse, run_split_chain
from tests.swapped_feeds import NO_TEXT, QUASIS, TrailFeed, disturbed, generated_feed, rows_in

pytestmark = pytest.mark.thorough

FEEDS = 60


def split_feed(seed: int, **head: Any) -> TrailFeed:
    """A feed with people who have no rows, and cohorts small enough that shards can be split twice."""
    given: dict[str, Any] = {"k": 2, "cohort_size": 2 + (seed % 5 == 0), "intake": 6 + seed % 7} | head
    feed = with_idle(generated_feed(seed, **given), seed)
    return muted(feed, seed) if seed % 2 else feed


def muted(feed: TrailFeed, seed: int) -> TrailFeed:
    """The feed in which nobody can read what a third of the rows say of their person."""
    rng = np.random.default_rng([seed, 2])
    mute = {row.tag: rng.random() < 0.35 for row in feed.rows}  # two that are equal are alike
    said = dict.fromkeys(QUASIS, NO_TEXT)
    return replace(feed, rows=tuple(row._replace(said=said) if mute[row.tag] else row for row in feed.rows))


class Played:
    """How a feed is played, again and again. whole: without a plan until the first split."""

    def __init__(self, feed: TrailFeed, seed: int, *, whole: bool, parts: int | None = None) -> None:
        self.ends, self.carries = cuts(feed, np.random.default_rng([seed, 1]))
        self.parts = 2 + seed % 2 if parts is None else parts
        # Windows of an hour or two are not over when a run that carries over ends.
        self.opened = seed % 3
        named = named_of(feed, seed)
        self.plan: ShardPlan | None = None if whole else planned(feed, named, 2)
        self.named: list[pa.Table | None] = [expected_rows(feed, named)] * (len(self.ends) + 1)
        if whole and seed % 8:
            self.named = []

    def run(self, feed: TrailFeed) -> SplitCourse:
        """The course of a feed."""
        return run_split_chain(feed, self.ends, self.carries, self.parts, self.plan, self.named, self.opened)


def played(seed: int) -> tuple[TrailFeed, Played]:
    """Every fourth feed is in one piece first; its partitions then are not told by a town."""
    whole = seed % 4 == 0
    feed = split_feed(seed, **({"partition_by": None} if whole else {}))
    if whole:
        # Where nothing parts the towns, they would tell whose a row is.
        feed = replace(feed, people=tuple(each._replace(town="Bonn") for each in feed.people))
    return feed, Played(feed, seed, whole=whole)


@pytest.mark.parametrize("first", range(0, FEEDS, 10))
def test_exchanging_trails_shows_nothing_over_a_split(first: int) -> None:
    """Of shards and of what was in one piece, in two parts and in three, twice in a chain; who waits, with rows or
    without, who was forgotten; rows of who is known may say anything."""
    for seed in range(first, first + 10):
        feed, way = played(seed)
        course = way.run(feed)
        came, went = rows_in(course)
        assert went == came, f"feed {seed}: a row is released or rejected once in a chain"
        for turn in range(3):
            choose = shuffled_generations if turn == 2 else pair_of_a_generation
            changes = choose(course, np.random.default_rng([seed, turn]))
            other = way.run(disturbed(course, seed, unreadable=False).exchanged(changes))
            assert other.shown(OF_CELLS) == course.shown(OF_CELLS), f"feed {seed}"


def test_the_chains_are_full_of_what_could_go_wrong() -> None:
    """Or the test above says little: parts of parts, pools and rows of strangers that are divided."""
    courses = [way.run(feed) for feed, way in map(played, range(30))]
    assert sum(bool(course.parts) for course in courses) >= 15
    assert sum(len(set(course.plans)) > 2 for course in courses) >= 3
    assert sum(course.pooled for course in courses) >= 20
    assert sum(course.strangers for course in courses) >= 3


def first_row_of_a_newcomer_unread(feed: TrailFeed, course: SplitCourse, end: int) -> TrailFeed | None:
    """The feed in which somebody who entered in a later run has a row before, in an open window, that nobody can read.
    end: of the first run."""
    early = {int(owner) for owner, row in zip(feed.owners, feed.rows, strict=True) if row.arrives < end}
    owners = set(feed.owners.tolist())
    later = [person for person, entry in sorted(course.entered.items()) if entry.step >= end]
    for person in later:
        if person in owners - early:
            row = next(row for row, owner in zip(feed.rows, feed.owners, strict=True) if owner == person)
            when = dt.datetime.fromtimestamp((START + end * HOUR) / 1000 - 1740, dt.UTC).isoformat()
            unread = row._replace(arrives=end - 1, hour=end - 1, when=when, event="unread", tag="unread")
            unread = unread._replace(said=dict.fromkeys(QUASIS, NO_TEXT))
            return replace(feed, rows=(*feed.rows, unread), owners=np.append(feed.owners, person))
    return None


def shows_whose_row_nobody_can_read(seeds: Iterable[int]) -> list[bool]:
    """Of each person with such a row whether an exchange with another of the cohort shows."""
    shown = []
    for seed in seeds:
        feed, way = played(seed)
        way.opened, way.carries = 1, [True] * len(way.carries)
        other = first_row_of_a_newcomer_unread(feed, way.run(feed), way.ends[0])
        if other is None:
            continue
        course, person = way.run(other), int(other.owners[-1])
        together = next((each for each in course.generations() if person in each), [person])
        for one in together:
            if one != person:
                exchanged = way.run(other.exchanged({one: person, person: one}))
                shown.append(exchanged.shown(OF_CELLS) != course.shown(OF_CELLS))
    return shown


def test_a_row_that_nobody_can_read_gives_nobody_a_shard() -> None:
    """Of a window that is not over when a run ends: where it waits says nothing of its person, so it is no place that
    he has in the next run. It was: he then went where the row lay, and whoever's it was in the cohort was told."""
    shown = shows_whose_row_nobody_can_read(range(60))
    assert not any(shown)
    assert len(shown) > 10


def test_were_such_a_row_his_place_an_exchange_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of it."""
    monkeypatch.setattr(people_of_output, "_readable", lambda rows: rows)
    assert any(shows_whose_row_nobody_can_read([10, 18, 26, 32, 42]))


def test_parts_by_what_people_did_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control: a cohort goes to a part by who of it has rows in windows that are not over."""
    marks, read, states = split_roster.marks_of, split_feeds.carried_from_bytes, []

    def carried(data: bytes) -> CarriedState:
        states.append(read(data))
        return states[-1]

    def marks_of_active(segment: Segment) -> Marks:
        found = marks(segment)
        active = np.isin(segment.people, people_of_state(states[-1], "who", split_feeds.KEY))
        digests = np.zeros_like(found.digests)
        np.maximum.at(digests, segment.cohort[active] - segment.head.cohorts, segment.people[active])
        return Marks(found.rows, digests)

    def part_of(self: SplitShard, rows: pa.Table, digests: NDArray[np.uint64], orders: Orders) -> Any:
        return (digests % np.uint64(len(self.keys))).astype(np.int64)

    monkeypatch.setattr(split_feeds, "carried_from_bytes", carried)
    monkeypatch.setattr(split_roster, "marks_of", marks_of_active)
    monkeypatch.setattr(SplitShard, "part_of", part_of)
    shown = False
    for seed in range(30):
        feed, way = played(seed)
        way.opened, way.carries = 1, [True] * len(way.carries)
        course = way.run(feed)
        changes = shuffled_generations(course, np.random.default_rng(seed))
        shown = shown or way.run(feed.exchanged(changes)).parts != course.parts
    assert shown
