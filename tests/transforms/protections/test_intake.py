"""Who of a pool enters: over all small numbers of people seen, known from the start, here, and in cohorts already."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import kanonflow.transforms.protections.intake as intake_module
from kanonflow.transforms.protections.intake import _entering, _Here, _waiting
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.pool import Pool, empty_pool
from kanonflow.transforms.roster.roster import RosterHead, empty_roster
from kanonflow.transforms.roster.roster_state import RosterState
from tests.lasting_feeds import lasting_policy, results_of
from tests.mixed_people import mixed_bound, mixed_values
from tests.small_feeds import row

K = 3


def pool_of(seen: int, named: int) -> Pool:
    """People seen, with even digests, and people known from the start, with odd ones."""
    bound, rows = mixed_bound(), mixed_values(20, np.random.default_rng(2))
    digests = 2 * np.arange(seen, dtype=np.uint64)
    pool = empty_pool(bound).having_seen(digests, np.full(seen, 1), rows.slice(0, seen), bound)
    return pool.expecting(2 * np.arange(named, dtype=np.uint64) + np.uint64(1), rows.slice(10, named), bound)


def people_here(others: int, who: list[int], parts: int = 1) -> _Here:
    """So many people of cohorts, and those who wait with these digests, dealt to the parts of a window in turn."""
    digests = np.array([*range(1000, 1000 + others), *who], dtype=np.uint64)
    person = np.arange(digests.size)
    return _Here(person % parts, person, digests, person < others)


def due(**head: Any) -> Any:
    """What an intake asks of what is due: the policy."""
    return SimpleNamespace(policy=mixed_bound(**head).policy, bound=mixed_bound(**head))


def enters(
    seen: int, named: int, here: tuple[int, int], others: int, must: bool, intake: int, size: int
) -> tuple[bool, bool]:
    """The rule in words: whether those who were seen enter, and those who are known from the start."""
    all_here = others + sum(here)
    by_count = seen >= size and seen >= K and all_here >= K and (seen >= intake or must)
    if by_count:
        return True, named > 0
    return False, named > 0 and others + here[1] >= K


@pytest.mark.parametrize(("intake", "size"), [(4, 3), (5, 4), (3, 3)])
def test_who_enters_follows_from_counts_and_one_deadline(intake: int, size: int) -> None:
    """Against the rule, for up to five of either kind, any of them here, and up to three in cohorts."""
    asked = due(intake=intake, cohort_size=size)
    for seen, named, others, must in itertools.product(range(6), (0, 3, 5), range(4), (False, True)):
        pool = pool_of(seen, named)
        for here in itertools.product(range(seen + 1), range(named + 1)):
            who = [*(2 * n for n in range(here[0])), *(2 * n + 1 for n in range(here[1]))]
            forced = {0} if must and here[0] else {1} if must and here[1] else set()
            told = _entering(pool, people_here(others, who), forced, intake, asked)
            expected = enters(seen, named, here, others, bool(must and here[0]), intake, size)
            assert told.shape == pool.people.shape
            assert set(told[~pool.from_start].tolist()) <= {expected[0]}, (seen, named, here, others, must)
            assert set(told[pool.from_start].tolist()) <= {expected[1]}, (seen, named, here, others, must)


def test_nobody_enters_where_no_part_of_the_window_has_people_enough() -> None:
    """Six in two parts are three in one of them, and five are too, with two in the other; four are two and two."""
    asked = due(intake=3, cohort_size=3)
    for here, enter in ((6, True), (5, True), (4, False), (3, False)):
        pool = pool_of(here, 0)
        everybody = people_here(0, pool.people.tolist(), parts=2)
        assert set(_entering(pool, everybody, set(), 3, asked).tolist()) == {enter}, here
    with_known = people_here(2, [0, 2, 4], parts=2)
    assert _entering(pool_of(3, 0), with_known, set(), 3, asked).all()
    assert with_known.most_with(np.zeros(0, np.uint64)) == 1


def test_an_intake_is_a_share_of_those_who_have_entered() -> None:
    """Of six half is three: two wait until one of them must leave, three do not; and of nobody it is the least."""
    policy = lasting_policy(k=2, cohort_size=2, intake=2, intake_share=0.5, max_delay="2h")
    feed = [row(who, who, 0.5) for who in range(6)]
    feed += [row(10 * hour + who, who, hour + 0.5) for hour in (1, 2, 3) for who in (0, 1)]
    two = [row(50 + who, who, 1.5) for who in (20, 21)]
    assert entered(results_of([*feed, *two], policy))[:4] == [6, 0, 0, 2]
    three = [*two, row(53, 22, 2.5)]
    assert entered(results_of([*feed, *three], policy))[:4] == [6, 0, 3, 0]
    assert policy.cohorts.intake_of(4) == 2
    assert policy.cohorts.intake_of(5) == 3


@pytest.mark.parametrize(("named", "stays"), [(0, 0), (1, 0), (2, 0), (3, 3), (4, 4)])
def test_fewer_than_a_cohort_are_not_expected(named: int, stays: int) -> None:
    """They are known by their rows from then on; others of the pool stay."""
    bound = mixed_bound(cohort_size=3)
    state = RosterState(RosterHead(7), pool_of(4, named))
    before = Before(WarmState(roster=state), empty_roster(7))
    pool = _waiting(before, cast(Any, SimpleNamespace(policy=bound.policy, bound=bound)))
    assert int(pool.from_start.sum()) == stays
    assert pool.people.size == 4 + stays


def test_fewer_than_a_cohort_of_a_kind_are_not_expected() -> None:
    """Two named by one run are no cohort with four whom the next one named: all four stay, and enter as one."""
    bound, rows = mixed_bound(cohort_size=3), mixed_values(4, np.random.default_rng(3))
    both = pool_of(4, 2).expecting(np.arange(100, 104, dtype=np.uint64), rows, bound, 1)
    before = Before(WarmState(roster=RosterState(RosterHead(7), both)), empty_roster(7))
    pool = _waiting(before, cast(Any, SimpleNamespace(policy=bound.policy, bound=bound)))
    assert np.unique(pool.kind, return_counts=True)[1].tolist() == [4, 4]
    told = _entering(pool, people_here(3, []), set(), 9, due(cohort_size=3))
    assert told.tolist() == pool.from_start.tolist()


def entered(results: list[WindowResult]) -> list[int | None]:
    """How many people entered with each window; None: nothing was released."""
    return [each.metrics["people_entered"] if each.release is not None else None for each in results]


def test_people_of_the_first_cohort_here_let_others_enter() -> None:
    """Two of a cohort and one newcomer are k; two were seen the hour before, when two were here and nobody else."""
    policy = lasting_policy(max_delay=0)
    feed = [row(who, who, 0.5) for who in (0, 1, 2)]
    feed += [row(10 + who, who, 1.5) for who in (10, 11)]
    feed += [row(20 + who, who, 2.5) for who in (0, 1, 12)]
    assert entered(results_of(feed, policy)) == [3, None, 3]
    # One of the cohort and one newcomer are not.
    assert entered(results_of([*feed[:-2], row(40, 12, 2.5)], policy)) == [3, None, None]


def test_as_many_as_may_enter_together_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more does not, by its reason."""
    feed = [row(who, who, 0.5) for who in range(6)]
    monkeypatch.setattr(intake_module, "MOST", 6)
    assert entered(results_of(feed, lasting_policy())) == [6]
    (few,) = results_of(feed, lasting_policy(max_delay=0, cohort_size=7, intake=7))
    assert {record["reason"] for record in few.rejected} == {"awaits_intake"}
    monkeypatch.setattr(intake_module, "MOST", 5)
    (result,) = (each for each in results_of(feed, lasting_policy(max_delay=0)) if each.rejected)
    assert {record["reason"] for record in result.rejected} == {"intake_too_large"}
