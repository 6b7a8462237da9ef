"""The payload of a feed's first windows is measured before they are released, where nobody has measured a sample.

A worker looks at the rows that its step takes for a window, of whatever partition: at the first, and again whenever it
has twice as many. It has a verdict when a field is above its limit, when all can be judged, or after ``MOST_WINDOWS``
windows or ``MOST_ROWS`` rows. The first look and the verdict go to the log, as names of fields and shares; then no row
is held any more. Rows are held in the memory of the worker as long as it has a copy of the step, and in no state: a
worker that begins anew looks anew.

Nothing is refused: a stream that stopped would hold back rows that other feeds wait for, and go on stopping.
"""

from __future__ import annotations

import logging
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.transforms.risks.payload_risks import MOST_ROWS, PayloadRisks, payload_risks

MOST_WINDOWS = 8
_MOST_JOBS = 64
_LOGGER = logging.getLogger(__name__)


class _Rows(dict[tuple[bytes, int], pa.Table]):
    """By partition and window. Copies of a step hold it: with the last of them it goes."""

    @property
    def number(self) -> int:
        return sum(rows.num_rows for rows in self.values())


@dataclass
class _Job:
    """What a process remembers of a job whose copies of the step may come and go. measured: rows at the last look."""

    rows: weakref.ref[_Rows]
    lock: threading.Lock = field(default_factory=threading.Lock)
    windows: set[int] = field(default_factory=set)
    measured: int = 0
    is_busy: bool = False
    is_over: bool = False


_JOBS: OrderedDict[str, _Job] = OrderedDict()
_LOCK = threading.Lock()


@dataclass(frozen=True)
class FirstWindows:
    """What is pickled with a step. on_measured: called by a worker with what it says. job: no other pipeline's."""

    bound: BoundPolicy
    on_measured: Callable[[PayloadRisks], None] | None = None
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

    def look(self) -> FirstLook:
        """That of a copy of the step: all of a process share rows and verdict."""
        with _LOCK:
            job = _JOBS.get(self.job)
            rows = None if job is None else job.rows()
            if rows is None:
                rows = _Rows()
            if job is None:
                job = _JOBS[self.job] = _Job(weakref.ref(rows))
                if len(_JOBS) > _MOST_JOBS:
                    _JOBS.popitem(last=False)
            job.rows = weakref.ref(rows)
            return FirstLook(self.bound, self.on_measured, job, rows)


class FirstLook:
    """Rows that were taken, until there is a verdict. Any thread."""

    def __init__(
        self, bound: BoundPolicy, on_measured: Callable[[PayloadRisks], None] | None, job: _Job, rows: _Rows
    ) -> None:
        self._bound = bound
        self._on_measured = on_measured
        self._job = job
        self._rows = rows

    @property
    def holds(self) -> int:
        """Rows."""
        return self._rows.number

    def took(self, key: bytes, window: int, rows: pa.Table) -> int | None:
        """Look at the rows of a partition that are due, if there is no verdict yet. A retry brings them again.

        How many figures are above their limits, if that was said now.
        """
        job = self._job
        with job.lock:
            if job.is_over:
                return None
            last = len(job.windows | {window}) > MOST_WINDOWS
            if not (last and self._rows):
                job.windows.add(window)
                self._rows.pop((key, window), None)
                self._rows[key, window] = _readable(rows, self._bound).slice(0, MOST_ROWS - self.holds)
                last = last or self.holds == MOST_ROWS
            if job.is_busy or not (last or self.holds >= max(1, 2 * job.measured)):
                return None
            table, first = pa.concat_tables(self._rows.values()).combine_chunks(), not job.measured
            job.measured, job.is_busy = table.num_rows, True
        # Other partitions need not wait for it.
        over, high = self._look(table, first=first, last=last)
        with job.lock:
            job.is_busy, job.is_over = False, over
            if over:
                self._rows.clear()
        return high

    def _look(self, rows: pa.Table, *, first: bool, last: bool) -> tuple[bool, int | None]:
        """Measure, and say it; whether that is the verdict, and what ``took`` gives."""
        try:
            risks = payload_risks(rows, self._bound)
            refusal = risks.refusal(self._bound.policy.name)
            over = last or refusal is not None or risks.settled
            if not (first or over):
                return over, None
            level = logging.INFO if refusal is None and risks.settled else logging.WARNING
            _LOGGER.log(level, first_words(risks, self._bound.policy.name))
            if self._on_measured is not None:
                self._on_measured(risks)
        except Exception as error:  # a release does not wait for what is said of it
            _LOGGER.error("the payload of the first windows could not be measured (%s)", type(error).__name__)
            return True, None
        return over, 0 if refusal is None else len(refusal.mistakes)


def first_words(risks: PayloadRisks, name: str) -> str:
    """What was measured of first windows, for people; no value of a row. name: of the policy."""
    refusal = risks.refusal(name)
    if refusal is None:
        return f"{risks.words()} of the first windows"
    return f"{refusal}\nmeasured on {risks.rows:,} rows of the first windows, which are released all the same"


def _readable(rows: pa.Table, bound: BoundPolicy) -> pa.Table:
    """Canonical rows whose quasi-identifiers can be read, as a sample of files has them."""
    rows = rows.select(bound.canonical_schema.names)
    return rows.filter(rows.column(FAULT_COLUMN).is_null()) if FAULT_COLUMN in rows.schema.names else rows
