"""What the runs of a stream came to, as tables and as plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.line_charts import Points, histogram, line_chart, percentile, thinned
from benchmarks.main_job import PASS_THROUGH, START
from benchmarks.result_files import Findings
from benchmarks.stream_feed import OWN, WINDOW
from benchmarks.stream_run import Outcome, kind_of

MEGABYTE = 1e6
TARGET = 0.6
AT_STEP = "watermark at the step"


def report(findings: Findings, runs: Sequence[tuple[Outcome, bool | None]], workers: int) -> None:
    """All tables."""
    _speed(findings, runs)
    only = [run for run, _ in runs]
    _ratios(findings, only)
    _parts(findings, only, workers)
    _latency(findings, only)
    _memory(findings, only)
    _checkpoints(findings, only)


def _speed(findings: Findings, runs: Sequence[tuple[Outcome, bool | None]]) -> None:
    table = findings.table(
        "Rows",
        ["solver", "rows", "s", "s to the end", "rows/s", "rows/s steady", "releases", "rows released", "rows rejected",
         "reasons", "mean GCP", "kills", "savepoints", "restarts", "accounts exact", "verify passed"],
        "s, rows/s: from the first row in to the last row out. s to the end: until the job says that the feed has"
        " ended, some checkpoints later. steady: released rows, from when a tenth of them was visible until"
        " nine tenths were. restarts: from a checkpoint. The accounts: every row released or"
        " rejected, once, by its id; no slot twice.",
    )  # fmt: skip
    for run, passed in runs:
        told = run.accounts
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(told.rejected.items()))
        gcps = [(each["gcp"], each["rows_released"]) for each in run.metrics if each["released"]]
        rows = sum(count for _, count in gcps)
        gcp = sum(loss * count for loss, count in gcps) / rows if rows else None
        table.rows.append(
            (run.name, told.rows, run.seconds, run.ended - run.begun, told.rows / run.seconds,
             run.steady_rows_per_second, len(run.releases), told.released, told.rejected.total(), reasons or "-",
             gcp, len(run.kills), run.savepoints, run.restored, told.exact, passed)
        )  # fmt: skip
        if not told.exact:
            findings.skipped.append(
                f"{run.name}: FAILED, the accounts: {told.missing} rows missing, {told.repeated} repeated,"
                f" {told.foreign} foreign, {told.slots_repeated} slots repeated, {told.unpaired} unpaired"
            )
        if passed is False:
            findings.skipped.append(f"{run.name}: FAILED, verify")


def _ratios(findings: Findings, runs: Sequence[Outcome]) -> None:
    by_name = {run.name: run for run in runs}
    if OWN not in by_name or len(by_name) < 2:
        return
    table = findings.table(
        "Against cohorts of one window, a start without search, and publishing the whole domain",
        ["against", "rows/s, % of the other's", "target %", "CPU ratio"],
        "CPU ratio: own / other, all processes.",
    )
    own = by_name[OWN]
    for name, target in ((WINDOW, None), (START, None), (PASS_THROUGH, 100 * TARGET)):
        if name not in by_name:
            continue
        other = by_name[name]
        cpu = sum(own.cpu_seconds().values()) / sum(other.cpu_seconds().values())
        table.rows.append((name, 100 * other.seconds / own.seconds, target, cpu))


def _parts(findings: Findings, runs: Sequence[Outcome], workers: int) -> None:
    kinds = ("python-worker", "task-manager", "job-manager", "command", "job-server")
    table = findings.table(
        "Where the time goes",
        [
            "solver",
            "solve s",
            "publish s",
            "solve %",
            "publish %",
            "rest %",
            *(f"CPU {kind} s" for kind in kinds),
            "CPU, us a row",
        ],
        f"solve, publish: wall clock, summed over windows. %: of the wall clock of {workers} workers. The rest is"
        " reading, classifying, state, coders, files, waiting for each other and for checkpoints. CPU a row: of all"
        " processes, over the rows of the feed.",
    )
    for run in runs:
        solve = sum(each["solve_ms"] for each in run.metrics) / 1e3
        publish = sum(each["publish_ms"] for each in run.metrics) / 1e3
        both = run.seconds * workers
        cpu = run.cpu_seconds()
        table.rows.append(
            (run.name, solve, publish, 100 * solve / both, 100 * publish / both,
             100 * (1 - (solve + publish) / both), *(cpu.get(kind, 0.0) for kind in kinds),
             1e6 * sum(cpu.values()) / run.accounts.rows)
        )  # fmt: skip


def _latency(findings: Findings, runs: Sequence[Outcome]) -> None:
    table = findings.table(
        "From the end of a window to its release, s",
        ["solver", "from", "releases", "p50", "p90", "p99", "max"],
        "The releases of windows that only the end of the feed closes are counted from there.",
    )
    for run in runs:
        for since, values in (
            ("arrival of the closing row", run.latencies()),
            (AT_STEP, run.latencies_of_step()),
        ):
            if values and (run.arrived is None or since != AT_STEP):
                shown = (percentile(values, each) for each in (50, 90, 99, 100))
                table.rows.append((run.name, since, len(values), *shown))


def _memory(findings: Findings, runs: Sequence[Outcome]) -> None:
    table = findings.table(
        "Memory, MB",
        ["solver", "process", "at a quarter", "at the end", "highest"],
        "RSS of the largest process of a kind. At the end: when the job was cancelled, as last seen.",
    )
    for run in runs:
        within = [each for each in run.samples if run.begun <= each.at <= run.ended and each.processes]
        if not within:
            continue
        quarter = within[len(within) // 4]
        for kind in sorted({kind_of(name) for each in within for name in each.processes}):

            def largest(sample: Any, kind: str = kind) -> float | None:
                sizes = [each.rss for name, each in sample.processes.items() if kind_of(name) == kind]
                return max(sizes) / MEGABYTE if sizes else None

            highest = max(size for each in within if (size := largest(each)) is not None)
            table.rows.append((run.name, kind, largest(quarter), largest(within[-1]), highest))


def _checkpoints(findings: Findings, runs: Sequence[Outcome]) -> None:
    table = findings.table(
        "Checkpoints",
        ["solver", "complete", "failed", "MB p50", "MB max", "s p50", "s p99", "s max"],
        "MB: state, as Flink's REST interface says. s: from trigger to completion.",
    )
    for run in runs:
        sizes = [each.size / MEGABYTE for each in run.checkpoints]
        seconds = [each.seconds for each in run.checkpoints]
        table.rows.append(
            (run.name, len(sizes), run.failed_checkpoints, percentile(sizes, 50), percentile(sizes, 100),
             *(percentile(seconds, each) for each in (50, 99, 100)))
        )  # fmt: skip


def timeline(run: Outcome) -> dict[str, Any]:
    """What plots are drawn from: lists of [seconds since the first row, value]."""

    def lines(points: Sequence[tuple[float, float]]) -> list[list[float]]:
        return [
            [round(at - run.begun, 2), round(value, 3)]
            for at, value in thinned([point for point in points if run.begun <= point[0] <= run.ended + 1])
        ]

    memory: dict[str, list[tuple[float, float]]] = {}
    for sample in run.samples:
        for name, process in sample.processes.items():
            memory.setdefault(name, []).append((sample.at, process.rss / MEGABYTE))
    released, count = [], 0
    for release in run.releases:
        count += release.rows
        released.append((release.at, float(count)))
    read = [(each.at, float(each.rows_read)) for each in run.samples if each.rows_read is not None]
    arrived = []
    if run.arrived is not None:
        arrived = [(run.arrived[file.name], float(file.rows)) for file in run.feed.files]
    return {
        "name": run.name,
        "seconds": round(run.seconds, 2),
        "kills": [round(at - run.begun, 2) for at in run.kills],
        "rows": {"arrived": lines(arrived), "read": lines(read), "released": lines(released)},
        "waiting": lines([(at, float(rows)) for at, rows in run.waiting]),
        "memory_mb": {name: lines(points) for name, points in sorted(memory.items()) if lines(points)},
        "checkpoint_mb": lines([(each.at, each.size / MEGABYTE) for each in run.checkpoints]),
        "checkpoint_s": lines([(each.at, each.seconds) for each in run.checkpoints]),
        "latency_s": [round(each, 2) for each in _best_latencies(run)],
    }


def _best_latencies(run: Outcome) -> list[float]:
    """In a replay those from the step: a row that is read ahead has arrived long before it is due."""
    return run.latencies_of_step() if run.arrived is None else run.latencies()


def write_timeline(runs: Sequence[dict[str, Any]], results: Path, name: str) -> Path:
    """Write ``<name>_timeline.json``; its path."""
    path = results / f"{name}_timeline.json"
    path.write_text(json.dumps(runs, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
    return path


def draw(path: Path) -> list[Path]:
    """Draw a timeline's plots beside it."""
    runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    stem = path.name.removesuffix("_timeline.json")
    across = "seconds since the first row"
    alone = len(runs) == 1

    def of_all(pick: Callable[[dict[str, Any]], dict[str, Points]]) -> dict[str, Points]:
        """The runs' lines that have points, named by run where there are several."""
        return {
            name if alone else f"{run['name']}: {name}": line
            for run in runs
            for name, line in pick(run).items()
            if line
        }

    plots = {
        "rows": line_chart("Rows", across, "rows", of_all(lambda run: run["rows"])),
        "waiting": line_chart(
            "Rows that wait for the next release", across, "rows", of_all(lambda run: {"waiting": run["waiting"]})
        ),
        "checkpoints": line_chart(
            "State in a checkpoint", across, "MB", of_all(lambda run: {"state": run["checkpoint_mb"]})
        ),
        "checkpoint_seconds": line_chart(
            "Duration of a checkpoint", across, "seconds", of_all(lambda run: {"duration": run["checkpoint_s"]})
        ),
        # One run's processes are enough for one plot.
        "memory": line_chart(f"Memory (RSS), solver {runs[0]['name']}", across, "MB", runs[0]["memory_mb"]),
        "latency": histogram(
            f"End of a window to its release, solver {runs[0]['name']}",
            "seconds", "releases", runs[0]["latency_s"],
        ),
    }  # fmt: skip
    written = []
    for name, plot in plots.items():
        target = path.parent / f"{stem}_{name}.svg"
        target.write_text(plot, encoding="utf-8")
        written.append(target)
    return written
