"""A feed over time, as metrics tell it: one step for each window end, of all partitions; many become few.

Works on exact and on public metrics alike: what a record does not tell is None, and adds nothing.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kanonflow.pipelines.terminal.summary import mean_of

MOST_STEPS = 200
"""More are put together, as many neighbours as it takes."""

Record = Mapping[str, Any]
Rows = Mapping[str, int]


@dataclass(frozen=True)
class Step:
    """One window, or several that follow each other. end: of the last; None without windows. windows: how many.

    loss, bound: means over the released rows that have one. people: of the releases, added up (of several windows the
    mean); None: not told. candidates: the fewest of any row. promised: the fewest of anybody over several releases.
    rejected, waiting: rows by reason; what waits, of several windows after the last.
    """

    end: dt.datetime | None
    windows: int
    releases: int
    released: int
    rejected: Rows
    waiting: Rows
    people: float | None
    loss: float | None
    bound: float | None
    candidates: int | None
    over_releases: int | None


def steps(records: Iterable[Record], most: int = MOST_STEPS) -> tuple[Step, ...]:
    """The steps in their order. records: of metrics.avsc or public ones, in any order. most: at least 1."""
    by_end: dict[Any, list[Record]] = defaultdict(list)
    for record in records:
        by_end[record["window_end"]].append(record)
    ordered = [by_end[end] for end in sorted(by_end, key=lambda end: (end is not None, end))]
    size = -(-len(ordered) // most) if ordered else 1
    return tuple(_step(ordered[first : first + size]) for first in range(0, len(ordered), size))


def added(parts: Iterable[Rows]) -> dict[str, int]:
    """Rows by reason, most first."""
    total: dict[str, int] = defaultdict(int)
    for each in parts:
        for reason, rows in each.items():
            total[reason] += rows
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def in_order(records: Iterable[Record]) -> list[Record]:
    """By window end, then as a partition takes its steps; of a release that was withheld once, the published last."""
    return sorted(
        records,
        key=lambda each: (
            each["window_end"] is not None,
            _seconds(each["window_end"]),
            each.get("release_no") or 0,
            bool(each.get("released", True)),
        ),
    )


def still_waiting(records: Iterable[Record]) -> dict[str, int]:
    """Rows waiting after the last step of each partition, by reason. Public records know no partitions: of each
    window end all that are told, of the last."""
    last: dict[Any, Rows] = {}
    ordered = in_order(records)
    for record in ordered:
        last[record.get("partition")] = record["waiting_reasons"]
    if ordered and "partition" not in ordered[-1]:
        end = ordered[-1]["window_end"]
        return added(each["waiting_reasons"] for each in ordered if each["window_end"] == end)
    return added(last.values())


def _step(windows: Sequence[Sequence[Record]]) -> Step:
    records = [record for window in windows for record in window]
    released = [record for record in records if record.get("released", True) and record["rows_released"]]
    people = [_people(window) for window in windows]
    counted = [each for each in people if each is not None]
    return Step(
        end=windows[-1][0]["window_end"],
        windows=len(windows),
        releases=len(released),
        released=sum(record["rows_released"] for record in records),
        rejected=added(record["rows_rejected"] for record in records),
        waiting=still_waiting(windows[-1]),
        people=sum(counted) / len(counted) if counted else None,
        loss=mean_of(released, "gcp"),
        bound=mean_of(released, "lower_bound"),
        candidates=_least(released, "candidates_min"),
        over_releases=min(filter(None, map(_over_releases, released)), default=None),
    )


def _people(window: Sequence[Record]) -> int | None:
    counts = [record.get("individuals") for record in window if record["rows_released"]]
    people = [count for count in counts if count is not None]
    return sum(people) if people else None


def _least(records: Sequence[Record], name: str) -> int | None:
    return min((record[name] for record in records if record.get(name) is not None), default=None)


def _over_releases(record: Record) -> int | None:
    """The fewest candidates of anybody when releases are put together, as its kind of cohort measures that."""
    epoch = record.get("epoch_candidates")
    return epoch["minimum"] if epoch else record.get("guaranteed_candidates")


def _seconds(end: Any) -> float:
    return end.timestamp() if isinstance(end, dt.datetime) else float(end or 0)
