"""Event times of a batch are those of the rows that classification takes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.event_times import AHEAD_MS, event_times, newest_credible
from tests.small_feeds import HOUR, START, bound_feed, feed_policy, row

WHEN = [
    "2024-03-01T01:00:00Z",
    "",
    None,
    "soon",
    "9999-12-31T23:59:00Z",
    "0001-01-01T00:00:00Z",
    "2024-03-01",
]


def test_rows_that_are_rejected_for_their_time_have_none() -> None:
    """No value, no time, or a window beyond the calendar: as classify decides."""
    bound = bound_feed(feed_policy())
    rows = pa.Table.from_pylist([row(n, n, 0) | {"when": when} for n, when in enumerate(WHEN)])
    kept = classify(rows, bound).rows.column("when").cast(pa.int64()).to_pylist()
    assert event_times(rows, bound).tolist() == kept
    assert kept[0] == START + HOUR
    assert len(kept) == 3


def test_a_policy_without_a_time_has_no_event_times() -> None:
    """Then all is one window."""
    rows = pa.Table.from_pylist([row(0, 0, 0)])
    assert event_times(rows, bound_feed(feed_policy(window=None))).size == 0


@pytest.mark.parametrize(
    ("times", "newest"),
    [
        ([], None),
        ([5, 9, 7], 9),
        ([5, 10 + AHEAD_MS], 10 + AHEAD_MS),
        ([5, 11 + AHEAD_MS], 5),
        ([2**62], None),
    ],
)
def test_what_is_too_far_ahead_does_not_count(times: list[int], newest: int | None) -> None:
    """A day after the clock is the limit."""
    assert newest_credible(np.array(times, np.int64), 10) == newest
