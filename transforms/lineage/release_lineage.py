"""Which releases of a partition may stand beside each other: the rule by which no row is published twice.

A partition's releases are made one after the other, each from what the earlier ones left behind. A row is published
once as long as all of them come from one line of states. When a line is cut (a crash, an older savepoint, another
clock) and a second one goes on beside what the first has published, a row that waited in one of them may have left in
the other, under another window. Comparing equal places only does not see that.

So a release names what it was built on (``Slot.built_on``), and ``judge`` compares it with all that is committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from kanonflow.schemas.policy import Policy
from kanonflow.schemas.slot_kinds import CLOSING, REGULAR

Place = tuple[int, int | None, bool, int]
"""(place of its run in the chain; window end in ms, None without windows; whether it is the window's regular release,
which a closing one goes before; number of the part): where a release stands within its partition."""


class ReleaseConflictError(Exception):
    """A release that is made again is not the one that is published; the message names it and what to do."""

    exit_code = 3


class Claim(NamedTuple):
    """An earlier release of the partition, as the state that made a later one knows it."""

    window_end: int | None
    part: int
    digest: str
    kind: str = REGULAR


class RosterMark(NamedTuple):
    """Which roster a release was made with (``cohort: lasting``): an epoch's segments are one chain a partition.

    epoch: a number of 63 bits. segments, chain: of the roster after the release: how many segments, and their digest,
    hex. entered: whether the last of them came with this release. before: the digest without it.
    """

    epoch: int
    segments: int
    chain: str
    entered: bool
    before: str


class Slot(NamedTuple):
    """What is written down about a release before anybody may see it.

    partition: the partition's key.
    window_end, part: its place.
    release_id: its name.
    digest: of the published rows, hex.
    secret_version: of the secret that it was made under.
    built_on: the earlier releases of the partition that it can share rows with.
    roster: with ``cohort: lasting``, who was known.
    kind: ``REGULAR`` or ``CLOSING``. chain_place: of its run in the chain of runs.
    """

    partition: bytes
    window_end: int | None
    part: int
    release_id: str
    digest: str
    secret_version: int
    built_on: tuple[Claim, ...] = ()
    roster: RosterMark | None = None
    kind: str = REGULAR
    chain_place: int = 0

    @property
    def place(self) -> Place:
        """Where it stands among the releases of its partition."""
        return place_of(self.chain_place, self.window_end, self.kind, self.part)

    @property
    def claim(self) -> Claim:
        """How later releases name it."""
        return Claim(self.window_end, self.part, self.digest, self.kind)

    def to_bytes(self) -> bytes:
        """JSON text. Inverse of ``slot_from_bytes``."""
        values = self._asdict() | {"partition": self.partition.hex()}
        return json.dumps(values).encode()


def slot_from_bytes(data: bytes) -> Slot:
    """A slot from its JSON text. Raises ValueError, KeyError or TypeError: it is none."""
    values = json.loads(data)
    values["partition"] = bytes.fromhex(values["partition"])
    values["built_on"] = tuple(Claim(*claim) for claim in values["built_on"])
    mark = values.get("roster")
    values["roster"] = None if mark is None else RosterMark(*mark)
    return Slot(**values)


def place_of(chain_place: int, window_end: int | None, kind: str, part: int) -> Place:
    """Where a release of this kind stands among those of its partition."""
    return chain_place, window_end, kind != CLOSING, part


def reach_ms(policy: Policy) -> int:
    """How far apart, in ms, window ends of releases can be that one row connects.

    A row of a window that ends at e leaves by e + max_delay, whichever line of states publishes it: two releases of it
    end within max_delay of each other. A promise over several windows would reach further.
    """
    return policy.max_delay_ms


def within_reach(claims: Iterable[Claim], end: int | None, reach: int) -> tuple[Claim, ...]:
    """The claims that a release at ``end``, or a later one, has to make. end: None without windows."""
    if end is None:
        return tuple(claims)
    return tuple(claim for claim in claims if claim.window_end is None or claim.window_end >= end - reach)


def judge(own: Slot, committed: Iterable[Slot], reach: int) -> Slot | None:
    """The committed release that ``own`` must not stand beside; None: it may be published.

    committed: slots of the same partition, at least all within ``reach`` ms of ``own``; its own may be among them.

    Precondition: ``built_on`` of each slot names every release that the state which made it had made within reach.
    Postcondition: with None, whatever is committed within reach has, with ``own``, no row in common: each earlier one
    is part of the line of states that ``own`` comes from, and ``own`` is part of the line of each later one.
    Why: a line of states publishes a row once; two lines may publish it at two places. O(slots x claims).
    """
    claimed = set(own.built_on)
    for slot in sorted(committed, key=lambda each: each.place):
        if not _meet(slot.window_end, own.window_end, reach):
            continue
        if slot.place == own.place:
            fits = slot.digest == own.digest
        elif slot.place < own.place:
            fits = slot.claim in claimed
        else:
            # Two workers may commit two releases of one line the other way round: the later one names this one.
            fits = own.claim in slot.built_on
        if not fits:
            return slot
    return None


def _meet(one: int | None, other: int | None, reach: int) -> bool:
    return one is None or other is None or abs(one - other) <= reach


def unrepeatable(release: str) -> ReleaseConflictError:
    """The error for a published release that a clock had a part in, and that cannot be made the same again."""
    return ReleaseConflictError(
        f"release {release} was made under --deadline-ms, and what it was published from is not there, or does not fit:"
        " it cannot be made again, nor can what follows from it. Nothing more is published. What is there stays as it"
        " is; release the rows that are in none of it in another run"
    )
