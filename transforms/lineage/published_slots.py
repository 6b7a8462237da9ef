"""The slots of releases that are, or are about to be, published: small files that are created once and never changed.

    OUT/restricted/slots/PARTITION/BLOCK/END-PART      what a release is and was built on (``release_lineage.Slot``);
                                                       END-PART.closing of one beside the regular ones
    OUT/restricted/parked/PARTITION                    the partition publishes nothing any more, and since when
    OUT/restricted/solutions/ID-DIGEST                 what a release was published from, where a clock had a part in it
    OUT/restricted/refused.json                        why a stream was stopped before it solved anything
    OUT/restricted/cohorts/...                         with ``cohort: lasting``, who entered (``committed_rosters``)

PARTITION is the partition's key in hex, END the window's end in ms (``none`` without windows), PART the number of the
part. A block holds the windows of some length of time: whoever asks about a window lists one to three small folders
and not all that a feed has ever published.

A slot is created before its release can be seen, in files as well as in a topic. What is in the way of it is decided
there (``take``), for every kind of sink alike.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from kanonflow.schemas.policy import Policy
from kanonflow.schemas.slot_kinds import CLOSING
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.create_if_absent import (
    Outcome,
    create_if_absent,
    make_directory,
    read_whole,
)
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.lineage.committed_rosters import CommittedRosters
from kanonflow.transforms.lineage.release_lineage import Slot, judge, reach_ms, slot_from_bytes
from kanonflow.transforms.lineage.roster_lineage import CommittedSegment
from kanonflow.transforms.secret.seeds import ReleaseSlot

_WINDOWS_OF_A_BLOCK = 128
_NONE = "none"
_CLOSING = f".{CLOSING}"
_MOST_REMEMBERED = 50_000


def slots_directory(output: str) -> str:
    """Where slots are."""
    return storage.join(output, "restricted", "slots")


def parked_directory(output: str) -> str:
    """Where parking marks are."""
    return storage.join(output, "restricted", "parked")


def parked_partitions(output: str) -> frozenset[str]:
    """The partitions below ``output`` that publish nothing any more, by their keys in hex, as metrics name them."""
    return frozenset(storage.split(path)[1] for path in _files(parked_directory(output)))


def solutions_directory(output: str) -> str:
    """Where recorded solutions are."""
    return storage.join(output, "restricted", "solutions")


def refusal_file(output: str) -> str:
    """What a stream leaves that was refused because its state is too old."""
    return storage.join(output, "restricted", "refused.json")


def holds_slots(output: str) -> bool:
    """Whether any release was about to be published below ``output``."""
    folder = slots_directory(output)
    if is_local(folder):
        return any(files for _, _, files in os.walk(folder))
    return any(True for _ in _remote(folder, "*", "*", "*"))


class PublishedSlots:
    """The slots below one output. Can be pickled; serves one thread."""

    def __init__(self, output: str, policy: Policy) -> None:
        self.output = output
        self.reach_ms = reach_ms(policy)
        self._rosters = CommittedRosters(output)
        self._block_ms = _WINDOWS_OF_A_BLOCK * (policy.window_ms or 1) + self.reach_ms
        self._seen: dict[str, Slot] = {}
        self._parked: set[bytes] = set()

    def __getstate__(self) -> dict[str, object]:
        """Without what was read: another worker reads for itself."""
        return self.__dict__ | {"_seen": {}, "_parked": set()}

    def near(self, partition: bytes, window_end: int | None) -> list[Slot]:
        """All slots of the partition that can share rows with a release at ``window_end``, and perhaps others."""
        if window_end is None:
            blocks = [_NONE]
        else:
            first, last = window_end - self.reach_ms, window_end + self.reach_ms
            blocks = [str(block) for block in range(first // self._block_ms, last // self._block_ms + 1)]
        folder = self._folder(partition)
        return [self._read(path) for block in blocks for path in _files(storage.join(folder, block))]

    def at(self, place: ReleaseSlot) -> list[Slot]:
        """The slots of one window and kind, by part. place: of any part."""
        wanted = place.window_end, place.kind
        found = [
            slot
            for slot in self.near(place.partition, place.window_end)
            if (slot.window_end, slot.kind) == wanted
        ]
        return sorted(found, key=lambda slot: slot.part)

    def newest_end(self, partition: bytes) -> int | None:
        """The end of the partition's last window with a slot of its regular release, in ms; None: there is none.

        A closing release moves no clock: one that is published says nothing of how old a state is.
        """
        folder = self._folder(partition)
        if is_local(folder):
            blocks = sorted((int(name) for name in _names(folder) if name != _NONE), reverse=True)
            folders = (storage.join(folder, str(block)) for block in blocks)
            # A block can be empty for a moment, or for good after a crash.
            ends = next((found for each in folders if (found := _ends(_files(each)))), [])
        else:
            ends = _ends(_remote(folder, "*", "*"))
        return max(ends, default=None)

    def take(
        self, slot: Slot, entered: tuple[bytes, bytes] | None = None, groups: bytes | None = None
    ) -> Slot | CommittedSegment | None:
        """Create a release's slot and judge it; what is committed and in its way, None: it may be published.

        entered: the files of who entered with it, people and boxes. groups: which cohorts it put together.

        Judged before, so that a release that cannot be published leaves no slot; and again after, because two that
        are on their way at once each create first and look then: at least one of them sees the other. The segment
        comes after the slot: none is committed that no release vouches for.
        """
        if (other := self.in_the_way(slot)) is not None:
            return other
        folder = self._folder(slot.partition)
        for each in (slots_directory(self.output), folder, storage.split(self._path(slot))[0]):
            make_directory(each, private=True)
        restricted = storage.join(self.output, "restricted")
        workspace = restricted if is_local(restricted) else None
        create_if_absent(self._path(slot), slot.to_bytes(), private=True, workspace=workspace)
        if (other := judge(slot, self.near(slot.partition, slot.window_end), self.reach_ms)) is not None:
            return other
        if entered is not None and (segment := self._rosters.commit(slot, *entered)) is not None:
            return segment
        if groups is not None:
            self._rosters.keep_groups(slot, groups)
        return self._rosters.in_the_way(slot)

    def in_the_way(self, slot: Slot) -> Slot | CommittedSegment | None:
        """What is committed that a release must not stand beside: a release, or people who entered."""
        other = judge(slot, self.near(slot.partition, slot.window_end), self.reach_ms)
        return self._rosters.in_the_way(slot) if other is None else other

    def is_parked(self, partition: bytes) -> bool:
        """Whether the partition publishes nothing any more."""
        if partition not in self._parked and storage.exists(self._mark(partition)):
            self._parked.add(partition)
        return partition in self._parked

    def park(self, slot: Slot, other: Slot | CommittedSegment | None) -> bool:
        """Stop the partition: this release must not stand beside ``other`` (None: beside its own file's content).

        Whether this call did it, and not an earlier one.
        """
        make_directory(parked_directory(self.output), private=True)
        reason = {
            "reason": "a release was made that does not go on from what is published",
            "release_id": slot.release_id,
            "window_end": slot.window_end,
            "part": slot.part,
            "published": slot.release_id if other is None else other.release_id,
            "published_window_end": slot.window_end if other is None else other.window_end,
        }
        data = json.dumps(reason, indent=1).encode()
        self._parked.add(slot.partition)
        return create_if_absent(self._mark(slot.partition), data, private=True) is Outcome.CREATED

    def keep_solution(self, slot: Slot, solution: bytes) -> None:
        """Write down what a release is published from; to be called before ``take``."""
        make_directory(solutions_directory(self.output), private=True)
        # By content: one that was never published must not be in the way of the one that is.
        create_if_absent(self._solution(slot), solution, private=True)

    def solution(self, slot: Slot) -> bytes | None:
        """What a committed release was published from; None: it was not written down."""
        path = self._solution(slot)
        return read_whole(path) if storage.exists(path) else None

    def _folder(self, partition: bytes) -> str:
        return storage.join(slots_directory(self.output), partition.hex())

    def _path(self, slot: Slot) -> str:
        end = slot.window_end
        block, name = (_NONE, _NONE) if end is None else (str(end // self._block_ms), str(end))
        kind = _CLOSING if slot.kind == CLOSING else ""
        return storage.join(self._folder(slot.partition), block, f"{name}-{slot.part}{kind}")

    def _mark(self, partition: bytes) -> str:
        return storage.join(parked_directory(self.output), partition.hex())

    def _solution(self, slot: Slot) -> str:
        return storage.join(solutions_directory(self.output), f"{slot.release_id}-{slot.digest}")

    def _read(self, path: str) -> Slot:
        if path not in self._seen:
            if len(self._seen) > _MOST_REMEMBERED:
                self._seen.clear()
            self._seen[path] = slot_from_bytes(read_whole(path))
        return self._seen[path]


def _files(folder: str) -> Iterator[str]:
    """The slot files of a block, without those that are being written."""
    if not is_local(folder):
        yield from _remote(folder, "*")
        return
    for name in _names(folder):
        yield os.path.join(folder, name)


def _names(folder: str) -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    return []


def _remote(folder: str, *names: str) -> Iterator[str]:
    return (
        path for path in storage.paths_below(folder, *names) if not storage.split(path)[1].startswith(".")
    )


def _ends(paths: Iterable[str]) -> list[int]:
    return [end for path in paths if (end := _end_of(path)) is not None]


def _end_of(path: str) -> int | None:
    name = storage.split(path)[1]
    end = name.rpartition("-")[0]
    return None if end == _NONE or name.endswith(_CLOSING) else int(end)
