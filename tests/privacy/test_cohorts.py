"""Several windows together: what an attacker has left who intersects the candidates of a returning person."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.partition import Partition
from kanonflow.transforms import release_window as module
from kanonflow.transforms.publish import Published
from kanonflow.transforms.release_parts import release_parts
from kanonflow.transforms.seeds import ReleaseSlot
from kanonflow.transforms.warm_state import WarmState, warm_state_from_bytes
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, row

K = 3
Members = dict[str, set[str]]
"""Of one window: person -> everybody in its class."""


def comings_and_goings(seed: int, hours: int, people: int, staying: float, rows: float) -> list[list[Row]]:
    """Hours in which everybody is there with a chance of its own, some come later, some leave; rows a person vary."""
    rng = np.random.default_rng(seed)
    chance = rng.beta(4 * staying, 4 * (1 - staying), people)
    first, last = rng.integers(-hours, hours // 2 + 1, people), rng.integers(hours // 2, 2 * hours, people)
    feed, number = [], 0
    for hour in range(hours):
        now = []
        for person in range(people):
            if first[person] <= hour <= last[person] and rng.random() < chance[person]:
                for _ in range(1 + int(rng.poisson(rows))):
                    now.append(row(number, person, hour + 0.5))
                    number += 1
        feed.append(now)
    return feed


def released_classes(feed: list[list[Row]], bound: BoundPolicy) -> tuple[list[Members], Counter[str]]:
    """Who was released in a class with whom, a window (parts of a window together); and why rows were rejected.

    Taken from what is handed to publishing, the true classes: nobody outside can know more about them.
    """
    windows: list[Members] = []
    reasons: Counter[str] = Counter()
    warm = WarmState()
    publish = module.publish

    def watched(rows: pa.Table, structure: Partition, *others: Any) -> Published:
        found = publish(rows, structure, *others)
        people = rows["who"].to_pylist()
        for label in range(structure.classes):
            members = {who for who, own in zip(people, structure.labels, strict=True) if own == label}
            assert not members & windows[-1].keys()
            windows[-1].update(dict.fromkeys(members, members))
        return found

    number = 0
    with patch.object(module, "publish", watched):
        for hour, rows in enumerate(feed):
            windows.append({})
            slot = ReleaseSlot(b"p", START + (hour + 1) * HOUR, number)
            for result in release_parts(canonical(rows, bound), bound, warm, SECRET, slot):
                warm = warm_state_from_bytes(result.warm.to_bytes())
                reasons.update(record["reason"] for record in result.rejected)
                number += 1
    return [window for window in windows if window], reasons


def fewest_left(windows: list[Members], reach: int) -> int:
    """The attacker: for every run of ``reach`` windows and everybody released in it, the people left in common."""
    left = [10**9]
    for end in range(1, len(windows) + 1):
        run = windows[max(0, end - reach) : end]
        for person in set().union(*run):
            common = set.intersection(*(window[person] for window in run if person in window))
            left += [len(common)]
    return min(left)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 2**20),
    people=st.integers(6, 30),
    staying=st.sampled_from([0.4, 0.8, 0.95]),
    rows=st.sampled_from([0.0, 1.0]),
    reach=st.integers(2, 5),
    head=st.sampled_from([{}, {"max_delay": "2h"}, {"max_delay": "1h", "max_window_rows": 30}]),
)
def test_strict_cohorts_leave_k_candidates(
    seed: int, people: int, staying: float, rows: float, reach: int, head: dict[str, Any]
) -> None:
    """Whoever comes and goes: over any W windows in a row nobody is left with fewer than k, also in parts."""
    feed = comings_and_goings(seed, 8, people, staying, rows)
    bound = bound_feed(feed_policy(cohort="strict", cohort_windows=reach, **head))
    windows, reasons = released_classes(feed, bound)
    assert not windows or fewest_left(windows, reach) >= K
    assert "gate_refused" not in reasons


@pytest.mark.parametrize("seed", range(4))
def test_free_classes_do_not(seed: int) -> None:
    """The same attack on classes that are formed afresh: somebody is alone after five windows; kept ones promise
    nothing either."""
    feed = comings_and_goings(seed, 8, 40, 0.8, 1.0)
    windows, _ = released_classes(feed, bound_feed(feed_policy(max_delay="2h")))
    assert fewest_left(windows, 5) == 1
    strict, _ = released_classes(feed, bound_feed(feed_policy(cohort="strict", max_delay="2h")))
    assert fewest_left(strict, 5) >= K
    released = [sum(len(window) for window in each) for each in (windows, strict)]
    assert released[1] > 0.5 * released[0], "a guarantee that releases next to nobody would be no guarantee"


def peers_again(windows: list[Members]) -> float:
    """Of the pairs that were peers in one window and are both in the next, the share that are peers again."""
    pairs = [
        other in now[one]
        for before, now in pairwise(windows)
        for one in before
        for other in before[one]
        if one != other and one in now and other in now
    ]
    return float(np.mean(pairs))


def test_stability_keeps_peers_together() -> None:
    """The heavier the weight, the more peers meet again; every class still has k people, and people still go out."""
    feed = comings_and_goings(3, 10, 40, 0.9, 0.5)
    again, released = [], []
    for head in ({}, {"stability": 0.2}, {"stability": 1.0}):
        windows, reasons = released_classes(feed, bound_feed(feed_policy(max_delay="2h", **head)))
        assert all(len(members) >= K for window in windows for members in window.values())
        assert "gate_refused" not in reasons
        again.append(peers_again(windows))
        released.append(sum(len(window) for window in windows))
    assert again[0] < again[1] < again[2]
    assert min(released) > 0.8 * released[0]


def test_the_promise_ends_with_the_windows_that_are_named() -> None:
    """Over more windows than W candidates may melt away: cohorts that lapsed are formed afresh."""
    feed = comings_and_goings(2, 14, 40, 0.4, 0.0)
    bound = bound_feed(feed_policy(cohort="strict", cohort_windows=2, max_delay="1h"))
    windows, _ = released_classes(feed, bound)
    assert fewest_left(windows, 2) >= K
    assert fewest_left(windows, len(windows)) < K


def test_who_lost_its_cohort_is_exiled_and_then_grouped_afresh() -> None:
    """Six people, of whom two come back: they wait, are rejected, and are newcomers after W - 1 other windows."""
    others = list(range(10, 17))
    plan = [[0, 1, 2, 3, 4, 5, *others], [0, 1, *others], [0, 1, *others], [0, 1, *others]]
    feed = [
        [
            row(100 * hour + person, person, hour + 0.5, age="20" if person < 6 else "30", job="nurse")
            for person in people
        ]
        for hour, people in enumerate(plan)
    ]
    bound = bound_feed(feed_policy(cohort="strict", cohort_windows=3))
    windows, reasons = released_classes(feed, bound)
    comings = [{"p0", "p1"} <= window.keys() for window in windows]
    assert windows[0]["p0"] == {f"p{person}" for person in range(6)}
    assert comings == [True, False, False, True]
    assert reasons["cohort_at_risk"] == 4
