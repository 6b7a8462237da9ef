"""What the stateful step has to know of releases that are published already, when it may make them again.

    STOP     a run over files that resumes: each release that is made again is compared before it leaves the step, and
             the first difference ends the run
    REFUSE   a stream: a state that is older than what was committed is refused before anything is solved
    REWIND   a stream that was told to go on from an older state: what it makes again is compared by the sink

Ordinary recovery of a stream is no case for any of them: slots are created behind the durable boundary, hence after the
checkpoint that holds the state which made their releases.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import create_if_absent, make_directory
from kanonflow.transforms.lineage.published_slots import PublishedSlots, refusal_file
from kanonflow.transforms.lineage.release_lineage import ReleaseConflictError, Slot, unrepeatable
from kanonflow.transforms.lineage.roster_lineage import CommittedSegment
from kanonflow.transforms.secret.seeds import ReleaseSlot


class OlderStateError(Exception):
    """A stream's state is older than what it has published."""

    exit_code = 3


class Remake(StrEnum):
    """What happens when a release may be made again."""

    STOP = "stop"
    REFUSE = "refuse"
    REWIND = "rewind"


_OLDER = (
    "the state that the stream goes on from is older than what it has published: releases of the same rows would be"
    " made again. Go on from the last checkpoint or savepoint; or say --rewind, which makes them again, compares each"
    " with what is published, and parks a partition at the first difference"
)


@dataclass(frozen=True)
class EarlierReleases:
    """slots: those of the run's output. remake: what to do about them."""

    slots: PublishedSlots
    remake: Remake

    def refuse_older(self, partition: bytes, last_end: int | None) -> None:
        """Raise OlderStateError if the partition has published beyond ``last_end``, its state's last release.

        The refusal is also left in the output, where the command that waits for the job sees it.
        """
        if self.remake is not Remake.REFUSE:
            return
        newest = self.slots.newest_end(partition)
        if newest is None or (last_end is not None and newest <= last_end):
            return
        reason = json.dumps({"reason": _OLDER, "partition": partition.hex()}, indent=1).encode()
        path = refusal_file(self.slots.output)
        make_directory(storage.split(path)[0], private=True)
        create_if_absent(path, reason, private=True)
        raise OlderStateError(_OLDER)

    def secret_version(self, place: ReleaseSlot, begun: int | None) -> int | None:
        """The secret's version for a window: that of its committed release, else the one that it began under."""
        if self.remake is Remake.REFUSE:
            return begun
        return next((slot.secret_version for slot in self.slots.at(place)), begun)

    def solution(self, place: ReleaseSlot) -> bytes | None:
        """What a committed release was published from; None: it is not committed, or to be solved again.

        Raises ReleaseConflictError: it is committed, and nothing was written down.
        """
        if self.remake is Remake.REFUSE:
            return None
        there = self._committed(place)
        if there is None:
            return None
        found = self.slots.solution(there)
        if found is None and self.remake is Remake.STOP:
            raise unrepeatable(there.release_id)
        return found

    def compare(self, place: ReleaseSlot, made: Slot | None) -> None:
        """Raise ReleaseConflictError unless what was made may stand beside what is published. made: None: nothing."""
        if self.remake is not Remake.STOP:
            return
        if made is None:
            other: Slot | CommittedSegment | None = self._committed(place)
        else:
            other = self.slots.in_the_way(made)
        if other is not None:
            raise _conflict(other)

    def compare_end(self, place: ReleaseSlot, parts: int) -> None:
        """The same for parts of a window that were published and that it does not have now."""
        if self.remake is Remake.STOP:
            for slot in self.slots.at(place):
                if slot.part >= parts:
                    raise _conflict(slot)

    def _committed(self, place: ReleaseSlot) -> Slot | None:
        return next((slot for slot in self.slots.at(place) if slot.part == place.release_no), None)


def _conflict(slot: Slot | CommittedSegment) -> ReleaseConflictError:
    return ReleaseConflictError(
        f"release {slot.release_id} is published, and this run comes to something else: rows of it could go out a"
        " second time. Nothing more is published. Something that must not change did: the input while it was read, a"
        " package, or the machine. Put it back and resume, or release the rows that are in no release in another run"
    )
