"""(S) with people who are known from the start: trails of two of a cohort exchanged decide nothing, also where one of
the two has no row at all. Who was seen and who was expected never share a cohort: there the exchange would show, for of
somebody who was seen everybody knows that there was a row before. Nor do people whom files of two runs named first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.transforms.publishing import gate_frozen
from kanonflow.transforms.roster import founding
from kanonflow.transforms.rows.element_rows import text_schema
from kanonflow.transforms.windows.expected_people import ExpectedCohorts, PeopleRows
from tests.privacy.test_swap import OF_CELLS, pair_of_a_generation
from tests.small_feeds import SECRET
from tests.swapped_feeds import EPOCH, Course, TrailFeed, disturbed, facts, generated_feed, run, run_chain

pytestmark = pytest.mark.thorough

FEEDS = 60


def expecting(feed: TrailFeed, named: Iterable[int]) -> ExpectedCohorts:
    """The people whose numbers are given, as a file would name them."""
    bound: BoundPolicy = bind(feed.policy, text_schema(feed.policy), text=True, source="test")
    return ExpectedCohorts(expected_rows(feed, named), bound, SECRET, EPOCH)


def expected_rows(feed: TrailFeed, named: Iterable[int]) -> pa.Table:
    """A row for each of these people."""
    policy = feed.policy
    bound: BoundPolicy = bind(policy, text_schema(policy), text=True, source="test")
    people = [feed.people[number] for number in named]
    names = [policy.cohorts.individual.name, *policy.partition_by, *(each.name for each in policy.quasis)]
    cells = [{"who": each.name, "town": each.town, **each.cells} for each in people]
    schema = pa.schema([(name, pa.string()) for name in dict.fromkeys(names)])
    rows = PeopleRows(bound, schema, "test", text=True)
    rows.add(pa.Table.from_pylist([{name: each[name] for name in schema.names} for each in cells], schema))
    return rows.rows


def named_of(feed: TrailFeed, seed: int) -> list[int]:
    """Some of a feed's people whose values are all within their domains, people without rows among them."""
    rng = np.random.default_rng(seed)
    fit = [number for number, each in enumerate(feed.people) if each.cells.get("age") != "117"]
    return [number for number in fit if rng.random() < 0.6]


def with_idle(feed: TrailFeed, seed: int) -> TrailFeed:
    """The feed in which a third of the people have no rows."""
    rng = np.random.default_rng(seed)
    idle = rng.random(len(feed.people)) < 0.3
    stays = ~idle[feed.owners]
    rows = tuple(row for row, there in zip(feed.rows, stays, strict=True) if there)
    return replace(feed, rows=rows, owners=feed.owners[stays])


def played(feed: TrailFeed, named: list[int]) -> Course:
    """A course that began with them."""
    return run(feed, expecting(feed, named))


@pytest.mark.parametrize("first", range(0, FEEDS, 10))
def test_exchanging_trails_shows_nothing_where_people_are_known_from_the_start(first: int) -> None:
    """Cohorts of whom a file names and of others alike; rows after entry may say anything."""
    mixed = idle = 0
    for seed in range(first, first + 10):
        feed = with_idle(generated_feed(seed), seed)
        named = named_of(feed, seed)
        course = played(feed, named)
        expected, active = set(named), set(feed.owners.tolist())
        for turn in range(3):
            changes = pair_of_a_generation(course, np.random.default_rng([seed, turn]))
            other = disturbed(course, seed, unreadable=False).exchanged(changes)
            assert facts(played(other, named), OF_CELLS) == facts(course, OF_CELLS), f"feed {seed}"
            idle += any(person not in active for person in changes)
        for generation in course.generations():
            kinds = {person in expected for person in generation}
            # Too few for a cohort of their own in a partition are known by their rows.
            mixed += len(kinds) > 1 and len(expected) >= feed.policy.cohorts.cohort_size
    assert idle, "nobody without a row was exchanged"


def test_exchanging_trails_shows_nothing_over_a_chain_whose_file_grows() -> None:
    """Some are named from the second run on, among them people who were seen in the first and wait since."""
    waited = later = 0
    for seed in range(100, 140):
        feed = with_idle(generated_feed(seed), seed)
        rng, named = np.random.default_rng(seed), named_of(feed, seed)
        first = [person for person in named if rng.random() < 0.5]
        files = (expecting(feed, first), expecting(feed, named)) if first else ()
        end = max(row.arrives for row in feed.rows) // 2 + 1

        def chained(feed: TrailFeed, end: int = end, files: tuple[ExpectedCohorts, ...] = files) -> Course:
            return run_chain(feed, [end], [False], named=files)

        course = chained(feed)
        seen = {int(owner) for owner, row in zip(feed.owners, feed.rows, strict=True) if row.arrives < end}
        for person, entry in course.entered.items():
            if person in named and person not in first and entry.step >= end:
                later += 1
                waited += person in seen
        for turn in range(3):
            changes = pair_of_a_generation(course, np.random.default_rng([seed, turn]))
            assert facts(chained(feed.exchanged(changes))) == facts(course), f"feed {seed}"
    assert later > 20
    assert waited > 5


