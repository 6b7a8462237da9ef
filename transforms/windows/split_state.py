"""What a run carried over of a shard that is split, for each of its parts.

    split_state(state, shard, split, ...) -> one CarriedState a part

    people of cohorts     go with their cohort; rows that wait, and of open windows, with their people
    people of the pool    by the plan, by what is frozen of them
    strangers with rows   by the plan, by the least values of their first window, as the route has it
    rows that nobody can read, of people of whom nothing else is known: to the first part, as the route sends them

The clock goes to each part: it tells which windows are over. So do event ids. What releases of the shard claimed ends
with it, for no release of a part is one of the shard.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.schemas.kinds.form import present
from kanonflow.transforms.columns.sort_keys import whole
from kanonflow.transforms.release.cohorts import people_in
from kanonflow.transforms.release.ledger import own_ends
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.pool import Pool, empty_pool
from kanonflow.transforms.roster.roster import Roster
from kanonflow.transforms.rows.elements import to_ipc
from kanonflow.transforms.shards.shard_plan import Orders
from kanonflow.transforms.shards.shards import SplitShard
from kanonflow.transforms.shards.split_roster import Part
from kanonflow.transforms.windows.chain import Batch, CarriedState


def split_state(
    state: CarriedState,
    roster: Roster,
    parts: tuple[Part, ...],
    split: SplitShard,
    bound: BoundPolicy,
    orders: Orders,
    key: bytes,
) -> dict[bytes, CarriedState]:
    """The state of each part, by its key. roster: of the shard; parts: of that. key: of people's digests.

    Postcondition: each row and each person of the pool is in one part. O(rows + people) but for sorting.
    """
    pool = empty_pool(bound) if state.warm.roster is None else state.warm.roster.pool
    side = _Sides(roster, parts, pool, split, orders)
    tables = [batch.rows for batch in state.batches]
    tables += [] if state.warm.waiting is None else [state.warm.waiting]
    side.learn(tables, bound, key)
    individual = bound.policy.cohorts.individual.name
    made = {}
    for number, part in enumerate(split.keys):
        batches = []
        for batch in state.batches:
            rows = batch.rows
            own = side.of_rows(rows, individual, key) == number
            if own.any():
                batches.append(Batch(batch.number, batch.late, to_ipc(_some(rows, own))))
        made[part] = replace(
            state,
            partition=part,
            clock=None if state.clock is None else replace(state.clock, claims=()),
            warm=replace(
                _of_part(state.warm, side, individual, key, number),
                roster=None
                if state.warm.roster is None
                else state.warm.roster.numbered(
                    parts[number].head,
                    pool.of(side.of(pool.people) == number),
                    parts[number].last(state.warm.roster.last),
                    parts[number].number,
                ),
            ),
            batches=tuple(batches),
        )
    return made


class _Sides:
    """The place of the part of everybody who is known."""

    def __init__(
        self, roster: Roster, parts: tuple[Part, ...], pool: Pool, split: SplitShard, orders: Orders
    ) -> None:
        self._split, self._orders = split, orders
        side_of_cohort = np.full(roster.head.cohorts, -1, dtype=np.int64)
        for number, part in enumerate(parts):
            side_of_cohort[part.number >= 0] = number
        self._people = np.concatenate([roster.people, pool.people])
        self._side = np.concatenate([side_of_cohort[roster.cohort], self._placed(pool)])
        self._sort()

    def learn(self, tables: list[pa.Table], bound: BoundPolicy, key: bytes) -> None:
        """Strangers of rows."""
        if not tables:
            return
        rows = pa.concat_tables(tables).combine_chunks()
        person, digests = people_in(rows.column(bound.policy.cohorts.individual.name), key)
        new = np.flatnonzero((self.of(digests)[person] < 0) & ~present(whole(rows.column(FAULT_COLUMN))))
        ends = own_ends(rows, bound)
        first = np.full(digests.size, np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(first, person[new], ends[new])
        new = new[ends[new] == first[person[new]]]
        seen = empty_pool(bound).having_seen(digests[person[new]], ends[new], rows.take(pa.array(new)), bound)
        self._people = np.concatenate([self._people, seen.people])
        self._side = np.concatenate([self._side, self._placed(seen)])
        self._sort()

    def of(self, people: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Of digests, int64 (n,); -1: nothing is known of them."""
        if not self._people.size:
            return np.full(people.size, -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._people, people), self._people.size - 1)
        return np.where(self._people[at] == people, self._side[at], -1)

    def of_rows(self, rows: pa.Table, individual: str, key: bytes) -> NDArray[np.int64]:
        """Of each row, int64 (n,)."""
        person, digests = people_in(rows.column(individual), key)
        return np.maximum(self.of(digests)[person], 0)

    def _placed(self, pool: Pool) -> NDArray[np.int64]:
        return self._split.part_of(pool.values, pool.people, self._orders)

    def _sort(self) -> None:
        # Stable: of somebody in a cohort that counts.
        self._people, first = np.unique(self._people, return_index=True)
        self._side = self._side[first]


def _of_part(warm: WarmState, side: _Sides, individual: str, key: bytes, number: int) -> WarmState:
    """With the rows that wait in one part, and why they do."""
    if warm.waiting is None:
        return warm
    own = side.of_rows(warm.waiting, individual, key) == number
    reasons = tuple(warm.waiting_reason[place] for place in np.flatnonzero(own).tolist())
    return replace(warm, waiting=_some(warm.waiting, own) if own.any() else None, waiting_reason=reasons)


def _some(rows: pa.Table, own: NDArray[np.bool_]) -> pa.Table:
    return rows.filter(pa.array(own)).combine_chunks()
