"""The roster of a shard that is split: each cohort goes whole to one part, and its people with it.

    parted(segments, split, orders, epoch)     one Part(segments, number, head) a part

Which part a cohort goes to hangs on its box, and of cohorts of one corner on the digests of its people: never on what
anybody did, nor on how large it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.roster.corners import COHORT
from kanonflow.transforms.roster.roster import RosterHead, Segment, empty_roster
from kanonflow.transforms.roster.window_groups import LastGroups
from kanonflow.transforms.shards.shard_plan import Orders
from kanonflow.transforms.shards.shards import SplitShard


class Marks(NamedTuple):
    """What cohorts are placed by. rows: c rows, of each one's corners the first, which has the least value of each
    ordered field. digests: uint64 (c,), the least of its people."""

    rows: pa.Table
    digests: NDArray[np.uint64]


def marks_of(segment: Segment) -> Marks:
    """Of the cohorts of a segment, in their order. O(p + corners)."""
    owner = np.asarray(segment.corners.column(COHORT)) - segment.head.cohorts
    _, first = np.unique(owner, return_index=True)
    digests = np.full(first.size, np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(digests, segment.cohort - segment.head.cohorts, segment.people)
    return Marks(segment.corners.take(pa.array(first)), digests)


class PartSegment(NamedTuple):
    """segment: of a part. number: of the shard's segment that it is of. own: bool, who of that is in it."""

    segment: Segment
    number: int
    own: NDArray[np.bool_]


@dataclass(frozen=True)
class Part:
    """Of a shard. segments: of its roster, in order. number: int64 (c,), of each cohort of the shard the number that it
    has here; -1: it went elsewhere."""

    segments: tuple[PartSegment, ...]
    number: NDArray[np.int64]
    head: RosterHead

    def last(self, groups: LastGroups) -> LastGroups:
        """The last groups as far as they lie here."""
        number = self.number[groups.cohorts]
        return LastGroups(number[number >= 0], groups.groups[number >= 0])


def parted(segments: Sequence[Segment], split: SplitShard, orders: Orders, epoch: int) -> tuple[Part, ...]:
    """The parts of a roster. segments: of the shard, all of them, in order.

    Postcondition: everybody is in one part, with all people of his cohort; cohorts keep their order and their boxes.
    O(p + corners).
    """
    sides = [split.part_of(*marks_of(segment), orders) for segment in segments]
    side = np.concatenate([np.empty(0, dtype=np.int64), *sides])
    parts = []
    for part in range(len(split.keys)):
        number = np.where(side == part, np.cumsum(side == part) - 1, -1)
        head, own = empty_roster(epoch).head, []
        for place, segment in enumerate(segments):
            here = number[segment.cohort] >= 0
            if here.any():
                own.append(PartSegment(_some(segment, number, here, head), place, here))
                head = own[-1].segment.after
        parts.append(Part(tuple(own), number, head))
    return tuple(parts)


def _some(segment: Segment, number: NDArray[np.int64], here: NDArray[np.bool_], head: RosterHead) -> Segment:
    owner = number[np.asarray(segment.corners.column(COHORT))]
    corners = segment.corners.filter(pa.array(owner >= 0))
    place = corners.schema.get_field_index(COHORT)
    corners = corners.set_column(place, corners.schema.field(place), pa.array(owner[owner >= 0]))
    return Segment(head, segment.people[here], number[segment.cohort[here]], corners)
