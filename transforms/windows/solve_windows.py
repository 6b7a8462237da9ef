"""The stateful step: rows of a partition in, releases, metrics and rejected rows out, one window warming the next.

Protocol. The step runs keyed by partition in the *global* window and does the windowing itself, because state is
scoped to key and window and a warm start must outlive both.

State cells (a key's own):
    clock     ReadModifyWrite, bytes   PartitionClock: last release, pending windows, deadlines, the armed time
    warm      ReadModifyWrite, bytes   WarmState: waiting rows, cohorts, domains (versioned, never a pickle)
    bag_00..  16 bags, bytes           batches as they came (header + Arrow IPC); a window's bag is its number mod 16
Timer:
    due       ONE event-time timer, at ``PartitionClock.fires_at``; set only when that time changes, cleared when the
              partition holds nothing (a drain would otherwise never end).

Between two calls: every row that came is in exactly one bag, in ``warm.waiting``, or has left by one of the outputs;
bag n mod 16 holds batches of window n only if n is in ``clock.pending`` or ``clock.late``; the timer is armed at
``clock.fires_at``. ``process`` writes to a bag and never reads one. A firing does one action per due time and re-arms.

A retry sees the state as it was, so it repeats the same releases under the same slots: release numbers are state, and
a window that is released in parts (``release_parts``) is cut the same way again, a number for each part. The secret's
version is state, too: a window is finished under the one that was in force when its first row came, whatever the job
was given since; waiting rows leave with, and under the version of, the window that takes them.

What was released is state as well (``PartitionClock.claims``): each release names those that it was built on, so that
whoever writes it can tell whether it goes on from what is published (``release_lineage``, ``earlier_releases``).
"""

from __future__ import annotations

import os
import struct
import time
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
from kanonflow.solvers.warm_up import warm_up
from kanonflow.transforms.lineage.earlier_releases import EarlierReleases
from kanonflow.transforms.lineage.release_lineage import Claim, reach_ms, within_reach
from kanonflow.transforms.release.rejected import at_places, rejected_records
from kanonflow.transforms.release.release_window import Clock, WindowResult, earliest_deadline, expire
from kanonflow.transforms.release.warm_state import WarmState, warm_state_from_bytes
from kanonflow.transforms.release.window_structures import solver_shape
from kanonflow.transforms.rows.elements import RejectedRows, from_ipc
from kanonflow.transforms.rows.row_places import RowPlaces, places_from_bytes
from kanonflow.transforms.rows.split import END_OF_TIME_MS
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret, SecretSource, release_id
from kanonflow.transforms.windows.gauges import NAMESPACE, WindowGauges
from kanonflow.transforms.windows.partition_clock import Action, PartitionClock, window_number
from kanonflow.transforms.windows.release_parts import release_parts

METRICS_TAG = "metrics"
REJECTED_TAG = "rejected"
CERTIFICATES_TAG = "certificates"
BAGS = 16
_HEADER = struct.Struct("<q?")


def batch_header(number: int, late: bool) -> bytes:
    """What stands before a batch's Arrow IPC bytes in a bag: the bag's window number, and whether the rows are late."""
    return _HEADER.pack(number, late)


def read_header(data: bytes) -> tuple[int, bool]:
    """The window number and the late mark of a batch in a bag."""
    number, late = _HEADER.unpack_from(data)
    return int(number), bool(late)


def _table(batches: list[bytes]) -> pa.Table | None:
    tables = [from_ipc(batch[_HEADER.size :]) for batch in batches]
    return pa.concat_tables(tables).combine_chunks() if tables else None


