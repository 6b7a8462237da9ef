"""A feed as trails: who has rows in which windows of which partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.rows.split import window_numbers

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Trails:
    """Of n rows, whose and when. A *member* is a person in a partition; without partitions it is the person.

    rows: the canonical rows.
    who: int64 (n,), the person of each row, 0 .. people-1. member: int64 (n,), 0 .. m-1.
    window: int64 (n,), the number of each row's window.
    partition: int64 (m,), of each member. person: int64 (m,). first: int64 (m,), the first window of each member.
    pair_member, pair_window: int64 (q,), each member with each window that it has rows in, by member and window.
    """

    rows: pa.Table
    who: Numbers
    member: Numbers
    window: Numbers
    partition: Numbers
    person: Numbers
    first: Numbers
    pair_member: Numbers
    pair_window: Numbers

    @property
    def people(self) -> int:
        """How many different people there are."""
        return int(self.who.max(initial=-1)) + 1

    @property
    def partitions(self) -> int:
        """How many partitions have rows."""
        return int(self.partition.max(initial=-1)) + 1


def trails_of(rows: pa.Table, bound: BoundPolicy) -> Trails:
    """The trails of canonical rows of a policy with an individual and a window. O(n log n)."""
    policy = bound.policy
    assert policy.individual is not None
    assert policy.time is not None
    partition = np.zeros(rows.num_rows, dtype=np.int64)
    for name in policy.partition_by:
        codes = _codes(rows.column(name))
        partition = _dense(partition * (int(codes.max(initial=0)) + 1) + codes)
    who = _codes(rows.column(policy.individual.name))
    window = window_numbers(rows.column(policy.time.name), policy)
    people = int(who.max(initial=-1)) + 1
    pairs, member = np.unique(partition * max(people, 1) + who, return_inverse=True)
    whole = np.unique(np.stack([member.astype(np.int64), window], axis=1), axis=0)
    first = whole[np.append(True, np.diff(whole[:, 0]) > 0)[: len(whole)], 1]
    return Trails(
        rows,
        who,
        member.astype(np.int64),
        window,
        pairs // max(people, 1),
        pairs % max(people, 1),
        first,
        whole[:, 0],
        whole[:, 1],
    )


def _codes(column: pa.ChunkedArray) -> Numbers:
    """A number for each value, by first appearance; a null has one of its own."""
    indices = column.combine_chunks().dictionary_encode("encode").indices
    return np.asarray(indices).astype(np.int64)


def _dense(codes: Numbers) -> Numbers:
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)
