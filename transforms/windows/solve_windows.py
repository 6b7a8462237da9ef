"""The stateful step: rows of a partition in, releases, metrics and rejected rows out, one window warming the next.

Protocol. The step runs keyed by partition in the *global* window and does the windowing itself, because state is
scoped to key and window and a warm start must outlive both. What is done when it is due stands in ``step``: here are
the cells of its state, its timer, and the way out for what it makes.

State cells (a key's own):
    clock     ReadModifyWrite, bytes   PartitionClock: last release, pending windows, deadlines, the armed time; a key
                                       without it begins with what an earlier run has carried over (``step.begin``)
    warm, pool, events_0..3            WarmState: waiting rows, cohorts, domains; the pool; event ids (``warm_cells``;
                                       versioned, never a pickle)
    roster    bag, bytes               with ``cohort: lasting``, the roster's segments; one is added at an intake, and
                                       all are read where the process does not have the roster of that name yet
    bag_00..  16 bags, bytes           batches as they came (header + Arrow IPC), by window number mod 16 (``bags``)
Timer:
    due       ONE event-time timer, at ``PartitionStep.fires_at``; set only when that time changes, cleared when the
              partition holds nothing (a drain would otherwise never end). Of a partition that hands something on to a
              run that continues this one it is last set to the end of time; when it fires then, the feed has ended,
              what is handed on goes out, and it is not set again.

Between two calls: every row that came is in exactly one bag, in ``WarmState.waiting``, or has left by an output; bag n
mod 16 holds batches of window n only if n is in ``clock.pending`` or ``clock.late``, or is the one before
``clock.opened`` and ``clock.closing`` says so; the timer is armed at ``PartitionStep.fires_at``. ``process`` writes to
a bag and never reads one. A firing does what is due by the time that the timer was set to and re-arms: of a stream as a
rule one action, for nobody tells a step how far the watermark is; of a feed that ends, in this process, all there is
(``PartitionStep.at_end``), without a bundle for each window.

A retry sees the state as it was, so it repeats the same releases under the same slots: release numbers are state, and
a window that is released in parts (``release_parts``) is cut the same way again, a number for each part. The secret's
version is state, too: a window is finished under the one that was in force when its first row came, whatever the job
was given since; waiting rows leave with, and under the version of, the window that takes them.

What was released is state as well (``PartitionClock.claims``): each release names those that it was built on, so that
whoever writes it can tell whether it goes on from what is published (``release_lineage``, ``earlier_releases``).
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import BytesCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Timestamp

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.settled_releases import states_name
from kanonflow.solvers.kernels.compile_ahead import Told, compile_ahead
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases
from kanonflow.transforms.local_runners import return_freed_memory
from kanonflow.transforms.protections.needed_kernels import Kernels, needed_kernels
from kanonflow.transforms.release.account import WindowResult
from kanonflow.transforms.release.done_here import DONE_HERE
from kanonflow.transforms.release.due import Clock
from kanonflow.transforms.release.warm_state import WarmState
from kanonflow.transforms.risks.first_windows import FirstLook, FirstWindows
from kanonflow.transforms.risks.sample_slots import sample_kernels
from kanonflow.transforms.roster.roster import Roster, RosterHead, roster_of
from kanonflow.transforms.rows.elements import RejectedRows, from_ipc
from kanonflow.transforms.rows.row_places import places_from_bytes
from kanonflow.transforms.secret.seeds import SecretSource
from kanonflow.transforms.windows.bags import Bags
from kanonflow.transforms.windows.chain import Batch, CarriedState, Chain
from kanonflow.transforms.windows.expect_people import EXPECTED
from kanonflow.transforms.windows.gauges import NAMESPACE, WindowGauges
from kanonflow.transforms.windows.partition_clock import Action, PartitionClock
from kanonflow.transforms.windows.released_nothing import ReleasedNothing
from kanonflow.transforms.windows.state_bytes import StateSizes, most_state_bytes
from kanonflow.transforms.windows.state_cells import with_cells
from kanonflow.transforms.windows.step import EarlierCohorts, PartitionStep, StateAfter
from kanonflow.transforms.windows.wanted_left import WantedLeft
from kanonflow.transforms.windows.warm_cells import WarmCells

METRICS_TAG = "metrics"
REJECTED_TAG = "rejected"
CARRIED_TAG = "carried"
WAKE = (0, b"", b"")
"""A batch of nothing: it lets a partition go on that an earlier run knew."""


_LOADING = threading.Lock()
_LOGGER = logging.getLogger(__name__)


def _tell_compiling() -> Told:
    """What says once that the worker compiles and how much: it is about no row, and takes minutes."""
    told = False

    def tell(done: int, units: int, share: float) -> None:
        nonlocal told
        if not told:
            told = True
            _LOGGER.warning("compiles %d kernels for this policy, once; this takes up to some minutes", units)

    return tell


@functools.cache
def _load_kernels(kernels: Kernels, sample: tuple[str, ...] = ()) -> None:
    """Load the kernels of a policy: once a process, and by one thread of it, while others wait.

    A worker sets up a copy of the step for each bundle that it works on at a time, and anew after a pause.
    What no cache holds is compiled first. sample: sets that measuring needs besides.
    """
    begin = time.monotonic()
    if compile_ahead(tuple(dict.fromkeys((*kernels.sets, *sample))), _tell_compiling()):
        _LOGGER.warning("compiled kernels for this policy in %.0f s", time.monotonic() - begin)
    kernels.load()


class _Rosters:
    """The rosters that a process has put together, by the digest of their chain: a version number exists twice after a
    rollback. Few are kept: each holds all that its partition knows."""

    MOST = 64

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, RosterHead], Roster] = OrderedDict()

    def get(self, key: bytes, head: RosterHead) -> Roster | None:
        found = self._kept.get((key, head))
        if found is not None:
            self._kept.move_to_end((key, head))
        return found

    def keep(self, key: bytes, roster: Roster) -> None:
        # Earlier rosters of the partition are parts of this one.
        for old in [each for each in self._kept if each[0] == key]:
            del self._kept[old]
        self._kept[key, roster.head] = roster
        while len(self._kept) > self.MOST:
            self._kept.popitem(last=False)


class _HeldInCells:
    """``Held`` in the cells of a key."""

    def __init__(
        self,
        key: bytes,
        warm: WarmCells,
        segments: Any,
        bags: Bags,
        rosters: _Rosters,
        look: FirstLook | None,
    ) -> None:
        self._key = key
        self._look = look
        self._state: WarmState | None = None
        self._warm = warm
        self._segments = segments
        self._bags = bags
        self._rosters = rosters

    def roster(self, head: RosterHead) -> Roster:
        roster = self._rosters.get(self._key, head)
        if roster is None:
            roster = roster_of(head, self._segments.read())
            self._rosters.keep(self._key, roster)
        return roster

    def warm(self) -> WarmState:
        if self._state is None:
            self._state = self._warm.read()
        return self._state

    def follow(self, after: StateAfter) -> None:
        """Write what a step leaves, but for the clock."""
        for segment in after.segments:
            self._segments.add(segment)
        if after.roster is not None:
            self._rosters.keep(self._key, after.roster)
        if after.warm is None:
            self._warm.clear()
        else:
            self._warm.write(after.warm)
        self._state = after.warm

    def take(self, windows: tuple[int, ...], *, late_only: bool) -> pa.Table | None:
        rows = self._bags.take(windows, late_only=late_only)
        if self._look is not None and rows is not None and not late_only:
            high = self._look.took(self._key, max(windows), rows)
            if high is not None:
                Metrics.gauge(NAMESPACE, "payload_over_limit").set(high)
        return rows

    def batches(self) -> tuple[Batch, ...]:
        return tuple(self._bags.batches())


class SolveWindows(beam.DoFn):
    """(partition key, (window number, Arrow IPC bytes, places)) -> Release; tagged: metrics dict, RejectedRows,
    CarriedState.

    Counters: ``rows_late``; ``rows_carried_in`` and ``rows_carried_out``, rows that an earlier run has left for this
    one, and that this one leaves for the next. Gauges: ``state_bytes``, ``payload_over_limit``, of a
    stream those of ``WantedLeft``.
    most_state: bytes of a value of state.
    job_start: which start of a stream's job it is; None: it is no stream's.
    first: measures the payload of the first windows; None: somebody has measured a sample.
    earliest, compressed, at_end: as of ``PartitionStep``.
    """

    CLOCK = ReadModifyWriteStateSpec("clock", BytesCoder())
    ROSTER = BagStateSpec("roster", BytesCoder())
    DUE = TimerSpec("kanonflow_window_due", TimeDomain.WATERMARK)

    is_materialize_values_do_fn = True
    """Beam's switch among local runners hands no pipeline to Prism that holds a step which says so, for reasons of
    Beam's own; ours is that Prism has open faults with timers, by which windows are released (``local_runners``)."""

    _step: PartitionStep
    _look: FirstLook | None = None

    def __init__(
        self,
        bound: BoundPolicy,
        secret: SecretSource,
        threads: int | None,
        matching_records: bool = False,
        published: EarlierReleases | None = None,
        clock: Clock = time.monotonic,
        epoch: int = 0,
        continued: EarlierCohorts | None = None,
        chain: Chain | None = None,
        most_state: int = most_state_bytes(""),
        job_start: int | None = None,
        first: FirstWindows | None = None,
        earliest: bool = False,
        compressed: bool = True,
        at_end: bool = False,
    ) -> None:
        self._bound = bound
        self._earliest, self._compressed, self._at_end = earliest, compressed, at_end
        self._first = first
        self._source = secret
        self._threads = threads
        self._matching_records = matching_records
        self._published = published
        self._clock = clock
        self._epoch = epoch
        self._continued = continued
        self._chain = chain
        self._sizes = StateSizes(most_state)
        self._job_start = job_start
        self._met: set[bytes] = set()
        self._rosters = _Rosters()
        self._late = Metrics.counter(NAMESPACE, "rows_late")
        self._carried_in = Metrics.counter(NAMESPACE, "rows_carried_in")
        self._carried_out = Metrics.counter(NAMESPACE, "rows_carried_out")
        self._gauges = WindowGauges()
        self._nothing = ReleasedNothing()
        self._wanted = WantedLeft(bound.policy)

    def setup(self) -> None:
        """Get the secret, and load the kernels of the policy's shape before the first window waits for them.

        What no cache holds is compiled first, on all cores: by one worker of a machine, for which the others wait.
        """
        self._step = self.partition_step()
        if self._first is not None:
            self._look = self._first.look()
        with _LOADING:
            _load_kernels(
                needed_kernels(self._bound), () if self._first is None else sample_kernels(self._bound)
            )

    def finish_bundle(self) -> None:
        """Say it where nothing goes out."""
        self._nothing.say()

    def partition_step(self) -> PartitionStep:
        """The step of every partition, on the worker that calls this: with its secret and its cores."""
        return PartitionStep(
            self._bound,
            self._source.resolve(),
            self._threads or os.cpu_count() or 1,
            self._clock,
            self._matching_records,
            self._published,
            self._epoch,
            self._continued,
            self._chain,
            compressed=self._compressed,
            earliest=self._earliest,
            at_end=self._at_end,
        )

    def start_bundle(self) -> None:
        """Make room: the feed has been read, and what comes now is copied some times."""
        if self._at_end:
            return_freed_memory()

    @with_cells(bags=Bags, warm=WarmCells)
    def process(
        self,
        element: tuple[bytes, tuple[int, bytes, bytes]],
        clock_state: Any = beam.DoFn.StateParam(CLOCK),
        segments: Any = beam.DoFn.StateParam(ROSTER),
        due: Any = beam.DoFn.TimerParam(DUE),
        *,
        bags: Bags,
        warm: WarmCells,
    ) -> Iterator[Any]:
        """File a batch under its window, or send it to the rejected rows when it is too late for any release."""
        key, (number, ipc, places) = element
        there = clock_state.read()
        before = PartitionClock.from_bytes(there) if there else self._begin(key, warm, segments, bags)
        if places == EXPECTED:
            after = self._step.expect(key, before, warm.read(), ipc)
            self._sizes.check(key, after, warm.writes(after))
            warm.write(after)
            self._follow(due, clock_state, before, before, new=not there)
            return
        if not ipc:
            self._follow(due, clock_state, before, self._step.wake(before), new=not there)
            return
        arrival = self._step.arrive(before, number)
        self._follow(due, clock_state, before, arrival.clock, new=not there)
        if arrival.bag is None:
            rows = from_ipc(ipc)
            self._late.inc(rows.num_rows)
            refused = self._step.refuse(key, before, rows, places_from_bytes(places))
            yield beam.pvalue.TaggedOutput(REJECTED_TAG, self._told(key, refused))
        else:
            bags.add(arrival.bag, arrival.late, ipc)

    def _begin(self, key: bytes, warm: WarmCells, segments: Any, bags: Bags) -> PartitionClock:
        """Lay down what an earlier run has carried over of a partition; the clock that it goes on with."""
        begun = self._step.begin(key)
        if begun is None:
            return PartitionClock()
        self._sizes.check(key, begun.warm, warm.writes(begun.warm))
        warm.write(begun.warm)
        for segment in begun.segments:
            segments.add(segment)
        for batch in begun.batches:
            bags.add(batch.number, batch.late, batch.ipc)
        self._rosters.keep(key, begun.roster)
        self._carried_in.inc(begun.rows)
        return begun.clock

    def _follow(
        self, due: Any, clock_state: Any, before: PartitionClock, after: PartitionClock, *, new: bool
    ) -> None:
        """Write a clock that has changed, and arm the timer. new: nothing was written of the partition before."""
        if after != before or new:
            clock_state.write(after.to_bytes())
            self._arm(due, after, None if new else before)

    @on_timer(DUE)
    @with_cells(bags=Bags, warm=WarmCells)
    def fire(
        self,
        key: bytes = beam.DoFn.KeyParam,  # type: ignore[assignment]
        clock_state: Any = beam.DoFn.StateParam(CLOCK),
        segments: Any = beam.DoFn.StateParam(ROSTER),
        due: Any = beam.DoFn.TimerParam(DUE),
        *,
        bags: Bags,
        warm: WarmCells,
    ) -> Iterator[Any]:
        """Do all that is due by the time that the timer was set to, and arm it for what comes next."""
        clock = PartitionClock.from_bytes(clock_state.read())
        fired = self._step.fires_at(clock)
        if fired is None:
            return
        self._meet(key, clock)
        held = _HeldInCells(key, warm, segments, bags, self._rosters, self._look)
        while (at := self._step.fires_at(clock)) is not None and at <= fired:
            action = self._step.due(clock)
            assert action is not None
            for made in self._step.act(key, action, clock, held):
                if isinstance(made, WindowResult):
                    # Before it goes out: a runner that writes at once would publish what it cannot go on from.
                    size = self._sizes.check(key, made.warm, warm.writes(made.warm))
                    weighed = made._replace(metrics={**made.metrics, "state_bytes": size})
                    yield from self._emit(key, weighed, action)
                elif isinstance(made, CarriedState):
                    self._carried_out.inc(made.rows)
                    yield beam.pvalue.TaggedOutput(CARRIED_TAG, made)
                else:
                    held.follow(made)
                    clock = made.clock
        clock_state.write(clock.to_bytes())
        self._arm(due, clock, None)

    def _meet(self, key: bytes, clock: PartitionClock) -> None:
        """Look once at what a partition has published, before anything of it is solved. Raises OlderStateError."""
        if self._published is not None and key not in self._met:
            self._published.refuse_older(key, clock.last_end)
            self._met.add(key)

    def _told(self, key: bytes, rejected: RejectedRows) -> RejectedRows:
        """With the line of states that rejected them: what of it turns out wrong is settled by that."""
        if self._job_start is None:
            return rejected
        states = states_name(key.hex(), self._job_start)
        return rejected._replace(records=tuple({**record, "states": states} for record in rejected.records))

    def _emit(self, key: bytes, result: WindowResult, action: Action) -> Iterator[Any]:
        """Outputs inside the window that closed, so that windowing them again finds it."""
        rows = result.metrics["rows_released"]
        DONE_HERE.add(windows=int(rows > 0), rows_solved=rows)
        self._nothing.closed(rows, result.rejected)
        self._gauges.finished(result.metrics, self._step.window_end(action))
        if self._job_start is not None:
            self._wanted.finished(key, result.metrics)
        stamp = Timestamp(micros=(action.at - 1) * 1000)
        metrics = {**result.metrics, "job_start": self._job_start or 0}
        outputs: list[Any] = []
        if result.release is not None:
            told = result.release._replace(metrics=metrics, matching_record=result.matching_record)
            outputs.append(told)
        outputs.append(beam.pvalue.TaggedOutput(METRICS_TAG, metrics))
        if result.rejected:
            rejected = self._told(key, RejectedRows(metrics["release_id"], tuple(result.rejected)))
            outputs.append(beam.pvalue.TaggedOutput(REJECTED_TAG, rejected))
        for output in outputs:
            if isinstance(output, beam.pvalue.TaggedOutput):
                yield beam.pvalue.TaggedOutput(output.tag, beam.window.TimestampedValue(output.value, stamp))
            else:
                yield beam.window.TimestampedValue(output, stamp)

    def _arm(self, due: Any, clock: PartitionClock, before: PartitionClock | None) -> None:
        at = self._step.fires_at(clock)
        if before is not None and at == self._step.fires_at(before):
            return
        if at is None:
            due.clear()
        else:
            due.set(Timestamp(micros=at * 1000))
