"""Several windows together: what an attacker has left who intersects the candidates of a returning person."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.publishing.publish import Published
from kanonflow.transforms.release import issue as module
from kanonflow.transforms.release.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.secret.seeds import ReleaseSlot
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, canonical, feed_policy, row
from tests.windows_alone import release_parts

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


@pytest.mark.parametrize("seed", range(4))
def test_classes_of_each_window_leave_nobody_k_candidates_over_several(seed: int) -> None:
    """Each window keeps k; over five of them somebody is alone, which the documents say."""
    feed = comings_and_goings(seed, 8, 40, 0.8, 1.0)
    windows, _ = released_classes(feed, bound_feed(feed_policy(max_delay="2h")))
    assert fewest_left(windows, 1) >= K
    assert fewest_left(windows, 5) == 1
