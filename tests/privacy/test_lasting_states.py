"""Rosters over retries, savepoints, a rotated secret, and a run that continues: nobody enters twice or elsewhere."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.continued import Continued
from kanonflow.transforms.roster.roster import Segment, roster_of, segment_from_bytes
from kanonflow.transforms.roster.window_groups import no_groups
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from tests.driven_partitions import DrivenPartitions
from tests.lasting_feeds import EPOCH, KEY, growing_feed, lasting_policy, partition_of, results_of
from tests.small_feeds import HOUR, SECRET, START, Row, bound_feed, hourly

FEEDS: dict[str, tuple[dict[str, object], list[Row]]] = {
    "at once": ({}, growing_feed(4)),
    "waiting": ({"max_delay": "2h", "intake": 25, "running": True}, hourly(7, 20, 45, seed=4)),
}
ROTATED = Secret(b"the second secret of this feed, longer").after([SECRET], 2)


class Known(NamedTuple):
    """An earlier run of one partition, in memory; it counts how often it was asked."""

    segments: tuple[Segment, ...]
    asked: list[bytes]

    def of(self, key: bytes) -> Continued | None:
        self.asked.append(key)
        return Continued(EPOCH, self.segments, no_groups()) if key == KEY else None


def told(results: list[WindowResult]) -> list[object]:
    """What a retry must make again: releases with their rosters, segments, rejected rows, and the state."""
    return [
        (each.release, each.segment, each.rejected, each.warm.to_bytes(), each.roster and each.roster.head)
        for each in results
    ]


def test_a_retried_step_makes_the_same_segments_and_releases() -> None:
    """Each step is made twice from the same state; nothing but the second is kept."""
    for head, feed in FEEDS.values():
        partition = partition_of(feed, lasting_policy(**head))
        entered = 0
        while partition.fires_at is not None:
            tried = copy.deepcopy(partition)
            once, again = list(tried.fire()), list(partition.fire())
            assert told(once) == told(again)
            assert tried.segments == partition.segments
            entered += sum(each.segment is not None for each in again)
        assert entered == len(partition.segments) > 1


def test_a_savepoint_goes_on_with_the_same_rosters() -> None:
    """The cells after each hour, put under a worker that has read nothing: the rest of the feed is the same."""
    bound = bound_feed(lasting_policy(max_delay="2h", intake=25))
    feed = hourly(6, 20, 45, seed=4)
    driven, saved = DrivenPartitions(bound, SECRET), []
    for hour in range(6):
        saved.append((hour, driven.copy(), len(driven.released)))
        driven.send(feed[20 * hour : 20 * hour + 20])
        driven.advance(START + hour * HOUR + 6 * HOUR // 5)
    assert sum(release.entered is not None for release in driven.released) > 1
    for hour, begun, before in saved:
        for later in range(hour, 6):
            begun.send(feed[20 * later : 20 * later + 20])
            begun.advance(START + later * HOUR + 6 * HOUR // 5)
        assert begun.released == driven.released[before:]
        assert [cells.roster.values for cells in begun.cells.values()] == [
            cells.roster.values for cells in driven.cells.values()
        ]


def test_a_rotation_changes_no_digest() -> None:
    """Under the secret that replaced another people are known by the same digests."""
    policy, feed = lasting_policy(), growing_feed(3)
    people = []
    for secret in (SECRET, ROTATED):
        made = [each.segment for each in results_of(feed, policy, secret=secret) if each.segment is not None]
        people.append([segment_from_bytes(segment).people for segment in made])
    assert len(people[0]) == len(people[1]) == 3
    assert all(np.array_equal(one, two) for one, two in zip(*people, strict=True))


def continuing(known: Known, feed: list[Row]) -> PartitionInMemory:
    return partition_of(feed, lasting_policy(), continued=known)


def test_what_a_run_continues_becomes_its_state() -> None:
    """The segments of the earlier run are part of the state with the first step, also where nothing is released, and
    the earlier run is asked no more then."""
    feed = growing_feed(4)
    whole = partition_of(feed, lasting_policy())
    results = list(whole.finish())
    first = [segment_from_bytes(data) for data in whole.segments[:2]]
    known = Known(tuple(first), [])
    rest = [each for each in feed if (each["when"] or "") >= "2024-03-01T02"]
    partition = continuing(known, rest)
    made = list(partition.finish())
    # For what it carried over, and with the first release for its people.
    assert known.asked == [KEY, KEY]
    assert partition.segments == whole.segments
    assert [each.segment for each in made] == [each.segment for each in results[2:]]
    head = results[-1].roster and results[-1].roster.head
    assert head is not None
    assert roster_of(head, partition.segments).head == head
    few = continuing(Known(tuple(first), []), rest[:1])
    assert [each.release for each in few.fire()] == [None]
    assert few.segments == whole.segments[:2]
    assert few.warm().roster is not None
    state, there = (WarmState(domains=each.domains) for each in (few.warm(), results[1].warm))
    assert state.to_bytes() == there.to_bytes()


def test_a_partition_that_the_earlier_run_did_not_know_begins_with_nobody() -> None:
    """In the same epoch."""
    nobody = partition_of(growing_feed(1), lasting_policy(), continued=_Nobody())
    made = [each.release for each in nobody.finish() if each.release is not None]
    assert made[0].slot is not None
    assert made[0].slot.roster is not None
    assert (made[0].slot.roster.epoch, made[0].slot.roster.before) == (EPOCH, "")


class _Nobody:
    def of(self, key: bytes) -> Continued | None:
        return None
