"""Payload that says when: values that rise with event time, and dates within the row's own window.

Whose first window it was is what nobody may see: who entered with whom is known, and a bundle that says since when a
person is there is one of the few who fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.dry_run.feed import Feed
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.value_units import to_units
from kanonflow.transforms.risks.field_values import ranks_of
from kanonflow.transforms.risks.payload_measures import order_within

RISE_LIMIT = 0.5
"""Of rank correlation with time."""
OWN_WINDOW_LIMIT = 0.5
"""Of the rows whose date lies in their own window."""
LEAST_ROWS = 100
_DAY_MS = 86_400_000


class PayloadInTime(NamedTuple):
    """A payload field. value: what was measured. how: in words. limit: what it must not exceed. judged: whether there
    were rows enough."""

    field: str
    how: str
    value: float
    limit: float
    judged: bool

    @property
    def high(self) -> bool:
        """Whether it is above the limit."""
        return self.judged and self.value > self.limit


def payload_in_time(feed: Feed, bound: BoundPolicy) -> tuple[PayloadInTime, ...]:
    """The measures of every payload field that numbers or dates, or texts as numbered ids, could tell time by.

    Partition fields are left out: they say the same of all rows of a partition. O(n log n) a field.
    """
    time = bound.policy.time
    assert time is not None
    times = to_units(feed.rows.column(time.name))[0]
    found = []
    for column in bound.payload:
        if column.name in bound.policy.partition_by:
            continue
        array = feed.rows.column(column.name).combine_chunks()
        known = np.flatnonzero(np.asarray(array.is_valid()))
        array = array.take(pa.array(known))
        found += _rises(column, array, times[known], feed.member[known])
        found += _in_own_window(column, array, feed.window[known], bound)
    return tuple(found)


def _rises(
    column: BoundColumn, array: pa.Array, times: NDArray[np.int64], member: NDArray[np.int64]
) -> list[PayloadInTime]:
    values = ranks_of(array)
    if values is None:
        return []
    tried = [
        (order_within(values, times, np.zeros(times.size, dtype=np.int64)), "rises or falls with time"),
        (order_within(values, times, member), "rises or falls with time within each person"),
    ]
    judged = [each for each in tried if each[0].rows >= LEAST_ROWS]
    order, how = max(judged or tried, key=lambda each: abs(each[0].correlation))
    return [
        PayloadInTime(
            column.name, f"{how}, rank correlation", abs(order.correlation), RISE_LIMIT, bool(judged)
        )
    ]


def _in_own_window(
    column: BoundColumn, array: pa.Array, window: NDArray[np.int64], bound: BoundPolicy
) -> list[PayloadInTime]:
    """The share of a date's rows with a value in their own window; of other types nothing."""
    policy, per_day = bound.policy, form_of(array.type).per_day
    if per_day is None:
        return []
    assert policy.window_ms is not None
    size = max(1, _DAY_MS // per_day)
    units = to_units(array)[0] * size // max(1, per_day // _DAY_MS)
    begin = window * policy.window_ms + policy.window_offset_ms
    # A day lies in every window that it has a part in.
    inside = (units < begin + policy.window_ms) & (units + size > begin)
    share = float(inside.mean()) if inside.size else 0.0
    return [
        PayloadInTime(
            column.name,
            "is a date within the row's own window, share of rows",
            share,
            OWN_WINDOW_LIMIT,
            inside.size >= LEAST_ROWS,
        )
    ]
