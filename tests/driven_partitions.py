"""Partitions without a runner, and a watermark moved by hand.

DrivenPartitions    the DoFn ``SolveWindows``, with its cells in memory and its protocol checked at each call
SteppedPartitions   the step alone, with its state in memory: what the DoFn must come to
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import TimestampedValue

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases
from kanonflow.transforms.protections.protection_of import protection_of
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.rows.elements import RejectedRows, Release, from_ipc, to_ipc
from kanonflow.transforms.rows.split import split
from kanonflow.transforms.secret.seeds import Secret, partition_key
from kanonflow.transforms.windows.bags import BAGS, batch_rows, read_header
from kanonflow.transforms.windows.partition_clock import PartitionClock
from kanonflow.transforms.windows.partition_in_memory import PartitionInMemory
from kanonflow.transforms.windows.solve_windows import METRICS_TAG, SolveWindows
from kanonflow.transforms.windows.step import PartitionStep
from kanonflow.transforms.windows.warm_cells import EVENT_BAGS, WarmCells
from tests.small_feeds import Row, canonical

MOST_FIRINGS = 500
_WARM: set[tuple[object, ...]] = set()


class Value:
    """A ReadModifyWrite cell."""

    def __init__(self) -> None:
        self.value: bytes | None = None

    def read(self) -> bytes | None:
        return self.value

    def write(self, value: bytes) -> None:
        self.value = value

    def clear(self) -> None:
        self.value = None


class Bag:
    """A bag; it remembers how often it was read."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.reads = 0

    def read(self) -> list[bytes]:
        self.reads += 1
        return list(self.values)

    def add(self, value: bytes) -> None:
        self.values.append(value)

    def clear(self) -> None:
        self.values = []


class Timer:
    """An event-time timer, in milliseconds."""

    def __init__(self) -> None:
        self.at: int | None = None

    def set(self, at: Any) -> None:
        assert at.micros % 1000 == 0, "timers have a resolution of milliseconds"
        self.at = at.micros // 1000

    def clear(self) -> None:
        self.at = None


@dataclass
class Cells:
    """The state of one key."""

    clock: Value = field(default_factory=Value)
    warm: Value = field(default_factory=Value)
    roster: Bag = field(default_factory=Bag)
    due: Timer = field(default_factory=Timer)
    bags: list[Bag] = field(default_factory=lambda: [Bag() for _ in range(BAGS)])
    pool: Value = field(default_factory=Value)
    events: list[Bag] = field(default_factory=lambda: [Bag() for _ in range(EVENT_BAGS)])

    def given(self) -> tuple[Any, ...]:
        """As the DoFn's methods take them."""
        return (self.clock, self.roster, self.due, *self.bags, *self.of_warm())

    def of_warm(self) -> tuple[Any, ...]:
        """Those of the warm state."""
        return (self.warm, self.pool, *self.events)

    def state(self) -> WarmState:
        """The warm state."""
        return WarmCells(self.of_warm()).read()

    def sizes(self) -> list[int]:
        """Bytes in the cells of the warm state."""
        values = [self.warm.value or b"", self.pool.value or b""]
        return [len(value) for value in (*values, *(each for bag in self.events for each in bag.values))]


class _Watermark:
    """Fires what is due as the watermark moves."""

    watermark: int | None = None
    firings = 0

    def advance(self, watermark: int) -> None:
        """Move the watermark; fire what is due, in the order of time."""
        self.watermark = watermark
        while due := [(at, key) for key, at in self.armed().items() if at is not None and at <= watermark]:
            self.firings += 1
            assert self.firings < MOST_FIRINGS, "the timer spins"
            self.fire(min(due)[1])

    def finish(self) -> None:
        """The end of the input."""
        self.advance(1 << 62)

    def armed(self) -> dict[bytes, int | None]:
        """When the timer of each key fires, in ms."""
        raise NotImplementedError

    def fire(self, key: bytes) -> None:
        """The timer of one key fires."""
        raise NotImplementedError


