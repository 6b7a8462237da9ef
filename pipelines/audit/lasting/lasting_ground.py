"""What groups of cohorts that last are held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kanonflow.pipelines.audit.lasting.rosters import Rosters
from kanonflow.pipelines.audit.read.boxes import BoxBook
from kanonflow.pipelines.audit.read.equal_rows import group_rows, runs
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead, release_ends
from kanonflow.pipelines.audit.read.released_groups import ReleasedGroups
from kanonflow.pipelines.audit.shards.shard_tree import NO_SPLITS, ShardTree
from kanonflow.schemas.policy import Policy


@dataclass(frozen=True)
class Windows:
    """release, start, end: of each group. made, turn: int64 (releases,), when each release was, and in
    which order. closing: bool (releases,), which took rows that had waited longer. size, waiting: ms."""

    release: np.ndarray
    start: np.ndarray
    end: np.ndarray
    made: np.ndarray
    turn: np.ndarray
    closing: np.ndarray
    size: int
    waiting: int

    def covered(self, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of a place in ``group``, int64 (u,), and the end of a window that its group may have rows of."""
        most = self.waiting // self.size + 2
        spans = (self.end - self.start) // self.size
        spans = np.clip(spans, 0, np.where(self.closing[self.release], spans, most))[group]
        unit, offset = runs(np.zeros_like(spans), spans)
        return unit, self.start[group][unit] + (offset + 1) * self.size


@dataclass(frozen=True)
class LastingGround:
    """What groups are held against. Of all n records of the input: end: int64 (n,), end of each one's own window in ms;
    person: int64 (n,), place in ``rosters``, -1: it never entered. partition: int32 (releases,), as of rows.
    tree: of shards."""

    policy: Policy
    heads: Sequence[ReleaseHead]
    groups: ReleasedGroups
    rosters: Rosters
    books: Sequence[BoxBook]
    end: np.ndarray
    person: np.ndarray
    partition: np.ndarray
    tree: ShardTree = NO_SPLITS

    def family(self, number: np.ndarray) -> np.ndarray:
        """Of partitions and shards, int (n,): what their releases may have people of, as one number, int32 (n,)."""
        return self.tree.top(number, self.partition).astype(np.int32)

    @property
    def release_ends(self) -> np.ndarray:
        """When each release was made, int64 (releases,), ms."""
        return release_ends(self.heads)

    @property
    def turns(self) -> np.ndarray:
        """In which order releases were made, int64 (releases,)."""
        turn_of = {turn: number for number, turn in enumerate(sorted({head.turn for head in self.heads}))}
        return np.array([turn_of[head.turn] for head in self.heads], np.int64)

    @property
    def closing(self) -> np.ndarray:
        """Bool (releases,), which took rows that were due before their run began."""
        return np.array([head.closing for head in self.heads], bool)

    @property
    def windows(self) -> Windows:
        """When groups and releases were."""
        groups, policy = self.groups, self.policy
        size, waiting = policy.cohorts.window_ms, policy.waiting_ms
        ends, closing = self.release_ends, self.closing
        return Windows(groups.release, groups.start, groups.end, ends, self.turns, closing, size, waiting)

    @property
    def entry(self) -> np.ndarray:
        """The turn with which each person entered, int64 (p,)."""
        return self.turns[self.rosters.entered]


class Payloads(NamedTuple):
    """What can be matched. record: int64 (s,), the records that were not rejected; number: int64 (s,), the number of
    each one's payload; of_row: int64 (m,), of each released row."""

    record: np.ndarray
    number: np.ndarray
    of_row: np.ndarray

    def units(self, groups: ReleasedGroups) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of one group and payload: the group, the number and how many there are, int64 (u,) each."""
        first, _, count = group_rows(np.column_stack([groups.of_row, self.of_row]))
        return groups.of_row[first].astype(np.int64), self.of_row[first], count
