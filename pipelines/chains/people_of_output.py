"""Whom an output knows, by the key of their partition or shard: in its cohorts, carried over, named by a file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import FAULT_COLUMN
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import read_whole
from kanonflow.transforms.lineage.committed_rosters import CARRIED, EXPECTED, PEOPLE, cohorts_directory
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.roster.cohort_files import people_of_file
from kanonflow.transforms.roster.first_partitions import FirstPartitions
from kanonflow.transforms.shards.shards import Shards, in_partition
from kanonflow.transforms.windows.chain import CarriedState, carried_from_bytes

Known = Iterator[tuple[bytes, NDArray[np.uint64]]]
"""(key, digests)."""


def entered(output: str) -> Known:
    """Of each segment of a roster."""
    for path in _files(output, f"*{PEOPLE}"):
        folder = storage.split(storage.split(path)[0])[1]
        yield bytes.fromhex(folder), people_of_file(read_whole(path))


def carried(output: str, individual: str, key: bytes) -> Known:
    """Who waited for an intake where the run goes on, or had rows in a window that was not over.

    key: of the digests of people.
    """
    yield from _of_states(output, CARRIED, individual, key)


def expected(output: str, individual: str, key: bytes) -> Known:
    """Whom a file of people names."""
    yield from _of_states(output, EXPECTED, individual, key)


def expected_before(output: str, shard: bytes, least: int) -> NDArray[np.uint64]:
    """The digests of whom a run before expected in a shard, and who wait there; least: so many of a kind."""
    path = storage.join(cohorts_directory(output), shard.hex(), CARRIED)
    roster = carried_from_bytes(read_whole(path)).warm.roster if storage.exists(path) else None
    return np.empty(0, np.uint64) if roster is None else roster.pool.people[roster.pool.known_by_file(least)]


def entered_shards(output: str, shards: Shards) -> FirstPartitions:
    """The shard of everybody who is in a cohort, as of ``in_partition``."""
    return _placed(FirstPartitions(), entered(output), shards)


def placed_people(output: str, shards: Shards, key: bytes) -> FirstPartitions:
    """The shard of everybody who has one already: in cohorts, or where he waited."""
    individual = shards.bound.policy.cohorts.individual.name
    return _placed(entered_shards(output, shards), carried(output, individual, key), shards)


def _placed(placed: FirstPartitions, source: Known, shards: Shards) -> FirstPartitions:
    own = shards.partition_of
    for shard, people in source:
        if shard in own:
            placed = placed.having(shard, in_partition(own[shard], np.unique(people)))
    return placed


def _of_states(output: str, name: str, individual: str, key: bytes) -> Known:
    for path in _files(output, name):
        state = carried_from_bytes(read_whole(path))
        people = people_of_state(state, individual, key)
        if people.size:
            yield state.partition, people


def people_of_state(state: CarriedState, individual: str, key: bytes) -> NDArray[np.uint64]:
    """The digests of everybody of whom a carried state tells something. key: of the digests. O(rows + people).

    Not of whom it has only rows that nobody can read: these went to the first shard, which they say nothing of
    (``route``). Were it theirs for good, a trail that began with such a row would tell whose it is.
    """
    tables = [batch.rows for batch in state.batches]
    if state.warm.waiting is not None:
        tables.append(state.warm.waiting)
    people = [np.empty(0, dtype=np.uint64)]
    people += [people_in(_readable(table).column(individual), key)[1] for table in tables]
    if state.warm.roster is not None:
        people.append(state.warm.roster.pool.people)
    return np.concatenate(people)


def _readable(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.is_null(rows.column(FAULT_COLUMN)))


def _files(output: str, name: str) -> list[str]:
    return storage.paths_below(cohorts_directory(output), "*", name)
