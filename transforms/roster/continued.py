"""What a partition begins with where an earlier run of the epoch knew people in it."""

from __future__ import annotations

from typing import NamedTuple

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.kinds.domains import RangeDomain, SetDomain
from kanonflow.transforms.roster.roster import Roster, Segment, empty_roster
from kanonflow.transforms.roster.window_groups import LastGroups


class Continued(NamedTuple):
    """What a partition begins with.

    epoch: of its roster. segments: of that, in order. last: groups of the last release.
    carried: what the earlier run left of the partition (``windows/chain``); None: it left nothing but its cohorts.
    """

    epoch: int
    segments: tuple[Segment, ...]
    last: LastGroups
    carried: bytes | None = None

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