class DrivenPartitions(_Watermark):
    """Every partition of a feed. released, metrics, rejected: what came out, in the order in which it did.

    made: the releases with what they bring along for the sink, metrics (in which there are times) and matching records;
    ``released`` is without them.
    """

    def __init__(
        self,
        bound: BoundPolicy,
        secret: Secret,
        published: EarlierReleases | None = None,
        clock: Callable[[], float] = time.monotonic,
        matching_records: bool = False,
        job_start: int | None = None,
        at_end: bool = False,
    ) -> None:
        self.bound = bound
        self.secret = secret
        self.step = SolveWindows(
            bound,
            secret,
            1,
            matching_records,
            published=published,
            clock=clock,
            job_start=job_start,
            at_end=at_end,
        )
        # Loading kernels means solving something: once a shape and process.
        shape = (protection_of(bound.policy).shape, bool(bound.policy.ruled))
        if shape in _WARM:
            self.step._step = self.step.partition_step()
        else:
            self.step.setup()
            _WARM.add(shape)
        self.cells: dict[bytes, Cells] = {}
        self.released: list[Release] = []
        self.made: list[Release] = []
        self.metrics: list[dict[str, Any]] = []
        self.rejected: list[RejectedRows] = []

    def send(self, rows: Sequence[Row]) -> None:
        """A batch arrives; timers that are due by now fire."""
        for values, number, part in split(canonical(rows, self.bound), self.bound):
            key = partition_key(self.secret, values)
            cells = self.cells.setdefault(key, Cells())
            reads = sum(bag.reads for bag in cells.bags)
            self._collect(self.step.process((key, (number, to_ipc(part), b"")), *cells.given()))
            assert reads == sum(bag.reads for bag in cells.bags), "process must not read a bag"
            self._check(cells)
        if self.watermark is not None:
            self.advance(self.watermark)

    def armed(self) -> dict[bytes, int | None]:
        """When the timer of each key fires, in ms."""
        return {key: cells.due.at for key, cells in self.cells.items()}

    def fire(self, key: bytes) -> None:
        """The timer of one key fires."""
        cells = self.cells[key]
        cells.due.at = None
        self._collect(self.step.fire(key, *cells.given()))
        self._check(cells)

    def copy(
        self,
        secret: Secret | None = None,
        published: EarlierReleases | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> DrivenPartitions:
        """A checkpoint: the same state, and outputs of its own; perhaps of another job."""
        other = DrivenPartitions(self.bound, secret or self.secret, published, clock)
        other.cells, other.watermark = copy.deepcopy(self.cells), self.watermark
        return other

    def tables(self) -> list[pa.Table]:
        """The rows of each release."""
        return [from_ipc(release.ipc) for release in self.released]

    def published(self) -> list[str]:
        """The references of all released rows."""
        return [name for table in self.tables() for name in table.column("reference").to_pylist()]

    def refused(self) -> list[tuple[str, str]]:
        """Reference and reason of all rejected rows."""
        return [
            (record["row"]["reference"], record["reason"])
            for each in self.rejected
            for record in each.records
        ]

    def waiting(self) -> int:
        """Rows that wait for a later release, bags not counted."""
        return sum(cells.state().waiting_rows for cells in self.cells.values())

    def in_bags(self) -> int:
        """Rows in bags."""
        batches = [batch for cells in self.cells.values() for bag in cells.bags for batch in bag.values]
        return sum(batch_rows(batch).num_rows for batch in batches)

    def _collect(self, outputs: Iterable[Any]) -> None:
        for output in outputs:
            tag = output.tag if isinstance(output, TaggedOutput) else None
            value = output.value if isinstance(output, TaggedOutput) else output
            if isinstance(value, TimestampedValue):
                value = value.value
            if tag is None:
                self.made.append(value)
                self.released.append(value._replace(metrics=None, matching_record=None))
            elif tag == METRICS_TAG:
                self.metrics.append(value)
            else:
                self.rejected.append(value)

    def _check(self, cells: Cells) -> None:
        clock = PartitionClock.from_bytes(cells.clock.value)
        assert cells.due.at == self.step._step.fires_at(clock)
        held: Counter[int] = Counter()
        for index, bag in enumerate(cells.bags):
            for batch in bag.values:
                number, _ = read_header(batch)
                assert number % BAGS == index
                held[number] += 1
        assert set(held) == {*clock.pending, *clock.late}


class SteppedPartitions(_Watermark):
    """Every partition of a feed. released, metrics, rejected: what came out, in the order in which it did."""

    def __init__(
        self, bound: BoundPolicy, secret: Secret, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.step = PartitionStep(bound, secret, 1, time=clock)
        self.partitions: dict[bytes, PartitionInMemory] = {}
        self.released: list[Release] = []
        self.metrics: list[dict[str, Any]] = []
        self.rejected: list[RejectedRows] = []

    def send(self, rows: Sequence[Row]) -> None:
        """A batch arrives; what is due by now is done."""
        bound = self.step.bound
        for values, number, part in split(canonical(rows, bound), bound):
            key = partition_key(self.step.secret, values)
            partition = self.partitions.setdefault(key, PartitionInMemory(self.step, key))
            refused = partition.arrive(number, pa.Table.from_batches([part]))
            if refused is not None:
                self.rejected.append(refused)
        if self.watermark is not None:
            self.advance(self.watermark)

    def armed(self) -> dict[bytes, int | None]:
        """When each partition's next step is due, in ms."""
        return {key: partition.fires_at for key, partition in self.partitions.items()}

    def fire(self, key: bytes) -> None:
        """A partition does what is due."""
        for result in self.partitions[key].fire():
            self.metrics.append(result.metrics)
            if result.release is not None:
                self.released.append(result.release)
            if result.rejected:
                self.rejected.append(RejectedRows(result.metrics["release_id"], tuple(result.rejected)))
