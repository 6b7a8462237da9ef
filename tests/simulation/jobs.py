"""A job of the product's own steps, under a runner that may do whatever runners do.

The stateful step and the sinks are the DoFns of the product, in as many copies as there are workers; its state is bytes
in cells. A stream's outputs stand before the durable boundary until the checkpoint that holds them is complete; a run
over files has no boundary, and hands everything on at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import TimestampedValue

from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.release_format import ReleaseFormat
from kanonflow.transforms.anonymize import _ClassifyAndSplit
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases, Remake
from kanonflow.transforms.lineage.published_slots import PublishedSlots
from kanonflow.transforms.rows.element_rows import rows_to_table
from kanonflow.transforms.rows.elements import RawBatch, to_ipc
from kanonflow.transforms.secret.seeds import Secret
from kanonflow.transforms.shards.route import Batch
from kanonflow.transforms.shards.shard_plan import ShardPlan
from kanonflow.transforms.sinks.sinks import (
    CONFLICTS_TAG,
    METRICS_TAG,
    _WriteCarried,
    _WriteMetrics,
    _WriteRejected,
    _WriteRelease,
)
from kanonflow.transforms.windows.chain import Chain
from kanonflow.transforms.windows.solve_windows import CARRIED_TAG, REJECTED_TAG, WAKE, SolveWindows
from kanonflow.transforms.windows.step import EarlierCohorts
from tests.driven_partitions import Bag, Cells
from tests.simulation.routes import Bucket, Routes
from tests.small_feeds import HOUR, START
from tests.swapped_feeds import EPOCH, TrailFeed

END = 1 << 62
RELEASES = "releases"
TOPIC = "feed/0"


def copied(cells: Cells) -> Cells:
    """The state of a key as a checkpoint holds it."""
    other = Cells()
    for one, there in ((other.clock, cells.clock), (other.warm, cells.warm), (other.pool, cells.pool)):
        one.value = there.value
    other.due.at = cells.due.at
    bags: list[tuple[Bag, Bag]] = [(other.roster, cells.roster)]
    bags += [*zip(other.bags, cells.bags, strict=True), *zip(other.events, cells.events, strict=True)]
    for bag, its in bags:
        bag.values = list(its.values)
    return other


@dataclass
class State:
    """What a checkpoint holds. step, left: the step whose rows come, and which of them have not yet come.

    slow: rows that are on their way for longer than the step they belong to. buckets: of the route to shards.
    pending: what stands before the boundary, with its kind.
    """

    step: int
    left: tuple[int, ...] | None = None
    watermark: int = -END
    cells: dict[bytes, Cells] = field(default_factory=dict)
    pending: list[tuple[str, Any]] = field(default_factory=list)
    slow: tuple[int, ...] = ()
    buckets: dict[bytes, Bucket] = field(default_factory=dict)

    def copy(self) -> State:
        """Another one that can go on by itself."""
        cells = {key: copied(each) for key, each in self.cells.items()}
        buckets = {key: each.copy() for key, each in self.buckets.items()}
        return State(self.step, self.left, self.watermark, cells, list(self.pending), self.slow, buckets)


@dataclass(frozen=True)
class Site:
    """Where a job runs, whatever becomes of it: its feed and policy, its output, and how it continues another.

    slow: the chance that rows of a step come a step later. last: behind the last step of the feed. at_once: all rows
    come before anything is due, and there is no boundary. plan: of shards.
    """

    feed: TrailFeed
    bound: BoundPolicy
    output: str
    last: int
    at_once: bool = False
    slow: float = 0.0
    first: int = 0
    chain: Chain | None = None
    continued: EarlierCohorts | None = None
    woken: tuple[bytes, ...] = ()
    plan: ShardPlan | None = None


class Job:
    """One start of a job. remake: of what it may make again; None: nothing is there. number: which start it is.

    flags: what shall happen next, ``fail``, ``lag`` or ``slow``.
    """

    def __init__(
        self,
        site: Site,
        state: State,
        number: int,
        remake: Remake | None,
        secret: Secret,
        workers: int,
        rng: np.random.Generator,
    ) -> None:
        self.site = site
        self.state = state
        self.remake = remake
        self.checkpoints: list[State] = []
        self.flags: set[str] = set()
        self._rng = rng
        policy = site.bound.policy
        slots = PublishedSlots(site.output, policy)
        published = None if remake is None else EarlierReleases(slots, remake)
        self._split = _ClassifyAndSplit(site.bound, secret)
        self._split.setup()
        ticks = np.cumsum(rng.integers(-5, 9, size=4))  # a clock that goes back, too
        self._solvers = [
            SolveWindows(
                site.bound,
                secret,
                1,
                published=published,
                clock=lambda: float(ticks[int(rng.integers(4))]),
                epoch=EPOCH,
                continued=site.continued,
                chain=site.chain,
                job_start=None if site.at_once else number,
                earliest=site.plan is not None,
            )
            for _ in range(workers)
        ]
        for solver in self._solvers:
            solver._step = solver.partition_step()
        self._routes = None
        if site.plan is not None:
            self._routes = Routes(site.bound, secret, site.plan, site.output, workers, state.buckets)
        schema = release_avro_schema(site.bound, EPOCH)
        self._sinks = [
            (
                _WriteRelease(site.output, schema, policy, ReleaseFormat.AVRO),
                _WriteMetrics(site.output, policy),
                _WriteRejected(site.output),
                _WriteCarried(site.output),
            )
            for _ in range(workers)
        ]
        for each in self._sinks:
            for sink in each:
                sink.setup()

    def ticks(self) -> Iterator[None]:
        """All that the job does, a tick each; what is pending at the end has gone through the boundary."""
        if self.state.pending and not self.site.at_once:
            # What a checkpoint held before the boundary passes it once more.
            through, self.state.pending = self.state.pending, []
            yield from self._hand_on(through)
        for key in self.site.woken:
            if key not in self.state.cells:
                self._bundle(key, _processing(key, WAKE))
        while self.state.step < self.site.last:
            yield from self._rows_of_step()
            self.state.step, self.state.left = self.state.step + 1, None
            if self.site.at_once and self.state.step < self.site.last:
                continue
            ended = self.state.step == self.site.last
            if not ended and "lag" in self.flags:
                self.flags.discard("lag")
                continue
            yield from self._advance(END if ended else START + self.state.step * HOUR)
            if not self.site.at_once and (ended or self._rng.random() < 0.6):
                yield from self.checkpoint()
        if self.state.watermark < END:
            yield from self._advance(END)
        while self.state.pending:
            yield from self.checkpoint()

    def checkpoint(self) -> Iterator[None]:
        """Complete a checkpoint, and let through what it holds."""
        self.checkpoints.append(self.state.copy())
        through, self.state.pending = self.state.pending, []
        yield
        yield from self._hand_on(through)

    def fire_early(self, number: int) -> None:
        """The timer of some key fires, whenever it is set for."""
        keys = sorted(self.state.cells)
        if keys:
            self._fire(keys[number % len(keys)])

    def _rows_of_step(self) -> Iterator[None]:
        rows = self.site.feed.rows
        if self.state.left is None:
            own = [number for number, row in enumerate(rows) if row.arrives == self.state.step]
            self.state.left, self.state.slow = (*own, *self.state.slow), ()
            slow = "slow" in self.flags or (self.site.slow > 0 and self._rng.random() < self.site.slow)
            if slow and self.state.step + 1 < self.site.last:
                self.flags.discard("slow")
                later = dict(zip(self.state.left, self._rng.random(len(self.state.left)) < 0.4, strict=True))
                self.state.slow = tuple(number for number in later if later[number])
                self.state.left = tuple(number for number in later if not later[number])
        while self.state.left:
            # A batch of any size, of rows in any order: a source is read in splits.
            count = int(self._rng.integers(1, len(self.state.left) + 1))
            chosen = sorted(self._rng.choice(len(self.state.left), size=count, replace=False).tolist())
            numbers = [self.state.left[each] for each in chosen]
            there = set(numbers)
            self._deliver(numbers)
            self.state.left = tuple(each for each in self.state.left if each not in there)
            yield

    def _deliver(self, numbers: list[int]) -> None:
        bound, feed = self.site.bound, self.site.feed
        records = [feed.record(number) for number in numbers]
        table, broken, faults = rows_to_table(records, bound)
        if broken:  # a source says of each where it was
            foul = [bool(rows_to_table([record], bound).broken) for record in records]
            places = [f"{TOPIC}/{number}" for number, one in zip(numbers, foul, strict=True) if one]
            broken = [
                {**record, "part": place, "source": place}
                for record, place in zip(broken, places, strict=True)
            ]
            numbers = [number for number, one in zip(numbers, foul, strict=True) if not one]
        name = hashlib.blake2b(repr(numbers).encode(), digest_size=8).hexdigest()
        own = np.array(numbers, "<i8").tobytes()
        batch = RawBatch(f"feed-0-{name}", to_ipc(table), tuple(broken), b"", TOPIC, own, faults)
        parts = list(self._split.process(batch))
        keyed = [part for part in parts if not isinstance(part, TaggedOutput)]
        for part in parts:
            if isinstance(part, TaggedOutput):
                self._put(REJECTED_TAG, part.value)
        for at in self._rng.permutation(len(keyed)).tolist():
            if self._routes is None:
                self._arrive(keyed[at])
            else:
                self._arrive(*self._routes.arrive(keyed[at], self._tries()))

    def _arrive(self, *batches: Batch) -> None:
        for key, values in batches:
            self._bundle(key, _processing(key, values))

    def _advance(self, watermark: int) -> Iterator[None]:
        self.state.watermark = watermark
        fired = 0
        while self._routes is not None and (buckets := self._routes.due(watermark)):
            # A runner hands the time on behind what an operator's timers sent.
            chosen = buckets[int(self._rng.integers(len(buckets)))]
            self._arrive(*self._routes.fire(chosen, self._tries()))
            yield
        while True:
            due: dict[bytes, int] = {}
            for key, cells in self.state.cells.items():
                if cells.due.at is not None and cells.due.at <= watermark:
                    due[key] = cells.due.at
            if not due:
                return
            # Keys are independent of each other; of one, what is due first goes first.
            self._fire(sorted(due)[int(self._rng.integers(len(due)))])
            fired += 1
            assert fired < 500, "the timer spins"
            yield

    def _fire(self, key: bytes) -> None:
        def fire(solver: SolveWindows, cells: Cells) -> Iterator[Any]:
            cells.due.at = None
            return solver.fire(key, *cells.given())

        self._bundle(key, fire)

    def _bundle(self, key: bytes, do: Callable[[SolveWindows, Cells], Iterator[Any]]) -> None:
        """A bundle of one key: its state is there once it has ended."""
        solver = self._solvers[key[0] % len(self._solvers)]
        for _ in range(self._tries()):
            cells = copied(self.state.cells[key]) if key in self.state.cells else Cells()
            outputs = list(do(solver, cells))
        self.state.cells[key] = cells
        for output in outputs:
            tag = output.tag if isinstance(output, TaggedOutput) else RELEASES
            value = output.value if isinstance(output, TaggedOutput) else output
            self._put(tag, value.value if isinstance(value, TimestampedValue) else value)

    def _tries(self) -> int:
        """How often the next bundle is done."""
        tries = 2 if "fail" in self.flags else 1
        self.flags.discard("fail")
        return tries

    def _put(self, tag: str, value: Any) -> None:
        if tag == METRICS_TAG and value["released"]:
            return  # the sink says what became of the release
        if tag == CARRIED_TAG:
            self._sink(tag, value)  # by the solving step itself
        elif self.site.at_once:
            self._sink(tag, value)
        else:
            self.state.pending.append((tag, value))

    def _hand_on(self, through: list[tuple[str, Any]]) -> Iterator[None]:
        for at in self._rng.permutation(len(through)).tolist():
            self._sink(*through[at])
            yield

    def _sink(self, tag: str, value: Any) -> None:
        releases, metrics, rejected, carried = self._sinks[int(self._rng.integers(len(self._sinks)))]
        if tag == REJECTED_TAG:
            list(rejected.process(value))
        elif tag == METRICS_TAG:
            list(metrics.process(value))
        elif tag == CARRIED_TAG:
            list(carried.process(value))
        else:
            for output in releases.process(value):
                if isinstance(output, TaggedOutput):
                    if output.tag == CONFLICTS_TAG:
                        list(rejected.process(output.value))
                    elif output.tag == METRICS_TAG:
                        list(metrics.process(output.value))


def _processing(
    key: bytes, values: tuple[int, bytes, bytes]
) -> Callable[[SolveWindows, Cells], Iterator[Any]]:
    return lambda solver, cells: solver.process((key, values), *cells.given())
