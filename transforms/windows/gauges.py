"""What the stateful step tells the runner about itself while it runs: Beam metrics, seen in Flink and Dataflow.

All are in the namespace ``kanonflow``; none has a partition, an id or a value as a label. What each means, and what
to do about it, is in docs/operations.md.

Everything worth a rate or a mean is a *counter*, because Flink's Prometheus reporter leaves Beam's distributions out
and because a gauge tells only of the window that a worker finished last, in whichever partition. Counters add up over
partitions and workers. The distributions repeat some of it with minimum and maximum, for REST API and Dataflow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from apache_beam.metrics import Metrics

from kanonflow.transforms.release.metrics import NAMESPACE

MILLIONTHS = 1_000_000


class WindowGauges:
    """The metrics of the windows that one step finishes.

    now: wall clock, seconds since 1970. Pickled with the step.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now

    def finished(self, record: Mapping[str, Any], window_end: int | None) -> None:
        """A window was released, found to have too few rows, or its waiting rows ran out of time.

        record: as ``release/metrics`` made it. window_end: ms of event time that was due; None without windows.
        """
        rejected: Mapping[str, int] = record["rows_rejected"]
        _count("windows")
        _count("window_rows_new", record["rows_new"])
        _count("window_rows_released", record["rows_released"])
        _count("window_rows_rejected", sum(rejected.values()))
        for reason, rows in rejected.items():
            _count(f"window_rows_rejected_{reason}", rows)
        # Waiting rows = held - taken up, since the feed began; a gauge could not add them up over partitions.
        _count("window_rows_taken_up", record["rows_waited"])
        _count("window_rows_held", record["rows_waiting"])
        Metrics.gauge(NAMESPACE, "window_rows_waiting").set(record["rows_waiting"])
        if window_end is not None:
            self._lag(record, window_end)
        if record["released"]:
            _released(record)

    def _lag(self, record: Mapping[str, Any], window_end: int) -> None:
        """How far behind the wall clock the window came: when it fired, and when its release was ready."""
        latency = int(self._now() * 1000) - window_end
        spent = round(record["solve_ms"] + record["publish_ms"])
        Metrics.gauge(NAMESPACE, "window_lag_ms").set(latency - spent)
        if record["released"]:
            _measure("window_latency_ms", latency)


def _released(record: Mapping[str, Any]) -> None:
    loss = round(record["gcp"] * MILLIONTHS)
    _count("windows_released")
    _measure("window_loss_millionths", loss)
    _measure("window_solve_ms", round(record["solve_ms"]))
    _measure("window_publish_ms", round(record["publish_ms"]))
    _measure("window_individuals", record["individuals"])
    if entered := record.get("people_entered"):
        _count("window_people_entered", entered)
    # Weighted by rows, as the summary of a bounded run weighs the loss of its windows.
    _count("window_lost_row_millionths", loss * record["rows_released"])
    _count("windows_cut_by_deadline", int(record["deadline_struck"]))


def _count(name: str, value: int = 1) -> None:
    Metrics.counter(NAMESPACE, name).inc(value)


def _measure(name: str, value: int) -> None:
    """A distribution, and the counter of its sum."""
    Metrics.distribution(NAMESPACE, name).update(value)
    _count(f"{name}_sum", value)
