"""The payload of a feed's first windows is measured before they are released, where nobody has measured a sample.

A worker looks at the rows that its step takes for a window, of whatever partition: at the first, and again whenever it
has twice as many. It has a verdict when a field is above its limit, when all can be judged, or after ``MOST_WINDOWS``
windows or ``MOST_ROWS`` rows. The first look and the verdict go to the log, as names of fields and shares; then no row
is held any more. Rows are held in the memory of the worker, and in no state: one that begins anew looks anew.

Nothing is refused: a stream that stopped would hold back rows that other feeds wait for, and go on stopping.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import pyarrow as pa

from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.transforms.risks.payload_risks import MOST_ROWS, PayloadRisks, payload_risks

MOST_WINDOWS = 8
_LOGGER = logging.getLogger(__name__)
_LOCK = threading.Lock()
_LOOKS: WeakValueDictionary[str, FirstLook] = WeakValueDictionary()
"""Of jobs, as long as a copy of their step is there."""


@dataclass(frozen=True)
class FirstWindows:
    """What is pickled with a step. on_measured: called by a worker with each verdict. job: no other pipeline's."""

    bound: BoundPolicy
    on_measured: Callable[[PayloadRisks], None] | None = None
    job: str = field(default_factory=lambda: uuid.uuid4().hex)

    def look(self) -> FirstLook:
        """The one of this process: copies of a step share it."""
        with _LOCK:
            look = _LOOKS.get(self.job)
            if look is None:
                look = _LOOKS[self.job] = FirstLook(self.bound, self.on_measured)
            return look


class FirstLook:
    """Rows that were taken, until there is a verdict. Any thread."""

    def __init__(self, bound: BoundPolicy, on_measured: Callable[[PayloadRisks], None] | None = None) -> None:
        self._bound = bound
        self._on_measured = on_measured
        self._lock = threading.Lock()
        self._rows: dict[tuple[bytes, int], pa.Table] = {}
        self._measured = 0
        self._is_busy = self._is_over = False

    @property
    def holds(self) -> int:
        """Rows."""
        return sum(rows.num_rows for rows in self._rows.values())

    def took(self, key: bytes, window: int, rows: pa.Table) -> int | None:
        """Look at the rows of a partition that are due, if there is no verdict yet. A retry brings them again.

        How many figures are above their limits, if that was said now.
        """
        with self._lock:
            windows = {number for _, number in self._rows} | {window}
            last = len(windows) > MOST_WINDOWS
            if self._is_over:
                return None
            if not last:
                room = MOST_ROWS - self.holds
                self._rows[key, window] = _readable(rows, self._bound).slice(0, room)
                last = self.holds == MOST_ROWS
            if self._is_busy or not (last or self.holds >= max(1, 2 * self._measured)):
                return None
            table, first = pa.concat_tables(self._rows.values()).combine_chunks(), not self._measured
            self._measured, self._is_busy = table.num_rows, True
        # Other partitions need not wait for it.
        over, high = self._look(table, first=first, last=last)
        with self._lock:
            self._is_busy, self._is_over = False, over
            if over:
                self._rows.clear()
        return high

    def _look(self, rows: pa.Table, *, first: bool, last: bool) -> tuple[bool, int | None]:
        """Measure, and say it; whether that is the verdict, and what ``took`` gives."""
        try:
            risks = payload_risks(rows, self._bound)
        except Exception as error:  # a release does not wait for what is said of it
            _LOGGER.error("the payload of the first windows could not be measured (%s)", type(error).__name__)
            return True, None
        refusal = risks.refusal(self._bound.policy.name)
        over = last or refusal is not None or risks.settled
        if not (first or over):
            return over, None
        level = logging.INFO if refusal is None and risks.settled else logging.WARNING
        _LOGGER.log(level, first_words(risks, self._bound.policy.name))
        if self._on_measured is not None:
            self._on_measured(risks)
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
