"""Which shard a row goes to: that of its person, who has one for the epoch; with ``protect: row`` its own.

    known      whom the directory of the run or the memory of the route has in this partition: at once
    strangers  everybody else: rows wait until a window of the person has ended; of the earliest one the least values
               decide, once and for all

So a replay in another order routes alike, and what a person's later rows say changes nothing. Nobody is kept waiting by
it: who is new would wait for an intake anyhow, which comes with the end of a window.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import FAULT_COLUMN
from kanonflow.schemas.kinds.form import present
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.roster.first_partitions import BUCKETS, FirstPartitions
from kanonflow.transforms.roster.pool import empty_pool
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from kanonflow.transforms.rows.row_places import places_from_bytes
from kanonflow.transforms.rows.split import window_end
from kanonflow.transforms.shards.shards import Shards, in_partition

Batch = tuple[bytes, tuple[int, bytes, bytes]]
"""(key, (window number, Arrow IPC bytes, places)), as rows are split."""

_HEADER = struct.Struct("<16sqQ")
_WHAT = "rows that wait for a shard"


class Waiting(NamedTuple):
    """Rows of strangers of one window. partition: its key. places: as of ``split``."""

    partition: bytes
    window: int
    ipc: bytes
    places: bytes

    def to_bytes(self) -> bytes:
        """As they lie in a bag."""
        return _HEADER.pack(self.partition, self.window, len(self.ipc)) + self.ipc + self.places


def waiting_from_bytes(data: bytes) -> Waiting:
    """Inverse of ``Waiting.to_bytes``. Raises StateError: it is none."""
    try:
        partition, window, size = _HEADER.unpack_from(data)
    except struct.error:
        raise damaged(_WHAT, "a batch is cut off") from None
    ipc = data[_HEADER.size : _HEADER.size + size]
    if len(ipc) != size:
        raise damaged(_WHAT, "a batch is cut off")
    return Waiting(partition, int(window), ipc, data[_HEADER.size + size :])


class Settled(NamedTuple):
    """What comes of strangers' rows. out: batches by shard. waits: those whose people have no shard yet.

    memory: with whom is new in it. until: the first end of a window of those that wait, in ms; None: there are none.
    """

    out: tuple[Batch, ...]
    waits: tuple[Waiting, ...]
    memory: FirstPartitions
    until: int | None


def rows_by_shard(batch: Batch, shards: Shards) -> Iterator[Batch]:
    """The rows of a batch by shard, each by its own values: with ``protect: row`` nothing else has a say. O(n)."""
    partition, (window, ipc, places) = batch
    if not shards.is_cut(partition):
        yield batch
        return
    rows = from_ipc(ipc)
    yield from _cut(rows, places, window, *shards.of_rows(partition, rows))


def known_parts(
    batch: Batch, memory: FirstPartitions, key: bytes, individual: str
) -> tuple[list[Batch], Waiting | None]:
    """The rows of a batch whose people have a shard, by shard; and the others, None: there are none.

    memory: of people's shards. key: of people's digests. O(n log p).
    """
    partition, (window, ipc, places) = batch
    rows = from_ipc(ipc)
    person, digests = people_in(rows.column(individual), key)
    at = memory.of(in_partition(partition, digests))[person]
    parts = list(_cut(rows, places, window, memory.keys, at))
    rest = at < 0
    if not rest.any():
        return parts, None
    return parts, Waiting(partition, window, *_some(rows, places, rest))


def strangers_by_bucket(rest: Waiting, key: bytes, individual: str) -> Iterator[tuple[int, Waiting]]:
    """The rows of each bucket of people, by their digests."""
    rows = from_ipc(rest.ipc)
    person, digests = people_in(rows.column(individual), key)
    bucket = (in_partition(rest.partition, digests) % np.uint64(BUCKETS)).astype(np.int64)[person]
    for number in np.unique(bucket).tolist():
        yield number, _part(rest, rows, bucket == number)


def settled(
    waiting: Sequence[Waiting], memory: FirstPartitions, shards: Shards, key: bytes, now: int
) -> Settled:
    """Give a shard to everybody of whom a window has ended by now.

    waiting: batches of any partitions and windows. memory: of this bucket. now: in ms.

    Rows that nobody can read the values of tell nothing of their person; where a person has no others that have ended,
    they go to the first shard, and are rejected there: whose they are must not say where that is.
    Postcondition: the order of the batches decides nothing. O(n log n).
    """
    policy = shards.bound.policy
    out: list[Batch] = []
    waits: list[Waiting] = []
    for partition in sorted({each.partition for each in waiting}):
        own = [each for each in waiting if each.partition == partition]
        tables = [from_ipc(each.ipc) for each in own]
        ends = np.repeat(
            np.array([window_end(each.window, policy) for each in own], dtype=np.int64),
            [table.num_rows for table in tables],
        )
        rows = pa.concat_tables(tables).combine_chunks()
        person, digests = people_in(rows.column(policy.cohorts.individual.name), key)
        keys, at, sure = _placed(rows, ends, person, digests, memory, shards, partition, now)
        people = in_partition(partition, digests)
        new = np.flatnonzero(sure & (memory.of(people) < 0))
        if new.size:
            for number in np.unique(at[new]).tolist():
                memory = memory.having(keys[number], people[new[at[new] == number]])
        goes = np.where(at[person] >= 0, at[person], -1)
        # What tells nothing goes by itself; the rest of such a person's rows wait on.
        goes[(goes >= 0) & ~sure[person] & (ends > now)] = -1
        begin = 0
        for each, table in zip(own, tables, strict=True):
            here = goes[begin : begin + table.num_rows]
            begin += table.num_rows
            out += _cut(table, each.places, each.window, keys, here)
            if (here < 0).any():
                waits.append(_part(each, table, here < 0))
    ends_left = [window_end(each.window, policy) for each in waits]
    return Settled(tuple(out), tuple(waits), memory, min(ends_left, default=None))


def _placed(
    rows: pa.Table,
    ends: NDArray[np.int64],
    person: NDArray[np.int64],
    digests: NDArray[np.uint64],
    memory: FirstPartitions,
    shards: Shards,
    partition: bytes,
    now: int,
) -> tuple[tuple[bytes, ...], NDArray[np.int64], NDArray[np.bool_]]:
    """Keys, the number among them int64 (p,) of each person, -1: none yet, and who has it for good, bool (p,)."""
    bound = shards.bound
    readable = ~present(whole(rows.column(FAULT_COLUMN))) & (ends <= now)
    first = np.full(digests.size, np.iinfo(np.int64).max, dtype=np.int64)
    np.minimum.at(first, person[readable], ends[readable])
    decides = np.flatnonzero(readable & (ends == first[person]))
    pool = empty_pool(bound).having_seen(
        digests[person[decides]], ends[decides], rows.take(pa.array(decides)), bound
    )
    keys, of_pool = shards.of_people(partition, pool.values, pool.people)
    sure = first < np.iinfo(np.int64).max
    at = np.full(digests.size, -1, dtype=np.int64)
    at[sure] = of_pool[np.searchsorted(pool.people, digests[sure])]
    mute = np.zeros(digests.size, dtype=np.bool_)
    mute[person[ends <= now]] = True
    mute &= ~sure
    at[mute] = 0
    remembered = memory.of(in_partition(partition, digests))
    numbers = {each: number for number, each in enumerate(keys)}
    moved = np.array([numbers.setdefault(each, len(numbers)) for each in memory.keys], dtype=np.int64)
    if moved.size:
        at = np.where(remembered >= 0, moved[remembered], at)
        sure |= remembered >= 0
    return tuple(numbers), at, sure


def _cut(
    rows: pa.Table, places: bytes, window: int, keys: Sequence[bytes], at: NDArray[np.int64]
) -> Iterator[Batch]:
    """The rows of each shard, in their order. at: int64 (n,), its number among the keys; -1: left out."""
    for number in np.unique(at[at >= 0]).tolist():
        own = at == number
        if own.all():
            yield keys[number], (window, to_ipc(rows), places)
        else:
            yield keys[number], (window, *_some(rows, places, own))


def _some(rows: pa.Table, places: bytes, own: NDArray[np.bool_]) -> tuple[bytes, bytes]:
    there = places_from_bytes(places)
    some = rows.take(pa.array(np.flatnonzero(own)))
    return to_ipc(some), b"" if there is None else there.of_rows(own).to_bytes()


def _part(waiting: Waiting, rows: pa.Table, own: NDArray[np.bool_]) -> Waiting:
    """Some rows of a batch. rows: all of it."""
    ipc, places = _some(rows, waiting.places, own)
    return waiting._replace(ipc=ipc, places=places)


class RouteInMemory:
    """The route of all partitions, as the pipeline has it of a bucket.     shards: of the run. key: of digests."""

    def __init__(self, shards: Shards, key: bytes, memory: FirstPartitions | None = None) -> None:
        self._shards = shards
        self._key = key
        self._individual = shards.bound.policy.cohorts.individual.name
        self.memory = FirstPartitions() if memory is None else memory
        self._waits: tuple[Waiting, ...] = ()

    def arrive(self, partition: bytes, window: int, rows: pa.Table) -> list[tuple[bytes, int, pa.Table]]:
        """Rows of a window come; those that go on, by the key that they go on under."""
        if not self._shards.is_cut(partition):
            return [(partition, window, rows)]
        batch = (partition, (window, to_ipc(rows), b""))
        parts, rest = known_parts(batch, self.memory, self._key, self._individual)
        if rest is not None:
            self._waits += (rest,)
        return [(key, number, from_ipc(ipc)) for key, (number, ipc, _) in parts]

    def due(self, now: int) -> list[tuple[bytes, int, pa.Table]]:
        """What goes on once windows up to a time have ended, in ms."""
        done = settled(self._waits, self.memory, self._shards, self._key, now)
        self._waits, self.memory = done.waits, done.memory
        return [(key, number, from_ipc(ipc)) for key, (number, ipc, _) in done.out]
