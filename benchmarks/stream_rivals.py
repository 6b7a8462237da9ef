"""What do our windows lose, and how long do rows wait, beside the algorithms made for streams: CASTLE and FADS?

Data: Adult in the order of its file, a row a second, each row a person; sparkov, the first days, by event time, people
are card holders. k = 5 distinct people. Domains are those of all rows, for everybody alike; loss is the NCP of the
published hull, a mean over all rows, and 1 for a row that is suppressed or rejected.

- CASTLE and FADS (``benchmarks/rivals``): delta rows; beta 50 as in the CASTLE paper and the best of 25 .. 800; T_kc a
  tenth of delta as in the FADS paper and ten times delta. They promise a row k people, once; a box that is reused
  promises less.
- row: ``protect: row``, a graph, windows as long as the delay. The promise is that of the rivals, or more.
- classes: ``protect: individual``, closed classes that hide row counts, too (rows above them wait, or are rejected).
  With windows as long as the delay nothing may wait; with windows of half of it, rows may wait for the other half.

Ours is a chain of ``release_window`` with default budgets, one thread; windows that are not full at the end included.
Delay of a row: from its own time to the release, or rejection, that it leaves by. Of the rivals, in rows: how many
rows arrive in between; in time: until the newest of them. delta is chosen in two ways: as many rows as a window has
in the mean (rows), and the most whose delay in time never exceeds the window (time; on Adult they are the same).
Nearly all rows of sparkov stand in the first twelve hours of a day. The rivals count rows and have no clock, so over
that gap a row waits for as long as it lasts: delta (time) means something for windows of a day only, and with delta
(rows) rows wait for longer than ours do. With T_kc ten times delta, half of FADS' rows of sparkov go out alone, in
the box of an earlier class.

Rows/s: CPU time; of ours the whole of ``release_window`` (encoding, search, matching, boxes, gate), and the solver
alone; of the rivals the kernel alone, compiled. A CASTLE in plain Python was measured elsewhere at 29 rows/s, which
ours is to exceed a hundredfold.

To CASTLE, to FADS: ratio of losses to the better CASTLE's and the better FADS's at the same delay (rows).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import ADULT, DAY_MS, SPARKOV, DataSet, MissingDataError, data_path
from benchmarks.line_charts import line_chart
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.rivals.castle import CastleParameters, castle
from benchmarks.rivals.fads import FadsParameters, fads
from benchmarks.stream_courses import (
    HOUR_MS,
    SECOND_MS,
    Course,
    Stream,
    our_course,
    read_adult,
    read_sparkov,
    rival_course,
)
from kanonflow.schemas.policy import Policy, Protection
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.warm_up import warm_up

K = 5
BETAS = (25, 50, 100, 200, 400, 800)
PYTHON_CASTLE = 29.0
# Delays, in ms; a row of Adult arrives every second.
DELAYS = {
    "adult": (500_000, 1_000_000, 2_000_000, 4_000_000),
    "sparkov": (6 * HOUR_MS, 12 * HOUR_MS, DAY_MS, 2 * DAY_MS),
}
COLUMNS = (
    "data", "delay", "method", "loss", "to CASTLE", "to FADS", "mean delay", "longest delay", "reused %",
    "suppressed or rejected %", "rows/s", "solver rows/s", "rows/s to CASTLE", "to CASTLE in Python",
)  # fmt: skip


def our_policies(stream: Stream, delay: int) -> Iterator[tuple[str, Policy]]:
    """Ours, all with the same longest delay."""
    policy = replace(stream.bound.policy, window_ms=delay, max_delay_ms=0, state_ttl_ms=0)
    yield "row", replace(policy, protect=Protection.ROW, cohort=None)
    yield "classes", policy
    waits = replace(policy, window_ms=delay // 2, max_delay_ms=delay - delay // 2)
    yield "classes, windows of a half", waits


def longest_within(times: NDArray[np.int64], limit: int) -> int:
    """The most rows delta such that each row's delta-th next row arrives within ``limit`` ms, at least 1."""
    low, high = 1, times.size - 1
    while low < high:
        middle = (low + high + 1) // 2
        if int((times[middle:] - times[:-middle]).max()) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def rivals(stream: Stream, delay: int) -> Iterator[tuple[str, Course]]:
    """CASTLE and FADS for a delay, by the mean number of rows and by time."""
    span = float(stream.times[-1] - stream.times[0])
    mean = max(K, round(delay * (stream.times.size - 1) / span))
    deltas = {"rows": mean}
    if stream.name != "adult":
        deltas["time"] = max(K, longest_within(stream.times, delay))
    for unit, delta in deltas.items():
        runs = {
            beta: rival_course(stream, partial(castle, stream.table, CastleParameters(K, delta, beta)))
            for beta in BETAS
        }
        yield f"CASTLE, delta {delta:,} ({unit}), beta 50", runs[50]
        best = min(runs, key=lambda beta: runs[beta].loss)
        yield f"CASTLE, delta {delta:,} ({unit}), best beta {best}", runs[best]
        for reuse in (max(1, delta // 10), 10 * delta):
            run = rival_course(stream, partial(fads, stream.table, FadsParameters(K, delta, reuse)))
            yield f"FADS, delta {delta:,} ({unit}), reuse {reuse:,}", run


def add(findings: Findings, stream: Stream, delay: int, found: dict[str, Course]) -> None:
    """The rows of one delay."""
    by_rows = {name: course for name, course in found.items() if "(rows)" in name}
    base = {
        who: min(course.loss / course.rows for name, course in by_rows.items() if name.startswith(who))
        for who in ("CASTLE", "FADS")
    }
    pace = next(course.rows / course.cpu for name, course in by_rows.items() if "beta 50" in name)
    for name, course in found.items():
        loss, fast = course.loss / course.rows, course.rows / course.cpu
        findings.tables[0].rows.append(
            (
                stream.name, stream.shown(delay), name, loss, loss / base["CASTLE"], loss / base["FADS"],
                stream.shown(course.waited / course.rows), stream.shown(course.longest),
                100 * course.reused / course.rows, 100 * course.lost / course.rows, fast,
                course.rows / course.solving, fast / pace, fast / PYTHON_CASTLE,
            )
        )  # fmt: skip


def chart(stream: Stream, every: dict[int, dict[str, Course]], unit: float, label: str) -> str:
    """Loss over mean delay as an SVG: the better of each rival, and windows of both lengths."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for found in every.values():
        chosen = {name: name for name in found if name in ("row", "classes")}
        chosen["classes, windows of a half"] = "classes"
        for who in ("CASTLE", "FADS"):
            same = [name for name in found if name.startswith(who) and "(rows)" in name]
            chosen[min(same, key=lambda name: found[name].loss)] = who
        for name, line in chosen.items():
            point = found[name].waited / found[name].rows / unit, found[name].loss / found[name].rows
            lines.setdefault(line, []).append(point)
    ordered = {name: sorted(points) for name, points in lines.items()}
    return line_chart(f"{stream.name}: loss over mean delay, k = {K}", label, "loss (NCP a row)", ordered)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Windows beside CASTLE and FADS.")
    parser.add_argument("--rows", type=int, help="only the first rows of Adult")
    parser.add_argument("--days", type=int, default=14, help="days of sparkov")
    parser.add_argument("--data", nargs="+", choices=list(DELAYS), default=list(DELAYS))
    parser.add_argument(
        "--delays", nargs="+", type=int, help="places of the delays to measure (default: all)"
    )
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("stream_rivals", __doc__ or "")
    findings.table("Loss, delay and pace", COLUMNS, "To CASTLE, to FADS: ratio of losses; below 1 is better.")
    sets: dict[str, tuple[DataSet, Callable[[], Stream]]] = {
        "adult": (ADULT, lambda: read_adult(K, arguments.rows)),
        "sparkov": (SPARKOV, lambda: read_sparkov(K, arguments.days)),
    }
    charts: dict[str, str] = {}
    warm_up()
    for data in arguments.data:
        try:
            data_path(sets[data][0])
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
            continue
        stream = sets[data][1]()
        charts[data] = measure(stream, arguments.delays, findings)
    if charts:
        arguments.results.mkdir(parents=True, exist_ok=True)
    for data, drawn in charts.items():
        (arguments.results / f"stream_rivals_{data}.svg").write_text(drawn, encoding="utf-8")
    return publish(findings, arguments, begun)


def measure(stream: Stream, places: list[int] | None, findings: Findings) -> str:
    """All delays of a stream; returns the chart."""
    few = replace(stream, table=_first(stream.table, 50), times=stream.times[:50])
    dict(rivals(few, int(few.times[-1] - few.times[0])))  # compiled before it is measured
    every: dict[int, dict[str, Course]] = {}
    for place, delay in enumerate(DELAYS[stream.name]):
        if places is not None and place not in places:
            continue
        found: dict[str, Course] = dict(rivals(stream, delay))
        for method, policy in our_policies(stream, delay):
            found[method] = our_course(stream, policy)
            print(
                stream.name, stream.shown(delay), method, found[method].loss / found[method].rows, flush=True
            )
        every[delay] = found
        add(findings, stream, delay, found)
    unit, label = (
        (SECOND_MS, "mean delay (rows)") if stream.name == "adult" else (HOUR_MS, "mean delay (hours)")
    )
    return chart(stream, every, unit, label)


def _first(table: Table, n: int) -> Table:
    assert table.individuals is not None
    return replace(
        table, numeric=table.numeric[:n], categorical=table.categorical[:n], individuals=table.individuals[:n]
    )


if __name__ == "__main__":
    raise SystemExit(main())
