"""Who enters with which window, by count and deadline."""

from __future__ import annotations

import numpy as np

from kanonflow.pipelines.risks.intakes import NEVER, entry_windows
from tests.pipelines.risks.toy_feeds import toy, toy_bound, visits

FEED = [("a", 0, 1), ("b", 1, 1), ("c", 2, 1), ("d", 3, 1), ("a", 4, 1), ("e", 4, 1)]


def entered(rows: list, size: int, **head: object) -> list[int]:
    """The hour of entry of each person, in the order of names."""
    trails, bound = toy(rows, **head)
    hours = entry_windows(trails.pair_member, trails.pair_window, bound.policy, size)
    begin = int(trails.window.min())
    return [hour if hour == NEVER else hour - begin for hour in hours.tolist()]


def test_an_intake_by_count() -> None:
    """Three wait in hour 2; d and e are two, and enter when d's row must leave, three hours after its own."""
    assert entered(FEED, 2, max_delay="3h", intake=3) == [2, 2, 2, 6, 6]


def test_an_intake_by_deadline() -> None:
    """With a larger intake: a's row of hour 0 must leave in hour 3, and all who are there enter; e is left alone."""
    assert entered(FEED, 2, max_delay="3h", intake=100) == [3, 3, 3, 3, NEVER]


def test_without_delay_at_the_end_of_the_own_window() -> None:
    """One a window is never enough for a release, and without one nobody enters. Hour 4 has two: all who were seen."""
    assert entered(FEED, 2) == [4, 4, 4, 4, 4]


def test_a_deadline_with_too_few_people_passes() -> None:
    """a's row is gone after hour 1; a is still in the pool when b and c come, and enters with them."""
    rows = [("a", 0, 1), ("b", 5, 1), ("c", 5, 1)]
    assert entered(rows, 3, max_delay="1h", intake=100, k=2) == [6, 6, 6]
    # But where three must be released together, b and c have nobody to be released with.
    assert entered(rows, 3, max_delay="1h", intake=100, k=3) == [NEVER, NEVER, NEVER]


def test_nobody_enters_twice_and_nobody_is_left_behind() -> None:
    """Over random feeds every intake takes all who were seen and are not in."""
    rng = np.random.default_rng(4)
    rows = [(f"p{number % 40:02}", int(hour), 1) for number, hour in enumerate(rng.integers(0, 30, 200))]
    trails, bound = toy(rows, max_delay="4h", intake=9, k=3)
    hours = entry_windows(trails.pair_member, trails.pair_window, bound.policy, 3)
    assert (hours >= trails.first).all()
    for hour in np.unique(hours[hours != NEVER]):
        assert (hours[trails.first <= hour] <= hour).all()


def test_the_policy_of_the_toys_is_lasting() -> None:
    """Or the tests above would test nothing."""
    assert toy_bound(visits(FEED)).policy.lasting
