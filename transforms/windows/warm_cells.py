"""The warm state in cells of a runner, so that a window writes what changed in it and no value grows without end.

    warm         ReadModifyWrite   rows that wait, cohorts, domains, the roster's head and last groups; where the event
                                   ids stand (``WarmState.rest_to_bytes``). Builds of before kept all of the state here
    pool         ReadModifyWrite   who waits for an intake; written when it changed
    events_0..3  bags              event ids seen lately, an entry for each window: header + uint64 digests

An entry has a number, one more than the last one's, and lies in bag number mod 4. Which numbers count stands in
``warm``; what else lies in a bag is over, or was replaced. A bag of which nothing counts is cleared. One that holds
more of what is over than of what counts is written anew, at most one with each window, so all that is ever written is
at most twice what came.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from apache_beam.coders import BytesCoder
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, StateSpec
from numpy.typing import NDArray

from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.release.warm_state import Events, WarmState, warm_state_from_cells
from kanonflow.transforms.roster.pool import Pool
from kanonflow.transforms.roster.roster_state import pool_from_bytes, pool_to_bytes

EVENT_BAGS = 4
_ENTRY = struct.Struct("<4sIqqq")
_MARK, _LAYOUT = b"KFWE", 1


class Entry(NamedTuple):
    """Event ids of a window. place: among the entries, that of the one that it replaced, or its own number."""

    number: int
    place: int
    end: int
    digests: NDArray[np.uint64]

    def to_bytes(self) -> bytes:
        """As it lies in a bag."""
        header = _ENTRY.pack(_MARK, _LAYOUT, self.number, self.place, self.end)
        return header + self.digests.astype("<u8").tobytes()


class CellWrites(NamedTuple):
    """What a state writes. pool: None: it is as it stands. added: entries of event ids. anew: what a bag holds from now
    on, by bag. entries: all that count then. next: the number of the one after them.

    sizes: bytes of the values, by what is in them. total: of the state, with what it does not write.
    """

    warm: bytes
    pool: bytes | None
    added: tuple[Entry, ...]
    anew: dict[int, tuple[Entry, ...]]
    entries: list[Entry]
    next: int
    sizes: dict[str, int]
    total: int


class WarmCells:
    """The cells of one partition.     cells: one for each of ``SPECS``, as the runner gives them."""

    SPECS: ClassVar[tuple[StateSpec, ...]] = (
        ReadModifyWriteStateSpec("warm", BytesCoder()),
        ReadModifyWriteStateSpec("pool", BytesCoder()),
        *(BagStateSpec(f"events_{index}", BytesCoder()) for index in range(EVENT_BAGS)),
    )

    def __init__(self, cells: Sequence[Any]) -> None:
        self._warm, self._pool, *self._bags = cells
        self._pool_data: bytes | None = None
        self._pool_read: Pool | None = None
        self._entries: list[Entry] = []
        self._lying = [0] * EVENT_BAGS
        self._next = 0
        self._planned: tuple[WarmState, CellWrites] | None = None

    def read(self) -> WarmState:
        """The state; an empty one of a partition that has none. Raises StateError."""
        return warm_state_from_cells(self._warm.read(), self._read_pool, self._read_events)

    def writes(self, after: WarmState) -> CellWrites:
        """What it takes to write a state, beside what was read. Asked twice of one state it is worked out once."""
        if self._planned is None or self._planned[0] is not after:
            self._planned = after, self._plan(after)
        return self._planned[1]

    def write(self, after: WarmState) -> None:
        """Write a state in the place of what was read or written last."""
        plan = self.writes(after)
        self._planned = None
        self._warm.write(plan.warm)
        if plan.pool is not None:
            self._pool.write(plan.pool)
            self._pool_data = plan.pool
        for index, entries in plan.anew.items():
            self._bags[index].clear()
            for entry in entries:
                self._bags[index].add(entry.to_bytes())
            self._lying[index] = sum(entry.digests.size for entry in entries)
        for entry in plan.added:
            self._bags[entry.number % EVENT_BAGS].add(entry.to_bytes())
            self._lying[entry.number % EVENT_BAGS] += entry.digests.size
        self._entries, self._next = plan.entries, plan.next
        if after.roster is not None:
            self._pool_read = after.roster.pool

    def clear(self) -> None:
        """Drop the state."""
        for cell in (self._warm, self._pool, *self._bags):
            cell.clear()

    def _read_pool(self) -> Pool:
        self._pool_data = self._pool.read()
        if self._pool_data is None:
            raise damaged("warm state", "its pool is not there")
        self._pool_read = pool_from_bytes(self._pool_data)
        return self._pool_read

    def _read_events(self, where: Any) -> Events:
        self._next = where["next"]
        counted = {number for first, behind in where["live"] for number in range(first, behind)}
        lying = [_entry(data) for bag in self._bags for data in bag.read()] if self._next else []
        for entry in lying:
            self._lying[entry.number % EVENT_BAGS] += entry.digests.size
        self._entries = sorted(
            (entry for entry in lying if entry.number in counted),
            key=lambda entry: (entry.place, entry.number),
        )
        if len(self._entries) != len(counted):
            raise damaged("warm state", "not all of its event ids are there")
        return tuple((entry.end, entry.digests) for entry in self._entries)

    def _plan(self, after: WarmState) -> CellWrites:
        entries = _numbered(self._entries, after.events, self._next)
        added = tuple(entry for entry in entries if entry.number >= self._next)
        anew = self._anew(entries, added)
        behind = max([self._next, *(entry.number + 1 for entry in added)])
        where = {"next": behind, "live": _ranges(sorted(entry.number for entry in entries))}
        warm = after.rest_to_bytes(where)
        pool, pool_bytes = None, 0
        if after.roster is not None:
            data = (
                self._pool_data if after.roster.pool is self._pool_read else pool_to_bytes(after.roster.pool)
            )
            assert data is not None
            pool, pool_bytes = None if data == self._pool_data else data, len(data)
        sizes = {
            "rows that wait": len(warm),
            "people who wait for an intake": pool_bytes,
            "event ids of a window": max((_ENTRY.size + entry.digests.nbytes for entry in added), default=0),
        }
        total = len(warm) + pool_bytes + sum(_ENTRY.size + entry.digests.nbytes for entry in entries)
        return CellWrites(
            warm,
            pool,
            tuple(entry for entry in added if entry.number % EVENT_BAGS not in anew),
            anew,
            entries,
            behind,
            sizes,
            total,
        )

    def _anew(self, entries: Iterable[Entry], added: Sequence[Entry]) -> dict[int, tuple[Entry, ...]]:
        """The bags that are written anew, with what they hold then."""
        counted: list[list[Entry]] = [[] for _ in self._bags]
        for entry in entries:
            counted[entry.number % EVENT_BAGS].append(entry)
        found = {}
        for index, lying in enumerate(self._lying):
            left = sum(entry.digests.size for entry in counted[index] if entry.number < self._next)
            turn = not left or index in {entry.number % EVENT_BAGS for entry in added[:1]}
            if turn and lying - left > left:
                found[index] = tuple(counted[index])
        return found


def _numbered(before: Sequence[Entry], events: Events, first: int) -> list[Entry]:
    """Entries of event ids, in their order: those that are the same arrays as before, and new ones.

    first: number of the first new one. One that has the end of an entry that is gone is in its place.
    """
    same = {id(entry.digests): entry for entry in before}
    here = {id(digests) for _, digests in events}
    gone = [entry for entry in before if id(entry.digests) not in here]
    found = []
    for end, digests in events:
        entry = same.get(id(digests))
        if entry is None:
            number, first = first, first + 1
            replaced = next((each for each in gone if each.end == end), None)
            if replaced is not None:
                gone.remove(replaced)
            entry = Entry(number, number if replaced is None else replaced.place, end, digests)
        found.append(entry)
    return found


def _ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Sorted numbers as [first, one behind the last] of each run."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1][1] = number + 1
        else:
            found.append([number, number + 1])
    return found


def _entry(data: bytes) -> Entry:
    """Raises StateError."""
    try:
        mark, layout, number, place, end = _ENTRY.unpack_from(data)
        digests = np.frombuffer(data, dtype="<u8", offset=_ENTRY.size).astype(np.uint64)
    except (struct.error, ValueError):
        raise damaged("event ids", "an entry is cut off") from None
    if (mark, layout) != (_MARK, _LAYOUT):
        raise damaged("event ids", "an entry does not begin with its mark")
    return Entry(number, place, end, digests)
