"""The roster of a partition: who is known, in which cohort, and the frozen box of each cohort. It only grows.

A roster is a chain of segments, one an intake. Within an epoch no person changes its cohort, no cohort takes anybody in
and no box changes: whoever holds a roster and reads the next segment holds the next roster. The chain's digest names
the roster, whatever process made it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.columns.row_bytes import content_digest
from kanonflow.transforms.files.state_parts import Content, pack, unpack
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.roster.corners import COHORT
from kanonflow.transforms.rows.elements import sound_rows, to_ipc
from kanonflow.transforms.secret.seeds import encode

MAGIC = b"KFRS"
VERSION = 1
_WHAT = "segment of a roster"


class RosterHead(NamedTuple):
    """Which roster it is.

    epoch: of the promise, a number of 63 bits.
    chain: digest of all segments, hex; "" of a roster without one.
    segments, people, cohorts: how many.
    """

    epoch: int
    chain: str = ""
    segments: int = 0
    people: int = 0
    cohorts: int = 0


@dataclass(frozen=True)
class Segment:
    """Who entered in one release.

    head: of the roster before.
    people: uint64 (p,), digests, sorted; none of them was known.
    cohort: int64 (p,), ``head.cohorts ..``, each at least once.
    corners: of the boxes of those cohorts (``corners.corners``), numbered as ``cohort`` is.
    """

    head: RosterHead
    people: NDArray[np.uint64]
    cohort: NDArray[np.int64]
    corners: pa.Table

    @cached_property
    def after(self) -> RosterHead:
        """The head of the roster that the segment makes."""
        numbers = encode(self.head.epoch, self.head.segments, self.head.people, self.head.cohorts)
        state = hashlib.sha256(encode(bytes.fromhex(self.head.chain), numbers))
        for array, kind in ((self.people, "<u8"), (self.cohort, "<i8")):
            state.update(encode(array.astype(kind).tobytes()))
        state.update(content_digest(self.corners))
        return RosterHead(
            self.head.epoch,
            state.hexdigest(),
            self.head.segments + 1,
            self.head.people + self.people.size,
            int(self.cohort.max()) + 1,
        )

    def to_bytes(self) -> bytes:
        """The versioned bytes. Inverse of ``segment_from_bytes``."""
        meta: dict[str, Any] = {"head": list(self.head)}
        parts = {
            "people": self.people.astype("<u8").tobytes(),
            "cohort": self.cohort.astype("<i8").tobytes(),
            "corners": to_ipc(self.corners.combine_chunks(), compressed=True),
        }
        return pack(MAGIC, VERSION, Content(meta, parts))


def segment_from_bytes(data: bytes) -> Segment:
    """The segment. Raises StateError for another version's or damaged bytes."""
    parts = unpack(data, MAGIC, VERSION, _WHAT)
    try:
        segment = Segment(
            RosterHead(*parts.meta["head"]),
            parts.array("people", "<u8"),
            parts.array("cohort", "<i8"),
            sound_rows(parts.take("corners")),
        )
        parts.end()
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException):
        raise damaged(_WHAT, "its parts do not fit its index") from None
    return segment


@dataclass(frozen=True)
class Roster:
    """All segments of a head put together.

    people: uint64 (p,), digests, sorted. cohort: int64 (p,), of each of them.
    members: int64 (c,), people of each cohort. generation: int64 (c,), the segment that it came with.
    corners: of all boxes, by cohort; those of cohort c are rows ``starts[c] .. starts[c + 1]``. starts: int64 (c + 1,).
    """

    head: RosterHead
    people: NDArray[np.uint64]
    cohort: NDArray[np.int64]
    members: NDArray[np.int64]
    generation: NDArray[np.int64]
    corners: pa.Table | None
    starts: NDArray[np.int64]

    def cohorts_of(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The cohort of each digest, int64; -1 of those who are not known. O(n log p)."""
        if self.people.size == 0:
            return np.full(digests.size, -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.people, digests), self.people.size - 1)
        return np.where(self.people[at] == digests, self.cohort[at], -1)

    def least(self, cohorts: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Of some cohorts the least digest of their people, uint64: no two have the same. O(p)."""
        least = np.zeros(self.head.cohorts, dtype=np.uint64)
        # People are sorted, so of a cohort the first one is written last.
        least[self.cohort[::-1]] = self.people[::-1]
        return least[cohorts]

    def boxes(self, cohorts: NDArray[np.int64]) -> tuple[pa.Table, NDArray[np.int64]]:
        """The corners of some cohorts, and for each the place of its cohort among them, int64.

        cohorts: sorted, none twice. O(corners of these).
        """
        assert self.corners is not None
        counts = self.starts[cohorts + 1] - self.starts[cohorts]
        owner = np.repeat(np.arange(cohorts.size), counts)
        place = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.corners.take(pa.array(self.starts[cohorts][owner] + place)), owner

    def followed_by(self, segment: Segment) -> Roster:
        """The roster with another segment. O(p).

        Raises StateError: the segment does not follow this roster, or has nobody, or somebody who is known.
        """
        return _grown(self, [segment])


def _grown(roster: Roster, segments: Sequence[Segment]) -> Roster:
    """The roster with segments that follow it, all at once. Raises StateError. O(p log p), whatever their number."""
    head = roster.head
    for segment in segments:
        if segment.head != head:
            raise damaged(_WHAT, "it does not follow the roster before it")
        if segment.people.size == 0:
            raise damaged(_WHAT, "it has nobody")
        head = segment.after
    if not segments:
        return roster
    people = np.concatenate([roster.people, *(segment.people for segment in segments)])
    # Stable: its merges are linear where the parts are in order already.
    order = np.argsort(people, kind="stable")
    people = people[order]
    if (people[1:] == people[:-1]).any():
        raise damaged(_WHAT, "it has somebody who is known already")
    entered = np.concatenate([segment.cohort for segment in segments])
    owner = np.concatenate([np.asarray(segment.corners.column(COHORT)) for segment in segments])
    known = roster.head.cohorts
    begins = [*(segment.head.cohorts for segment in segments), head.cohorts]
    generation = np.repeat(np.arange(roster.head.segments, head.segments), np.diff(begins))
    members = np.bincount(entered - known, minlength=head.cohorts - known)
    counts = np.bincount(owner - known, minlength=head.cohorts - known)
    together = [
        table for table in (roster.corners, *(segment.corners for segment in segments)) if table is not None
    ]
    return Roster(
        head,
        people,
        np.concatenate([roster.cohort, entered])[order],
        np.append(roster.members, members),
        np.append(roster.generation, generation),
        pa.concat_tables(together).combine_chunks(),
        np.append(roster.starts, roster.starts[-1] + np.cumsum(counts)),
    )


def empty_roster(epoch: int) -> Roster:
    """The roster of an epoch that begins."""
    none = np.empty(0, dtype=np.int64)
    return Roster(
        RosterHead(epoch), none.astype(np.uint64), none, none, none, None, np.zeros(1, dtype=np.int64)
    )


def roster_of(head: RosterHead, segments: Iterable[bytes]) -> Roster:
    """The roster of a head. segments: at least its own, in any order; others are left out.

    Raises StateError: they are not all there, or do not follow each other. O(p log p).
    """
    read = sorted(map(segment_from_bytes, segments), key=lambda segment: segment.head.segments)
    roster = _grown(empty_roster(head.epoch), read[: head.segments])
    if roster.head != head:
        raise damaged("roster", f"of {head.segments} segments, not all are there")
    return roster
