"""Runs that continue each other: which of them a run is, and what it leaves of each partition for the next one.

    Chain(place, carry, until)     of a run
    CarriedState                   of a partition at the end of a feed, as versioned bytes

A run over files ends where its files do, which is no end for people who wait: of each partition the *pool* is handed
on, and the event ids seen lately. With ``carry`` all of it is, as a savepoint of a stream would have it: the clock, the
rows that wait, and those of windows that are not over; what lies beyond ``until`` is then neither released nor rejected
by this run. Without ``carry`` what waits leaves at its deadline, and no clock is handed on: the last releases would
have moved it past windows whose rows are still to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from kanonflow.schemas.avro_schema import epoch_text
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.files.state_parts import Content, pack, unpack
from kanonflow.transforms.files.state_versions import damaged
from kanonflow.transforms.release.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.roster.roster import RosterHead
from kanonflow.transforms.rows.elements import sound_rows
from kanonflow.transforms.windows.partition_clock import PartitionClock

MAGIC = b"KFCS"
VERSION = 1
_WHAT = "state that a run carried over"


@dataclass(frozen=True)
class Chain:
    """A run in its chain.

    place: how many runs it continues, 0 of the one that began the epoch.
    carry: whether what waits at the feed's end is left for the run that continues this one.
    until: with ``carry``, what is later is not done: a window's end in ms; None: nothing is.
    """

    place: int = 0
    carry: bool = False
    until: int | None = None


class Batch(NamedTuple):
    """Rows as they lie in a bag. number, late: as of ``bags``. ipc: canonical rows as one Arrow IPC stream."""

    number: int
    late: bool
    ipc: bytes

    @property
    def rows(self) -> pa.Table:
        """The rows."""
        return sound_rows(self.ipc)


@dataclass(frozen=True)
class CarriedState:
    """What a run leaves of a partition.

    partition: its key. epoch, place: of the run.
    windows: of its policy, size and offset and how long rows wait, in ms: what a clock goes by.
    clock: None: the next run begins with a new one. warm: with the pool. batches: rows of windows that are not over.
    """

    partition: bytes
    epoch: int
    place: int
    windows: tuple[int | None, int, int]
    clock: PartitionClock | None
    warm: WarmState
    batches: tuple[Batch, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows it holds: they are in no release and were not rejected."""
        return self.warm.waiting_rows + sum(batch.rows.num_rows for batch in self.batches)

    def to_bytes(self) -> bytes:
        """The versioned bytes. Inverse of ``carried_from_bytes``."""
        pool = 0 if self.warm.roster is None else self.warm.roster.pool.people.size
        meta: dict[str, Any] = {
            "epoch": epoch_text(self.epoch),
            "partition": self.partition.hex(),
            "place": self.place,
            "windows": list(self.windows),
            "clock": None if self.clock is None else self.clock.to_bytes().decode(),
            "batches": [[batch.number, batch.late, batch.rows.num_rows] for batch in self.batches],
            "waiting": self.warm.waiting_rows,
            "pool": int(pool),
        }
        parts = {f"batch_{number}": batch.ipc for number, batch in enumerate(self.batches)}
        return pack(MAGIC, VERSION, Content(meta, {"warm": self.warm.to_bytes(), **parts}))


def windows_of(policy: Policy) -> tuple[int | None, int, int]:
    """What a clock goes by: size and offset of windows, and how long rows wait, in ms."""
    return policy.window_ms, policy.window_offset_ms, policy.waiting_ms


def refuse_other_roster(state: CarriedState, key: bytes, head: RosterHead) -> None:
    """Raise StateError unless a state is of this partition, and of the roster that its cohorts make.

    head: of all segments that the earlier run left; one without any for a partition where nobody has entered.
    """
    roster = state.warm.roster
    own = RosterHead(state.epoch) if roster is None else roster.head
    if state.partition != key or own != head:
        raise damaged(_WHAT, "it is of other cohorts than those beside it")


def carried_from_bytes(data: bytes) -> CarriedState:
    """The state. Raises StateError for another version's or damaged bytes."""
    parts = unpack(data, MAGIC, VERSION, _WHAT)
    try:
        meta = parts.meta
        clock = None if meta["clock"] is None else PartitionClock.from_bytes(meta["clock"].encode())
        size, offset, waiting = meta["windows"]
        warm = warm_state_from_bytes(parts.take("warm"))
        batches = tuple(
            Batch(number, late, parts.take(f"batch_{place}"))
            for place, (number, late, _) in enumerate(meta["batches"])
        )
        parts.end()
        told = [batch.rows.num_rows for batch in batches]
        state = CarriedState(
            bytes.fromhex(meta["partition"]),
            int(meta["epoch"], 16),
            meta["place"],
            (size, offset, waiting),
            clock,
            warm,
            batches,
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError, pa.ArrowException):
        raise damaged(_WHAT, "its parts do not fit its index") from None
    if told != [rows for _, _, rows in meta["batches"]]:
        raise damaged(_WHAT, "it has not as many rows as its index says")
    return state
