"""Which releases may stand beside the cohorts that are committed (``cohort: lasting``): people are put together once.

The segments of a partition's roster form one chain. A release names the roster that it was made with, and whether
people entered with it (``release_lineage.RosterMark``); a segment that is committed names the release that it came
with. Two lines of states (a second job, an older savepoint, state that was lost) would put the same people into
cohorts twice, and whoever stands in two of them is alone in what they share. Windows that share no row are no excuse:
unlike ``judge`` this rule has no reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kanonflow.schemas.slot_kinds import REGULAR
from kanonflow.transforms.lineage.release_lineage import Place, Slot, place_of


class CommittedSegment(NamedTuple):
    """Who entered with a release that is, or is about to be, published: what the files of it say of themselves.

    number: of the segment in its partition, from 0. epoch: of the promise. before, chain: digest of the roster without
    it and with it, hex. release_id, window_end, part, kind, chain_place: the release and its place; of an earlier run,
    if the run continues one.
    """

    number: int
    epoch: int
    before: str
    chain: str
    release_id: str
    window_end: int
    part: int
    kind: str = REGULAR
    chain_place: int = 0

    @property
    def place(self) -> Place:
        """Where its release stands among those of its partition."""
        return place_of(self.chain_place, self.window_end, self.kind, self.part)


def judge_roster(own: Slot, committed: Iterable[CommittedSegment]) -> CommittedSegment | None:
    """The committed segment that ``own`` must not stand beside; None: it may be published.

    committed: segments of the same partition; at least the first, the one before the release's last, its last and the
    one after that, as far as they are committed; its own may be among them.

    Precondition: ``own.roster`` is the roster of the state that made it.
    Postcondition: with None, every committed segment is of the release's epoch; those that the release knows are its
    own, and each that it does not know came later and follows its roster.
    Why: nobody may be put into cohorts twice within an epoch. O(segments).
    """
    mark = own.roster
    if mark is None:
        return None
    last = mark.segments - 1
    for segment in sorted(committed, key=lambda each: each.number):
        if segment.epoch != mark.epoch:
            fits = False
        elif segment.number > last:
            # Two workers may commit two releases of one line the other way round: the later one follows this one.
            follows = segment.number > mark.segments or segment.before == mark.chain
            fits = follows and segment.place > own.place
        elif segment.number == last:
            # The same people under another release: they entered in two lines.
            fits = segment.chain == mark.chain and (not mark.entered or segment.release_id == own.release_id)
        elif segment.number == last - 1 and mark.entered:
            fits = segment.chain == mark.before
        else:
            fits = True
        if not fits:
            return segment
    return None
