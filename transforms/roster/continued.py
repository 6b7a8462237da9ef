"""What a partition begins with where an earlier run of the epoch knew people in it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.kinds.domains import RangeDomain, SetDomain
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster import Roster, Segment, empty_roster
from kanonflow.transforms.roster.window_groups import LastGroups


class Continued(NamedTuple):
    """What a partition begins with.

    epoch: of its roster. segments: of that, in order. last: groups of the last release.
    carried: what the earlier run left of the partition (``windows/chain``); None: it left nothing but its cohorts.
    expected: whom a file of people names, as carried state too; None: there is no such file, or nobody of this
    partition is in it.
    """

    epoch: int
    segments: tuple[Segment, ...]
    last: LastGroups
    carried: bytes | None = None
    expected: bytes | None = None

    @property
    def roster(self) -> Roster:
        """All segments put together. Raises StateError: they do not follow each other."""
        roster = empty_roster(self.epoch)
        for segment in self.segments:
            roster = roster.followed_by(segment)
        return roster


def domains_of(roster: Roster, bound: BoundPolicy) -> dict[str, RangeDomain | SetDomain]:
    """The domains of a partition whose roster it is: all values of its boxes, which are all that ever entered them."""
    if roster.corners is None:
        return {}
    return encode(roster.corners, bound, None, {}).domains


def having_expected(pool: Pool, expected: Pool, roster: Roster, bound: BoundPolicy, place: int) -> Pool:
    """The pool with those whom a file of people names first, if these can be cohorts of their own.

    They are in no cohort, and no file of a run before named them: who waits by an earlier one keeps what it said.
    Others of the file stay as they are known. place: of the run in its chain. O(n log n).
    """
    size = bound.policy.cohorts.cohort_size
    waits = pool.people[pool.known_by_file(size) | (pool.tried >= 0)]
    new = (roster.cohorts_of(expected.people) < 0) & ~np.isin(expected.people, waits)
    if new.sum() < size:
        return pool
    return pool.expecting(expected.people[new], expected.values.filter(pa.array(new)), bound, place)