@dataclass(frozen=True)
class LongerFile:
    """A feed as two runs, the first of which carries over. first, named: whom its file names, and that of the second;
    most people of the first wait then."""

    feed: TrailFeed
    end: int
    first: frozenset[int]
    named: frozenset[int]

    @classmethod
    def of(cls, seed: int) -> LongerFile:
        """Cohorts are larger than k, so that a few rows let everybody enter; an intake is too large to come before."""
        head = {"cohort_size": 5, "k": 2, "intake": 200, "intake_share": 0.8, "max_delay": "3h"}
        feed = with_idle(generated_feed(seed, **head), seed)
        rng, named = np.random.default_rng(seed), named_of(feed, seed)
        first = [person for person in named if rng.random() < 0.3]
        return cls(feed, 1 + seed % 3, frozenset(first), frozenset(named))

    def files(self) -> tuple[ExpectedCohorts, ...]:
        """Of both runs."""
        both = sorted(self.first), sorted(self.named)
        return tuple(expecting(self.feed, each) for each in both) if self.first else ()

    def played(self, changes: dict[int, int] | None = None) -> Course:
        """Its course, with some trails exchanged."""
        feed = self.feed.exchanged(changes or {})
        return run_chain(feed, [self.end], [True], named=self.files())

    def shown(self, course: Course, turns: int) -> int:
        """By how many exchanges within a cohort something changes."""
        seed, told = self.end, facts(course)
        pairs = [pair_of_a_generation(course, np.random.default_rng([seed, turn])) for turn in range(turns)]
        return sum(facts(self.played(changes)) != told for changes in pairs)

    def mixed(self, course: Course) -> int:
        """How many cohorts have people whom the first file made known, and others."""
        known = self.known
        return sum(len({person in known for person in each}) > 1 for each in course.generations())

    @property
    def known(self) -> frozenset[int]:
        """Whom the first file made known: a cohort's worth of a partition."""
        people, policy = self.feed.people, self.feed.policy
        towns = {person: people[person].town if policy.partition_by else "" for person in self.first}
        many = Counter(towns.values())
        return frozenset(person for person, town in towns.items() if many[town] >= policy.cohorts.cohort_size)


@pytest.mark.parametrize("first", range(100, 200, 20))
def test_exchanging_trails_shows_nothing_where_those_who_wait_meet_a_longer_file(first: int) -> None:
    """Those whom the first file named wait still when a second one names others, some of whom have been seen: of either
    file in cohorts of its own."""
    together = 0
    for seed in range(first, first + 20):
        longer = LongerFile.of(seed)
        course = longer.played()
        assert longer.shown(course, 3) == 0, f"feed {seed}"
        assert longer.mixed(course) == 0, f"feed {seed}"
        entered = [
            {person in longer.known for person in each}
            for each in course.generations()
            if longer.named.issuperset(each)
        ]
        together += {True} in entered and {False} in entered
    assert together > 3, "people of both files entered in too few feeds"


def test_a_cohort_of_people_whom_files_of_two_runs_named_would_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: founded together, whoever named them first, exchanges show in some feeds."""
    apart = founding._apart
    monkeypatch.setattr(
        founding, "_apart", lambda table, kind, *rest: apart(table, np.minimum(kind, 0), *rest)
    )
    monkeypatch.setattr(gate_frozen, "_are_mixed", lambda *_: False)
    shown = mixed = 0
    for seed in range(100, 150):
        longer = LongerFile.of(seed)
        course = longer.played()
        mixed += longer.mixed(course)
        shown += longer.shown(course, 4) if longer.mixed(course) else 0
    assert mixed
    assert shown


def test_a_cohort_of_both_kinds_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: founded together, as one pool, exchanges show in some feeds."""
    monkeypatch.setattr(founding, "_apart", lambda table, _, *rest: founding._labels(table, *rest))
    monkeypatch.setattr(gate_frozen, "_are_mixed", lambda *_: False)
    shown = 0
    for seed in range(40):
        feed = with_idle(generated_feed(seed), seed)
        named = named_of(feed, seed)
        course = played(feed, named)
        mixed = [each for each in course.generations() if len({person in set(named) for person in each}) > 1]
        for generation in mixed:
            one = next(person for person in generation if person in set(named))
            other = next(person for person in generation if person not in set(named))
            changes = {one: other, other: one}
            shown += facts(played(feed.exchanged(changes), named)) != facts(course)
    assert shown


def test_the_gate_refuses_a_cohort_of_both_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever founding did: nobody enters then, and rows of these people wait."""
    monkeypatch.setattr(founding, "_apart", lambda table, _, *rest: founding._labels(table, *rest))
    refused = 0
    for seed in range(20):
        feed = with_idle(generated_feed(seed), seed)
        course = played(feed, named_of(feed, seed))
        for generation in course.generations():
            assert len({person in set(named_of(feed, seed)) for person in generation}) == 1
        refused += any(
            record["reason"] == "gate_refused"
            for _, _, result in course.results
            for record in result.rejected
        )
    assert refused