class SolveWindows(beam.DoFn):
    """(partition key, (window number, Arrow IPC bytes, places)) -> Release; tagged: metrics dict, RejectedRows,
    Certificate."""

    CLOCK = ReadModifyWriteStateSpec("clock", BytesCoder())
    WARM = ReadModifyWriteStateSpec("warm", BytesCoder())
    DUE = TimerSpec("kanonflow_window_due", TimeDomain.WATERMARK)
    BAG_00 = BagStateSpec("bag_00", BytesCoder())
    BAG_01 = BagStateSpec("bag_01", BytesCoder())
    BAG_02 = BagStateSpec("bag_02", BytesCoder())
    BAG_03 = BagStateSpec("bag_03", BytesCoder())
    BAG_04 = BagStateSpec("bag_04", BytesCoder())
    BAG_05 = BagStateSpec("bag_05", BytesCoder())
    BAG_06 = BagStateSpec("bag_06", BytesCoder())
    BAG_07 = BagStateSpec("bag_07", BytesCoder())
    BAG_08 = BagStateSpec("bag_08", BytesCoder())
    BAG_09 = BagStateSpec("bag_09", BytesCoder())
    BAG_10 = BagStateSpec("bag_10", BytesCoder())
    BAG_11 = BagStateSpec("bag_11", BytesCoder())
    BAG_12 = BagStateSpec("bag_12", BytesCoder())
    BAG_13 = BagStateSpec("bag_13", BytesCoder())
    BAG_14 = BagStateSpec("bag_14", BytesCoder())
    BAG_15 = BagStateSpec("bag_15", BytesCoder())

    _secret: Secret

    def __init__(
        self,
        bound: BoundPolicy,
        secret: SecretSource,
        threads: int | None,
        certificates: bool = False,
        published: EarlierReleases | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._bound = bound
        self._source = secret
        self._threads = threads
        self._certificates = certificates
        self._published = published
        self._clock = clock
        self._reach = reach_ms(bound.policy)
        self._met: set[bytes] = set()
        self._late = Metrics.counter(NAMESPACE, "rows_late")
        self._gauges = WindowGauges()

    def setup(self) -> None:
        """Get the secret, and load the kernels of the policy's shape before the first window waits for them."""
        self._secret = self._source.resolve()
        policy = self._bound.policy
        hierarchies = any(column.hierarchy is not None for column in self._bound.quasis)
        loss = policy.solver.loss
        warm_up(solver_shape(policy), gated=bool(policy.gated), hierarchies=hierarchies, loss=loss)

    def process(
        self,
        element: tuple[bytes, tuple[int, bytes, bytes]],
        clock_state: Any = beam.DoFn.StateParam(CLOCK),
        due: Any = beam.DoFn.TimerParam(DUE),
        b00: Any = beam.DoFn.StateParam(BAG_00),
        b01: Any = beam.DoFn.StateParam(BAG_01),
        b02: Any = beam.DoFn.StateParam(BAG_02),
        b03: Any = beam.DoFn.StateParam(BAG_03),
        b04: Any = beam.DoFn.StateParam(BAG_04),
        b05: Any = beam.DoFn.StateParam(BAG_05),
        b06: Any = beam.DoFn.StateParam(BAG_06),
        b07: Any = beam.DoFn.StateParam(BAG_07),
        b08: Any = beam.DoFn.StateParam(BAG_08),
        b09: Any = beam.DoFn.StateParam(BAG_09),
        b10: Any = beam.DoFn.StateParam(BAG_10),
        b11: Any = beam.DoFn.StateParam(BAG_11),
        b12: Any = beam.DoFn.StateParam(BAG_12),
        b13: Any = beam.DoFn.StateParam(BAG_13),
        b14: Any = beam.DoFn.StateParam(BAG_14),
        b15: Any = beam.DoFn.StateParam(BAG_15),
    ) -> Iterator[Any]:
        """File a batch under its window, or send it to the rejected rows when it is too late for any release."""
        bags = (b00, b01, b02, b03, b04, b05, b06, b07, b08, b09, b10, b11, b12, b13, b14, b15)
        key, (number, ipc, places) = element
        before = PartitionClock.from_bytes(clock_state.read())
        arrival = before.arrive(number, self._bound.policy, self._secret.version)
        if arrival.clock != before:
            clock_state.write(arrival.clock.to_bytes())
            self._arm(due, arrival.clock, before)
        if arrival.bag is None:
            yield self._refuse(key, before, from_ipc(ipc), places_from_bytes(places))
        else:
            bags[arrival.bag % BAGS].add(batch_header(arrival.bag, arrival.late) + ipc)

    @on_timer(DUE)
    def fire(
        self,
        key: bytes = beam.DoFn.KeyParam,  # type: ignore[assignment]
        clock_state: Any = beam.DoFn.StateParam(CLOCK),
        warm_state: Any = beam.DoFn.StateParam(WARM),
        due: Any = beam.DoFn.TimerParam(DUE),
        b00: Any = beam.DoFn.StateParam(BAG_00),
        b01: Any = beam.DoFn.StateParam(BAG_01),
        b02: Any = beam.DoFn.StateParam(BAG_02),
        b03: Any = beam.DoFn.StateParam(BAG_03),
        b04: Any = beam.DoFn.StateParam(BAG_04),
        b05: Any = beam.DoFn.StateParam(BAG_05),
        b06: Any = beam.DoFn.StateParam(BAG_06),
        b07: Any = beam.DoFn.StateParam(BAG_07),
        b08: Any = beam.DoFn.StateParam(BAG_08),
        b09: Any = beam.DoFn.StateParam(BAG_09),
        b10: Any = beam.DoFn.StateParam(BAG_10),
        b11: Any = beam.DoFn.StateParam(BAG_11),
        b12: Any = beam.DoFn.StateParam(BAG_12),
        b13: Any = beam.DoFn.StateParam(BAG_13),
        b14: Any = beam.DoFn.StateParam(BAG_14),
        b15: Any = beam.DoFn.StateParam(BAG_15),
    ) -> Iterator[Any]:
        """Do what is due, once, and arm the timer for what comes next."""
        bags = (b00, b01, b02, b03, b04, b05, b06, b07, b08, b09, b10, b11, b12, b13, b14, b15)
        clock = PartitionClock.from_bytes(clock_state.read())
        action = clock.next_action(self._bound.policy)
        if action is None:
            return
        self._meet(key, clock)
        if action.kind == "forget":
            warm_state.clear()
            after = clock.forgotten()
        else:
            warm, parts, claims = warm_state_from_bytes(warm_state.read()), 0, clock.claims
            for result in self._act(action, clock, key, warm, bags):
                if action.kind == "release":
                    result, claims = self._built_on(result, claims, key, action, parts)
                warm, parts = result.warm, parts + 1
                yield from self._emit(result, action)
            if action.kind == "release" and self._published is not None:
                self._published.compare_end(key, self._end(action), parts)
            warm_state.write(warm.to_bytes())
            after = self._after(action, clock, warm, parts, claims)
        clock_state.write(after.to_bytes())
        self._arm(due, after, None)

    def _meet(self, key: bytes, clock: PartitionClock) -> None:
        """Look once at what a partition has published, before anything of it is solved. Raises OlderStateError."""
        if self._published is not None and key not in self._met:
            self._published.refuse_older(key, clock.last_end)
            self._met.add(key)

    def _end(self, action: Action) -> int | None:
        return None if self._bound.policy.window_ms is None else action.at

    def _built_on(
        self, result: WindowResult, claims: tuple[Claim, ...], key: bytes, action: Action, part: int
    ) -> tuple[WindowResult, tuple[Claim, ...]]:
        """The result with what its release was built on, and the claims of later ones. Raises ReleaseConflictError."""
        end, release = self._end(action), result.release
        claims = within_reach(claims, end, self._reach)
        made = None if release is None or release.slot is None else release.slot._replace(built_on=claims)
        if self._published is not None:
            self._published.compare(key, end, part, made)
        if release is None or made is None:
            return result, claims
        return result._replace(release=release._replace(slot=made)), (*claims, made.claim)

    def _refuse(self, key: bytes, clock: PartitionClock, rows: pa.Table, places: RowPlaces | None) -> Any:
        """A batch that no release may take any more, as rejected rows."""
        self._late.inc(rows.num_rows)
        # Named by a place that no release has, so that a retry finds its file and equal batches stay two.
        place = ReleaseSlot(key, clock.last_end, -1 - clock.refused)
        name = release_id(self._secret, self._bound.policy.name, place)
        records = rejected_records(rows, self._bound, "late")
        if places is not None:
            records = list(at_places(records, places))
        return beam.pvalue.TaggedOutput(REJECTED_TAG, RejectedRows(name, tuple(records)))

    def _act(
        self, action: Action, clock: PartitionClock, key: bytes, warm: WarmState, bags: tuple[Any, ...]
    ) -> Iterator[WindowResult]:
        """The results of an expiry, or of each part of a window."""
        policy = self._bound.policy
        end = self._end(action)
        if action.kind == "expire":
            slot = ReleaseSlot(key, end, clock.release_no, "expiry")
            late = _table(self._take(bags, clock.late, late_only=True))
            # Of the state: the order of the rejected rows must be that of a retry, also after a rotation.
            yield expire(self._bound, warm, late, self._secret.of(clock.secret_version), slot)
            return
        number = window_number(action.at, policy)
        due = tuple(bag for bag in sorted({*clock.pending, *clock.late}) if bag <= number)
        rows = _table(self._take(bags, due, late_only=False))
        threads = self._threads or os.cpu_count() or 1
        version, published = clock.version_of(number), self._published
        if published is not None:
            version = published.secret_version(key, end, version)
        secret, slot = self._secret.of(version), ReleaseSlot(key, end, 0)
        yield from release_parts(
            rows,
            self._bound,
            warm,
            secret,
            slot,
            threads=threads,
            clock=self._clock,
            certificates=self._certificates,
            recorded=None if published is None else published.solution,
        )

    def _after(
        self, action: Action, clock: PartitionClock, warm: WarmState, parts: int, claims: tuple[Claim, ...]
    ) -> PartitionClock:
        deadline = earliest_deadline(warm, self._bound)
        if action.kind == "expire":
            return clock.expired(deadline)
        return clock.released(deadline, True, self._bound.policy, parts, claims)

    @staticmethod
    def _take(bags: tuple[Any, ...], numbers: tuple[int, ...], *, late_only: bool) -> list[bytes]:
        """Remove the batches of these windows from their bags; other windows' batches go back."""
        taken = []
        for index in sorted({number % BAGS for number in numbers}):
            batches = list(bags[index].read())
            bags[index].clear()
            for batch in batches:
                number, late = read_header(batch)
                if number in numbers and (late or not late_only):
                    taken.append(batch)
                else:
                    bags[index].add(batch)
        return taken

    def _emit(self, result: WindowResult, action: Action) -> Iterator[Any]:
        """Outputs inside the window that closed, so that windowing them again finds it."""
        self._gauges.finished(result.metrics, self._end(action))
        ends_at = action.at if self._bound.policy.window_ms is not None else END_OF_TIME_MS
        stamp = Timestamp(micros=(ends_at - 1) * 1000)
        name = result.metrics["release_id"]
        outputs: list[Any] = (
            [] if result.release is None else [result.release._replace(metrics=result.metrics)]
        )
        outputs.append(beam.pvalue.TaggedOutput(METRICS_TAG, result.metrics))
        if result.rejected:
            outputs.append(beam.pvalue.TaggedOutput(REJECTED_TAG, RejectedRows(name, tuple(result.rejected))))
        if result.certificate is not None:
            outputs.append(beam.pvalue.TaggedOutput(CERTIFICATES_TAG, result.certificate))
        for output in outputs:
            if isinstance(output, beam.pvalue.TaggedOutput):
                yield beam.pvalue.TaggedOutput(output.tag, beam.window.TimestampedValue(output.value, stamp))
            else:
                yield beam.window.TimestampedValue(output, stamp)

    def _arm(self, due: Any, clock: PartitionClock, before: PartitionClock | None) -> None:
        policy = self._bound.policy
        at = clock.fires_at(policy)
        if before is not None and at == before.fires_at(policy):
            return
        if at is None:
            due.clear()
        else:
            due.set(Timestamp(micros=at * 1000))
