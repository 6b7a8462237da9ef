"""What the speed of a stream decides and what it does not: the same rows, while time reaches the step sooner or later.

A source says how far time is behind the rows that it read, and a runner tells the solving step so when it gets to it:
after the next batch, or after many. That is all that two replays of one feed may differ in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from kanonflow.transforms.lineage.release_lineage import Slot
from kanonflow.transforms.rows.elements import from_ipc
from tests.driven_partitions import DrivenPartitions
from tests.small_feeds import HOUR, SECRET, Row, bound_feed, feed_policy, hourly, references

pytestmark = pytest.mark.thorough

TOWNS = ("Bonn", "Kiel")
HOURS, A_BATCH = 8, 20
MINUTE = HOUR // 60
OUT_OF_ORDER = 6 * MINUTE
POLICIES = {
    "classes": bound_feed(feed_policy(towns=True, max_delay="3h")),
    "people": bound_feed(feed_policy(towns=True, max_delay="3h", protect="row")),
}
Arrived = tuple[Row, int]
"""A row and its event time in ms."""


def feed(late: float) -> list[Arrived]:
    """Rows as they arrive: all up to 5 minutes after their time, a share of them hours."""
    rng = np.random.default_rng(5)
    rows = hourly(HOURS, 60, 30, towns=TOWNS)
    times = [int(np.datetime64(str(each["when"])[:-6], "ms").astype(np.int64)) for each in rows]
    delay = rng.uniform(0, 5 * MINUTE, len(rows))
    delay += np.where(rng.random(len(rows)) < late, rng.uniform(1, 3, len(rows)) * HOUR, 0)
    order = np.argsort(np.array(times) + delay, kind="stable")
    return [(rows[place], times[place]) for place in order]


def late_rows(arrived: Sequence[Arrived]) -> set[str | None]:
    """References of the rows that come when time may be past their window."""
    found, newest = set(), 0
    for row, at in arrived:
        if newest - OUT_OF_ORDER >= (at // HOUR + 1) * HOUR:
            found.add(row["reference"])
        newest = max(newest, at)
    return found


def replayed(policy: str, arrived: Sequence[Arrived], behind: Sequence[int]) -> DrivenPartitions:
    """What came of the feed when the step learns of time so many batches after the source said it (in turns)."""
    driven = DrivenPartitions(POLICIES[policy], SECRET)
    told: list[tuple[int, int]] = []
    newest = 0
    for number, begin in enumerate(range(0, len(arrived), A_BATCH)):
        batch = arrived[begin : begin + A_BATCH]
        driven.send([row for row, _ in batch])
        newest = max(newest, *(at for _, at in batch))
        told.append((number + behind[number % len(behind)], newest - OUT_OF_ORDER))
        due = [watermark for at, watermark in told if at <= number]
        if due and (driven.watermark is None or max(due) > driven.watermark):
            driven.advance(max(due))
    driven.finish()
    return driven


def outcome(driven: DrivenPartitions) -> dict[tuple[bytes, int | None], tuple[list[str], bytes]]:
    """Of each partition and window the rows that its release holds, and the release."""
    found = {}
    for release in driven.released:
        assert isinstance(release.slot, Slot)
        held = references(from_ipc(release.ipc))
        found[release.slot.partition, release.slot.window_end] = held, release.ipc
    assert len(found) == len(driven.released)
    return found


SCHEDULES = ([1], [4], [0, 7, 2, 9, 1])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("behind", SCHEDULES)
def test_without_late_rows_speed_decides_nothing(policy: str, behind: list[int]) -> None:
    """The same releases, byte for byte, and the same rejected rows, however late the step learns of time."""
    arrived = feed(late=0)
    assert not late_rows(arrived)
    at_once, later = replayed(policy, arrived, [0]), replayed(policy, arrived, behind)
    assert len(outcome(at_once)) > HOURS
    assert outcome(later) == outcome(at_once)
    assert later.refused() == at_once.refused()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("behind", SCHEDULES)
def test_late_rows_are_all_that_makes_two_replays_differ(policy: str, behind: list[int]) -> None:
    """A late row joins its own window if that is still open when it comes, else a later one, which time decides.

    Every release before the first such row of its partition is the same, byte for byte, and no row is lost.
    """
    arrived = feed(late=0.03)
    late = late_rows(arrived)
    assert late
    runs = [replayed(policy, arrived, [0]), replayed(policy, arrived, behind)]
    for run in runs:
        assert sorted(run.published() + [name for name, _ in run.refused()]) == sorted(
            str(row["reference"]) for row, _ in arrived
        )
    one, other = map(outcome, runs)
    assert one != other, "the schedules must matter"
    for partition in {key for key, _ in one}:
        ends = sorted(end for key, end in one.keys() | other.keys() if key == partition and end is not None)
        assert all(end < following for end, following in pairwise(ends))
        for end in ends:
            (rows, release), (other_rows, other_release) = (
                each.get((partition, end), ([], b"")) for each in (one, other)
            )
            if rows != other_rows:
                assert (set(rows) ^ set(other_rows)) & late
                break
            assert release == other_release
