"""In which partition each person was seen first, and who was seen in another one since: *divided people*.

A partition puts together whom it knows, and knows nothing of others. Somebody with rows in two of them is in two
cohorts, and whoever links the rows finds them in both: ``cohort: lasting`` promises such a person nothing. So everybody
is looked at once more across partitions, in ``BUCKETS`` parts by their keyed digest.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.policy import Policy
from kanonflow.transforms.files.state_parts import Content, pack, unpack
from kanonflow.transforms.files.state_versions import damaged

BUCKETS = 1024
MAGIC = b"KFFP"
VERSION = 1
_WHAT = "first partitions of people"
_DIVIDED = np.uint32(1 << 31)
_SIGHTING = np.dtype([("key", "V16"), ("person", "<u8")])
"""A person in a partition, by its key, which has 16 bytes (``seeds.partition_key``)."""
_MOST_GATHERED = 1 << 20


class DividedPeopleError(Exception):
    """People have rows in more than one partition, and the policy does not accept that; the message says how many."""

    exit_code = 3


def refusal(people: int, policy: Policy) -> DividedPeopleError:
    """What a run over files that has so many divided people ends with."""
    fields = ", ".join(policy.partition_by)
    return DividedPeopleError(
        f"{divided_words(people)} (partition_by: {fields}), in this run or in those that it continues: they would be in"
        " two cohorts, and who links their rows finds them in both. Nothing was published. Say split_by in the place of"
        " partition_by (releases of each value, of one set of cohorts), partition by what a person keeps, or say"
        " accept_risk: <reason> at the field; then this is counted, and the promise over releases is not made"
    )


def divided_words(people: int) -> str:
    """How many people are divided, in words."""
    return f"{people:,} {'person has' if people == 1 else 'people have'} rows in more than one partition"


class Sightings:
    """Who was seen in which partition, everybody once."""

    def __init__(self) -> None:
        self._keys: dict[bytes, int] = {}
        self._people: list[NDArray[np.uint64]] = []
        self._where: list[NDArray[np.uint32]] = []
        self._room = _MOST_GATHERED

    def add(self, key: bytes, people: NDArray[np.uint64]) -> None:
        """People are in a partition. people: digests, in any order."""
        number = self._keys.setdefault(key, len(self._keys))
        self._people.append(people)
        self._where.append(np.full(people.size, number, dtype=np.uint32))
        self._room -= people.size
        if self._room < 0:
            once, _ = self._once()
            self._room = max(_MOST_GATHERED, once.size)

    def by_bucket(self) -> Iterator[tuple[int, bytes]]:
        """All, as (bucket, bytes for ``FirstPartitions.after``), by bucket; buckets without anybody are left out."""
        people, where = self._once()
        seen = np.empty(people.size, dtype=_SIGHTING)
        seen["person"] = people
        seen["key"] = np.frombuffer(b"".join(self._keys), dtype=_SIGHTING["key"])[where]
        bucket = (people % np.uint64(BUCKETS)).astype(np.int64)
        numbers, begins = np.unique(bucket[order := np.argsort(bucket, kind="stable")], return_index=True)
        for number, own in zip(numbers.tolist(), np.split(order, begins[1:]), strict=False):
            yield number, seen[own].tobytes()

    def _once(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        people = np.concatenate([np.empty(0, np.uint64), *self._people])
        where = np.concatenate([np.empty(0, np.uint32), *self._where])
        order = np.lexsort([where, people])
        people, where = people[order], where[order]
        new = np.append(True, (people[1:] != people[:-1]) | (where[1:] != where[:-1]))[: people.size]
        self._people, self._where = [people[new]], [where[new]]
        return self._people[0], self._where[0]


class Growth(NamedTuple):
    """What sightings change. state: after them. divided: people who are now, and were not before."""

    state: FirstPartitions
    divided: int


@dataclass(frozen=True)
class FirstPartitions:
    """The state of a bucket: 12 bytes a person.

    people: uint64 (p,), digests, sorted. first: uint32 (p,), of each the number of its first partition in ``keys``; the
    highest bit is set of who is divided. keys: of partitions.
    """

    people: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    first: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    keys: tuple[bytes, ...] = ()

    @property
    def divided(self) -> int:
        """How many people are."""
        return int((self.first & _DIVIDED != 0).sum())

    def of(self, people: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The number in ``keys`` of each person's first partition, int64 (n,); -1: never seen."""
        if self.people.size == 0:
            return np.full(people.size, -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.people, people), self.people.size - 1)
        first = (self.first[at] & ~_DIVIDED).astype(np.int64)
        return np.where(self.people[at] == people, first, -1)

    def among(
        self, keys: Sequence[bytes], people: NDArray[np.uint64], otherwise: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The number among some keys of each person's first partition, int64 (n,); ``otherwise`` of whom none of them
        is it."""
        numbers = {key: number for number, key in enumerate(keys)}
        own = np.array([*(numbers.get(key, -1) for key in self.keys), -1], dtype=np.int64)[self.of(people)]
        return np.where(own >= 0, own, otherwise)

    def having(self, key: bytes, people: NDArray[np.uint64]) -> FirstPartitions:
        """The state, of whatever bucket, after people were seen in a partition. O((p + n) log(p + n))."""
        sightings = Sightings()
        sightings.add(key, people)
        seen = b"".join(each for _, each in sightings.by_bucket())
        return self.after(seen).state if seen else self

    def after(self, sightings: bytes) -> Growth:
        """The state after sightings of a bucket (``Sightings.take``). O((p + n) log(p + n)).

        Postcondition: whatever the order in which sightings come, and however often, the same people are divided.
        """
        seen = np.frombuffer(sightings, dtype=_SIGHTING)
        numbers = {key: number for number, key in enumerate(self.keys)}
        # In their order, so that equal sightings leave equal bytes.
        where_seen = [numbers.setdefault(key.tobytes(), len(numbers)) for key in seen["key"]]
        people = np.concatenate([self.people, seen["person"].astype(np.uint64)])
        where = np.concatenate([self.first & ~_DIVIDED, np.array(where_seen, dtype=np.uint32)])
        was = np.concatenate([self.first & _DIVIDED != 0, np.zeros(seen.size, dtype=np.bool_)])
        order = np.argsort(people, kind="stable")
        people, where, was = people[order], where[order], was[order]
        begins = np.flatnonzero(np.append(True, people[1:] != people[:-1])[: people.size])
        first = np.repeat(where[begins], np.diff(np.append(begins, people.size)))
        divided = np.logical_or.reduceat(was | (where != first), begins)
        marked = where[begins] | (divided.astype(np.uint32) << np.uint32(31))
        state = FirstPartitions(people[begins], marked, tuple(numbers))
        return Growth(state, state.divided - self.divided)

    def to_bytes(self) -> bytes:
        """The versioned bytes. Inverse of ``first_partitions_from_bytes``."""
        parts = {"people": self.people.astype("<u8").tobytes(), "first": self.first.astype("<u4").tobytes()}
        return pack(MAGIC, VERSION, Content({"partitions": [key.hex() for key in self.keys]}, parts))


def first_partitions_from_bytes(data: bytes | mmap.mmap | None) -> FirstPartitions:
    """The state; nobody for None. Raises StateError for another version's or damaged bytes."""
    if not data:
        return FirstPartitions()
    parts = unpack(data, MAGIC, VERSION, _WHAT)
    try:
        keys = tuple(bytes.fromhex(key) for key in parts.meta["partitions"])
        state = FirstPartitions(parts.view("people", "<u8"), parts.view("first", "<u4"), keys)
        parts.end()
    except (ValueError, KeyError, TypeError):
        raise damaged(_WHAT, "its parts do not fit its index") from None
    if state.people.size != state.first.size or (state.first & ~_DIVIDED >= max(len(keys), 1)).any():
        raise damaged(_WHAT, "not everybody in it has a partition")
    return replace(
        state,
        people=state.people.astype(np.uint64, copy=False),
        first=state.first.astype(np.uint32, copy=False),
    )
