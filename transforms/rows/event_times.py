"""Event times of a batch, as classification reads them: what the progress of a feed is measured by."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.canonical_columns import read_column
from kanonflow.schemas.value_units import to_units
from kanonflow.transforms.rows.classify import ahead_of_arrival, beyond_the_calendar, one_array

AHEAD_MS = 86_400_000
"""How far ahead of the wall clock an event may be and still count as progress: one day."""


def event_times(
    batch: pa.RecordBatch | pa.Table,
    bound: BoundPolicy,
    *,
    source: str | None = None,
    arrived: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Event times int64 (m,) in ms since 1970 UTC, of those rows whose time classification takes, in their order.

    Empty when the policy has no time field. source: what an error calls the batch. arrived: as ``arrivals`` gives it.
    Raises InputError: the time column is missing, or has another type than the policy was bound to. O(n).
    """
    field = bound.policy.time
    if field is None:
        return np.empty(0, dtype=np.int64)
    column = bound.column(field.name)
    raw = one_array(batch.column(batch.schema.names.index(column.name)))
    times, bad = read_column(column, raw, source)
    if bound.policy.window_ms is not None:
        bad = bad | beyond_the_calendar(times, bound.policy) | ahead_of_arrival(times, arrived, bound.policy)
    milliseconds, missing = to_units(times)
    return milliseconds[~(bad | missing)].astype(np.int64)


def newest_credible(times: NDArray[np.int64], now_ms: int) -> int | None:
    """The newest of the event times that is not more than ``AHEAD_MS`` after ``now_ms``; None without one.

    Why those beyond do not count at all: one wrong clock would close the windows of everybody else, and a time cut
    to the limit would still close those of a whole day.
    """
    credible = times[times <= now_ms + AHEAD_MS]
    return int(credible.max()) if credible.size else None
