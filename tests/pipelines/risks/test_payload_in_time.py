"""Payload that tells when."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.risks.payload_in_time import payload_in_time
from tests.pipelines.risks.toy_feeds import BEGIN, toy

ROWS = 300
HOURS = [number * 100 // ROWS for number in range(ROWS)]


def measured(values: Any, people: int = 20) -> dict[str, tuple[float, bool]]:
    """Value and verdict of each measure of one payload column."""
    rng = np.random.default_rng(3)
    rows = [(f"p{rng.integers(people)}", hour, 30) for hour in HOURS]
    found = payload_in_time(*toy(rows, columns={"told": values}, payload=["told"]))
    return {each.how: (each.value, each.high) for each in found}


def test_a_counter_of_the_feed_rises_with_time() -> None:
    """Rank correlation 1, and as well when it falls."""
    for values in (np.arange(ROWS), -np.arange(ROWS)):
        ((value, high),) = measured(values).values()
        assert value == pytest.approx(1.0, abs=1e-3)
        assert high


def test_a_tenure_rises_within_each_person_only() -> None:
    """Hours since an own beginning long ago: over the feed nothing, within each person everything."""
    rng = np.random.default_rng(3)
    who = [int(rng.integers(20)) for _ in HOURS]
    values = np.array(HOURS) + np.random.default_rng(5).integers(0, 10_000, 20)[who]
    (how,) = measured(values)
    assert "within each person" in how
    assert measured(values)[how] == (pytest.approx(1.0), True)


def test_amounts_and_flags_say_nothing() -> None:
    """Below the limit; a yes or no is not measured."""
    rng = np.random.default_rng(9)
    assert not any(high for _, high in measured(rng.lognormal(3, 1, ROWS)).values())
    assert measured(rng.integers(0, 2, ROWS).astype(bool)) == {}


def test_a_date_in_its_own_window_is_found() -> None:
    """The minute itself, in micro- and milliseconds; a day that the window is a part of; not a due date next month."""
    when = [BEGIN + dt.timedelta(hours=hour, minutes=7) for hour in HOURS]
    for unit in ("ms", "us"):
        found = measured(pa.array(when, pa.timestamp(unit, "UTC")))
        assert found["is a date within the row's own window, share of rows"] == (1.0, True)
    days = measured(pa.array([each.date() for each in when], pa.date32()))
    assert days["is a date within the row's own window, share of rows"] == (1.0, True)
    later = measured(pa.array([each + dt.timedelta(days=30) for each in when], pa.timestamp("ms", "UTC")))
    assert later["is a date within the row's own window, share of rows"] == (0.0, False)


def test_few_rows_judge_nothing() -> None:
    """A counter on ten rows is measured and not refused."""
    rows = [("a", hour, 30) for hour in range(10)]
    (found,) = payload_in_time(*toy(rows, columns={"told": np.arange(10)}, payload=["told"]))
    assert found.value == pytest.approx(1.0)
    assert not found.high
