"""``against`` with ``drop``: whoever knows so many windows and rows of a person, and other people's, is left with k.

An attack that knows exactly that much, over whole feeds; the swap condition with the clause; and controls that fail:
without the rule, and with one that looks at a person and not at the cohort.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kanonflow.schemas.policy_file import parse_policy, to_mapping
from kanonflow.transforms.protections import lasting
from kanonflow.transforms.protections.intake import Entered
from kanonflow.transforms.protections.known_otherwise import GoesOut, going_out
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import own_ends
from kanonflow.transforms.release.stages import Before
from tests.known_items import least_left, people_below
from tests.privacy.test_swap import (
    OF_CELLS,
    disturbed_and_exchanged_shows_the_same,
    exchanged_shows_the_same,
    pair_of_a_generation,
    shuffled_generations,
)
from tests.swapped_feeds import (
    Course,
    TrailFeed,
    facts,
    generated_feed,
    groups_of,
    rows_in,
    run,
    run_chain,
    split_feed,
)

CLAUSES: list[dict[str, Any]] = [
    {"known_windows": {"count": 1, "drop": True}},
    {"known_windows": {"count": 3, "drop": True}, "known_people": 1},
    {"known_purchases": {"count": 2, "of": ["amount"], "drop": True}},
    {
        "known_windows": {"count": 2, "drop": True},
        "known_purchases": {"count": 1, "of": ["amount"], "drop": True},
    },
]


def feed_of(seed: int, clause: dict[str, Any], make: Any = generated_feed) -> TrailFeed:
    """A feed with cohorts that are larger than k, and with few amounts, so that some rows go out and some do not."""
    rounded = {"round": 50, "top": 50} if "known_purchases" in clause else {}
    feed: TrailFeed = make(seed, against=clause, k=2, cohort_size=8, intake=8, max_delay=f"{seed % 3}h")
    if not rounded:
        return feed
    plain = to_mapping(feed.policy)
    plain["fields"]["amount"] |= rounded
    return TrailFeed(parse_policy(plain, "test", "test"), feed.people, feed.rows, feed.owners)


MEASURED: list[dict[str, Any]] = [
    {"known_windows": {"count": 3}},
    {"known_windows": {"count": 1, "drop": True}, "known_purchases": {"count": 2, "of": ["amount"]}},
    {
        "known_people": 1,
        "known_windows": {"count": 2},
        "known_purchases": {"count": 1, "of": ["amount"], "wanted": 0.9},
    },
]


def last_told(course: Course) -> dict[bytes, Any]:
    """What the last step of each partition tells of the epoch."""
    return {key: result.metrics["epoch_against"] for key, _, result in course.results}


def told_at_the_end(course: Course, clause: dict[str, Any]) -> int:
    """Compare what is told in the end with all that could be known of everybody; how many are left with too few."""
    last = last_told(course)
    known = (clause.get(name, {}).get("count", 0) for name in ("known_windows", "known_purchases"))
    found = people_below(course, *known, 2 + clause.get("known_people", 0))
    assert found == tuple(sum(told[name] for told in last.values()) for name in ("below_k", "people"))
    assert not any(told["at_least"] for told in last.values())
    return found[0]


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(len(MEASURED)))
def test_whom_a_measured_clause_leaves_is_counted_and_nothing_is_done(number: int) -> None:
    """By all that could be known of everybody; of parts of windows, and of runs that carry over, as of one run."""
    clause, below = MEASURED[number], 0
    dropped = {name: items for name, items in clause.items() if name == "known_people" or "drop" in items}
    for seed in range(1, 3):
        feed = feed_of(seed, clause)
        course = run(feed)
        below += told_at_the_end(course, clause)
        below += told_at_the_end(run_chain(feed, (2, 4), (True, True)), clause)
    told_at_the_end(run(feed_of(seed, clause, split_feed)), clause)
    plain = run(replace(feed, policy=replace(feed.policy, against=against_of(dropped))))
    released = [[groups_of(each.release) for *_, each in whole.results] for whole in (course, plain)]
    assert released[0] == released[1]
    assert not any(each.metrics["epoch_against"] for *_, each in plain.results)
    assert below > 5


def against_of(clause: dict[str, Any]) -> Any:
    """As a policy holds it."""
    return feed_of(0, clause).policy.against if clause else None


def test_a_count_that_an_epoch_did_not_begin_with_says_that_there_may_be_more() -> None:
    """A clause that comes later, or a state that was lost: it begins anew, and is not refused."""
    feed = feed_of(3, MEASURED[0])
    plain, whole = replace(feed.policy, against=None), last_told(run(feed))
    assert not any(told["at_least"] for told in whole.values())
    for course in (
        run_chain(feed, (3,), (True,), policies=(plain, feed.policy)),
        run_chain(feed, (3,), (False,), frozenset({"state"})),
    ):
        begun = {key for key, step, each in course.results if step < 3 and each.release is not None}
        assert begun
        for key, told in last_told(course).items():
            assert told["at_least"] == (key in begun)
        assert sum(told["people"] for told in last_told(course).values()) > 0


@pytest.mark.thorough
def test_exchanging_trails_changes_no_count() -> None:
    """(S), with what is told of the epoch, in parts of windows too."""
    for seed, clause in enumerate(MEASURED, 20):
        course = run(feed_of(seed, clause))
        assert disturbed_and_exchanged_shows_the_same(course, shuffled_generations, seed), f"feed {seed}"
    assert exchanged_shows_the_same(feed_of(30, MEASURED[2], split_feed), pair_of_a_generation, 30)


def reasons(course: Course) -> Counter[str]:
    return Counter(record["reason"] for _, _, result in course.results for record in result.rejected)


@pytest.mark.parametrize("number", range(len(CLAUSES)))
def test_who_knows_as_much_as_the_clause_says_is_left_with_enough(number: int) -> None:
    """And the books close; some rows are dropped, and many are not."""
    clause, dropped, released = CLAUSES[number], 0, 0
    windows = clause.get("known_windows", {}).get("count", 0)
    purchases = clause.get("known_purchases", {}).get("count", 0)
    for seed in range(5, 10):
        course = run(feed_of(seed, clause))
        assert least_left(course, windows, purchases) >= 2 + clause.get("known_people", 0), f"feed {seed}"
        came, went = rows_in(course)
        assert went == came, f"feed {seed}: a row is released or rejected once, and nothing waits at the end"
        dropped += reasons(course)["known_otherwise"]
        released += sum(result.metrics["rows_released"] for _, _, result in course.results)
    assert dropped > 5
    assert released > 100


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(len(CLAUSES)))
def test_exchanging_trails_shows_nothing_with_a_clause(number: int) -> None:
    """(S), whatever rows say of people who are known."""
    for seed in range(20, 25):
        course = run(feed_of(seed, CLAUSES[number]))
        for choose in (pair_of_a_generation, shuffled_generations):
            assert disturbed_and_exchanged_shows_the_same(course, choose, seed), f"feed {seed}"


@pytest.mark.thorough
def test_exchanging_trails_shows_nothing_in_parts_and_chains_with_a_clause() -> None:
    """Each part of a window has items of its own; runs that continue each other count on."""
    clause = CLAUSES[1]
    for seed in range(30, 35):
        feed = feed_of(seed, clause, split_feed)
        assert exchanged_shows_the_same(feed, pair_of_a_generation, seed), f"feed {seed}"
        assert least_left(run(feed), 3, 0) >= 3
        feed = feed_of(seed, clause)
        ends, carries = (2, 4), (bool(seed % 2), True)
        course = run_chain(feed, ends, carries)
        assert least_left(course, 3, 0) >= 3, f"feed {seed}"
        changes = pair_of_a_generation(course, np.random.default_rng(seed))
        exchanged = run_chain(feed.exchanged(changes), ends, carries)
        assert facts(exchanged, OF_CELLS) == facts(course, OF_CELLS), f"feed {seed}"


def all_go_out(due: Due, entered: Entered, before: Before) -> GoesOut:
    """The rule switched off."""
    return GoesOut(np.ones(entered.rows.num_rows, dtype=np.bool_), going_out(due, entered, before).after)


class ByPerson:
    """What somebody might well have written: a person's rows are dropped where it is the person who stands out."""

    def __init__(self) -> None:
        self.out: dict[int, set[int]] = defaultdict(set)

    def __call__(self, due: Due, entered: Entered, before: Before) -> GoesOut:
        ends = own_ends(entered.rows, due.bound).tolist()
        digests = entered.digests[entered.person].tolist()
        cohorts = entered.cohort.tolist()
        against = due.policy.against
        assert against is not None
        here: dict[tuple[int, int], set[int]] = defaultdict(set)
        for who, cohort, end in zip(digests, cohorts, ends, strict=True):
            here[cohort, end].add(who)
        goes = np.array(
            [
                all(
                    sum(self.out[other].issuperset(some) for other in here[cohort, end])
                    >= against.left(due.policy.k)
                    for some in itertools.combinations(sorted(self.out[who]), min(2, len(self.out[who])))
                )
                for who, cohort, end in zip(digests, cohorts, ends, strict=True)
            ]
        )
        for who, end, out in zip(digests, ends, goes.tolist(), strict=True):
            if out:
                self.out[who].add(end)
        return GoesOut(goes, going_out(due, entered, before).after)


@pytest.mark.thorough
@pytest.mark.parametrize("by_person", [False, True])
def test_without_the_rule_or_by_person_the_attack_finds_too_few(
    monkeypatch: pytest.MonkeyPatch, *, by_person: bool
) -> None:
    """Two controls: what is compared above would notice."""
    found = 0
    for seed in range(6):
        monkeypatch.setattr(lasting, "going_out", ByPerson() if by_person else all_go_out)
        found += least_left(run(feed_of(seed, CLAUSES[1])), 3, 0) < 3
    assert found >= 3
