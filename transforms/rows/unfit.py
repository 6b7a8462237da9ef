"""Rows that are rejected because of what the input holds: counted by reason and field, and judged while they come."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from kanonflow.schemas.bound_policy import FAULT_COLUMN
from kanonflow.schemas.printable import printable
from kanonflow.transforms.rows.quasi_faults import QuasiFault

UNFIT = ("bad_value", "missing_value", "unparseable", "outside_domain")
"""Reasons that lie in the input; all others lie in who else is there, or when."""

JUDGED_ROWS = 10_000
"""Of a stream, how many rows that came last are judged together."""

LEAST_ROWS = 1_000
"""Fewer rows are not judged: one bad file of a few rows would be the whole share."""

_FIRST = 3
"""Fields that a line for a log names."""

_PREFIX = "rows_unfit_"


def count_unfit(records: Iterable[Mapping[str, Any]]) -> Counter[tuple[str, str | None]]:
    """How many of the records of rejected.avsc are unfit, by reason and field at fault (None: no single one). O(n)."""
    return Counter((record["reason"], record["field"]) for record in records if record["reason"] in UNFIT)


def count_faults(rows: pa.Table) -> Counter[tuple[str, str | None]]:
    """The same of canonical rows of lasting cohorts whose quasi-identifiers are at fault. O(faults)."""
    if FAULT_COLUMN not in rows.schema.names:
        return Counter()
    cells = rows.column(FAULT_COLUMN).drop_null().to_pylist()
    return Counter((fault.reason, fault.field) for fault in map(QuasiFault.of_cell, cells))


def unfit_counter(reason: str, field: str | None) -> str:
    """The name of the counter of such rows."""
    return f"{_PREFIX}{reason}" if field is None else f"{_PREFIX}{reason}_{field}"


def unfit_of_counters(counters: Mapping[str, int]) -> dict[tuple[str, str | None], int]:
    """The counts by reason and field, of a run's counters by name: the inverse of ``unfit_counter``."""
    unfit: dict[tuple[str, str | None], int] = {}
    for name, count in counters.items():
        name_left = name.removeprefix(_PREFIX)
        reason = next((each for each in UNFIT if name_left == each or name_left.startswith(f"{each}_")), None)
        if name.startswith(_PREFIX) and reason is not None and count:
            unfit[reason, name_left[len(reason) + 1 :] or None] = count
    return unfit


class LastRows:
    """Of the rows that came last, how many are unfit: whole batches, of at least ``JUDGED_ROWS`` rows once there were.

    State of one copy of a step, for its own worker; a restart begins anew.
    """

    def __init__(self) -> None:
        self._batches: deque[tuple[int, Counter[tuple[str, str | None]]]] = deque()
        self.rows = 0
        self.unfit: Counter[tuple[str, str | None]] = Counter()

    def add(self, rows: int, unfit: Counter[tuple[str, str | None]]) -> None:
        """Take in a batch. rows: all of it, unfit ones included. O(fields) a batch."""
        self._batches.append((rows, unfit))
        self.rows += rows
        self.unfit += unfit
        while self.rows - self._batches[0][0] >= JUDGED_ROWS:
            oldest, its = self._batches.popleft()
            self.rows -= oldest
            self.unfit -= its

    def words(self) -> str:
        """A line for a log: how many, of which fields and why. No value of a row."""
        worst = ", ".join(
            f"{printable(field or 'the row')} {reason} {count:,}"
            for (reason, field), count in self.unfit.most_common(_FIRST)
        )
        more = len(self.unfit) - _FIRST
        return (
            f"{self.unfit.total():,} of the last {self.rows:,} rows do not fit the policy and are rejected: {worst}"
            f"{f', and {more} more' if more > 0 else ''}. The rejected rows say what was expected"
        )

    @property
    def share(self) -> float:
        """Share of unfit rows; 0 of fewer than ``LEAST_ROWS`` rows."""
        return self.unfit.total() / self.rows if self.rows >= LEAST_ROWS else 0.0
