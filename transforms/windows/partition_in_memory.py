"""A partition without a runner: its state in memory, its steps one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.roster.roster import Roster, RosterHead, roster_of
from kanonflow.transforms.rows.elements import RejectedRows, to_ipc
from kanonflow.transforms.windows.chain import Batch, CarriedState
from kanonflow.transforms.windows.partition_clock import PartitionClock
from kanonflow.transforms.windows.step import PartitionStep, StateAfter


class PartitionInMemory:
    """One partition. clock, warm_state, segments: its state; waiting rows are in the second, pending ones with their
    windows.

    step: of all partitions. key: of this one. carried: what the end of the feed has left of it; None: it has not come.
    """

    def __init__(self, step: PartitionStep, key: bytes) -> None:
        self.clock = PartitionClock()
        self.warm_state: WarmState | None = None
        self._step = step
        self._key = key
        self.segments: list[bytes] = []
        self.carried: CarriedState | None = None
        self._roster: Roster | None = None
        self._rows: dict[tuple[int, bool], list[pa.Table]] = {}
        if (begun := step.begin(key)) is not None:
            self.clock, self.warm_state, self._roster = begun.clock, begun.warm, begun.roster
            self.segments += begun.segments
            for batch in begun.batches:
                self._rows.setdefault((batch.number, batch.late), []).append(batch.rows)

    @property
    def fires_at(self) -> int | None:
        """When the next step is due, in ms of event time; None: the partition holds nothing."""
        return self._step.fires_at(self.clock)

    def arrive(self, window: int, rows: pa.Table) -> RejectedRows | None:
        """Keep a batch of rows of one window until it is due; the rows, rejected, if no release may take them."""
        before, arrival = self.clock, self._step.arrive(self.clock, window)
        self.clock = arrival.clock
        if arrival.bag is None:
            return self._step.refuse(self._key, before, rows)
        self._rows.setdefault((arrival.bag, arrival.late), []).append(rows)
        return None

    def wake(self) -> None:
        """Let a partition that an earlier run knew go on, though no row of it comes."""
        self.clock = self._step.wake(self.clock)

    def fire(self) -> Iterator[WindowResult]:
        """Do what is due, if anything is. The state changes when the last result has been taken."""
        action = self._step.due(self.clock)
        if action is None:
            return
        for made in self._step.act(self._key, action, self.clock, self):
            if isinstance(made, StateAfter):
                self.clock, self.warm_state = made.clock, made.warm
                self.segments += made.segments
                self._roster = made.roster
            elif isinstance(made, CarriedState):
                self.carried = made
            else:
                yield made

    def finish(self) -> Iterator[WindowResult]:
        """Do all that is due until the partition holds nothing, as at the end of a feed."""
        while self.fires_at is not None:
            yield from self.fire()

    def warm(self) -> WarmState:
        """As of ``step.Held``."""
        return self.warm_state or WarmState()

    def roster(self, head: RosterHead) -> Roster:
        """As of ``step.Held``."""
        if self._roster is None or self._roster.head != head:
            self._roster = roster_of(head, self.segments)
        return self._roster

    def take(self, windows: tuple[int, ...], *, late_only: bool) -> pa.Table | None:
        """As of ``step.Held``."""
        due = [(window, late) for window in windows for late in (False, True) if late or not late_only]
        tables = [table for place in due for table in self._rows.pop(place, [])]
        return pa.concat_tables(tables) if tables else None

    def batches(self) -> tuple[Batch, ...]:
        """As of ``step.Held``."""
        return tuple(
            Batch(number, late, to_ipc(rows.combine_chunks()))
            for (number, late), tables in sorted(self._rows.items(), key=lambda each: each[0])
            for rows in tables
        )
