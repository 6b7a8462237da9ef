"""Who was seen in which partition first, and who in another one since."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.roster.first_partitions import (
    BUCKETS,
    FirstPartitions,
    Sightings,
    first_partitions_from_bytes,
)

KEYS = [bytes([number]) * 15 + b"\0" for number in range(4)]
FEED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=60)


def counted(feed: list[tuple[int, int]], bundle: int) -> dict[int, FirstPartitions]:
    """The states of all buckets after a feed of (partition, person), in bundles of that many sightings."""
    states: dict[int, FirstPartitions] = {}
    for begin in range(0, len(feed), bundle):
        sightings = Sightings()
        for where, who in feed[begin : begin + bundle]:
            sightings.add(KEYS[where], np.array([who * 517], dtype=np.uint64))
        for bucket, seen in sightings.by_bucket():
            before = states.get(bucket, FirstPartitions())
            after, new = before.after(seen)
            assert new == after.divided - before.divided >= 0
            states[bucket] = first_partitions_from_bytes(after.to_bytes())
            assert states[bucket].to_bytes() == after.to_bytes()
    return states


@settings(derandomize=True, max_examples=200)
@given(feed=FEED, bundle=st.integers(1, 60), order=st.randoms(use_true_random=False))
def test_whoever_is_in_two_partitions_is_divided_in_whatever_order(feed, bundle, order) -> None:
    """The slow twin counts partitions of each person; order, bundles and repeats change nothing."""
    where = {who: {place for place, other in feed if other == who} for _, who in feed}
    due = sum(len(places) > 1 for places in where.values())
    again = [*feed, *feed]
    order.shuffle(again)
    for each in (feed, again):
        states = counted(each, bundle)
        assert sum(state.divided for state in states.values()) == due
        assert sum(state.people.size for state in states.values()) == len(where)
        assert all((state.people % BUCKETS == bucket).all() for bucket, state in states.items())


def test_many_sightings_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle of many rows holds everybody once in each partition, however often they come."""
    monkeypatch.setattr("kanonflow.transforms.roster.first_partitions._MOST_GATHERED", 100)
    sightings = Sightings()
    for number in range(1000):
        sightings.add(KEYS[number % 2], np.arange(10, dtype=np.uint64))
        assert sum(each.size for each in sightings._people) <= 130
    told = dict(sightings.by_bucket())
    assert sorted(told) == list(range(10))
    assert all(len(seen) == 2 * 24 for seen in told.values())


def test_a_person_takes_12_bytes() -> None:
    """Beside the header and the keys of the partitions."""
    sightings = Sightings()
    sightings.add(KEYS[0], np.arange(2000, dtype=np.uint64) * np.uint64(BUCKETS))
    ((_, seen),) = sightings.by_bucket()
    assert len(FirstPartitions().after(seen).state.to_bytes()) < 2000 * 12 + 200


def test_damaged_and_newer_states_are_refused() -> None:
    """By their mark, their version, their length, and a partition that is not there."""
    sightings = Sightings()
    sightings.add(KEYS[0], np.array([1, 1025], dtype=np.uint64))
    ((_, seen),) = sightings.by_bucket()
    good = FirstPartitions().after(seen).state.to_bytes()
    for bad in (b"X" + good[1:], good[:4] + b"\2" + good[5:], good[:-1], good[:-4] + b"\7\0\0\0"):
        with pytest.raises(StateError, match="first partitions of people"):
            first_partitions_from_bytes(bad)


def bucket_by_bucket(state: FirstPartitions, key: bytes, people: np.ndarray) -> FirstPartitions:
    """The slow twin of ``having``, as the keyed step goes."""
    sightings = Sightings()
    sightings.add(key, people)
    for _, seen in sightings.by_bucket():
        state = state.after(seen).state
    return state


@pytest.mark.parametrize("seed", range(8))
def test_a_whole_partition_at_once_is_each_bucket_by_itself(seed: int) -> None:
    """To the byte, with people who are in several partitions, partitions of nobody and people who come again."""
    rng = np.random.default_rng(seed)
    fast = slow = FirstPartitions()
    for turn in range(6):
        people = np.unique(rng.integers(0, 2**64 - 1, int(rng.integers(0, 900)), dtype=np.uint64))
        if turn in (2, 5):
            people = np.union1d(people, rng.choice(slow.people, 50))
        people = people[: 0 if turn == 4 else None]
        key = KEYS[turn % 4]
        fast, slow = fast.having(key, people), bucket_by_bucket(slow, key, people)
        assert fast.to_bytes() == slow.to_bytes()
    assert slow.divided
