"""How long does the whole ``kanonflow anonymize`` take, and on what; what does it release; does the release verify?

Jobs: the example policies ``sparkov`` (protect: individual, windows of a day), ``sparkov_rows`` (protect:
row), ``complete_journey`` (windows of a week, nulls in quasi-identifiers) and ``adult`` (no time: one
window), each as its own process with default settings, as a user would start it, from files into an empty
folder.

First every job runs once with a tenth of an evaluation a row, which loads (or compiles) all kernels and
reads the files into memory; that run is the warm-up and counts for nothing. Then, ``--repeats`` times,
every job runs with its own solver and right after it with two others: ``l-greedy`` (a start without search:
what the rest of the pipeline costs) and ``pass-through`` (one class or complete graph over everybody: the
whole domain is published; its boxes are so big that publishing and writing them takes longer than usual; with
``cohort: window``, for it makes no cohorts).
Shown is the run of median wall time. Ratios are of runs that followed one another, in one run of this
script.

Time: wall clock of the process from start to exit, and CPU seconds of all its threads; ``starting`` is what
passes before and after the pipeline (imports, options, the exit). The parts are wall clock as the command
itself reports them (read) and as its metrics say (solve, publish); the rest is the runner, classification,
splitting, state and writing files.

Rows are counted in the files that came out, not taken from the summary. GCP is the mean over released rows:
published (snapped outward to grids), and of the hulls before snapping. The same fixed secret for every run,
so losses repeat.

``kanonflow verify`` is timed once a job, on what its own solver released. The files, which the product's
own encoder wrote, are counted with fastavro and opened once more with polars.

Target: the whole sparkov job within 60 s on 2 cores.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import yaml

from benchmarks.data_sets import (
    ADULT,
    COMPLETE_JOURNEY,
    SPARKOV,
    DataSet,
    MissingDataError,
    data_path,
    example_policy,
    with_method,
    write_slice,
)
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import Spent, timed_child
from kanonflow.schemas.policy_file import to_mapping

JOBS: dict[str, DataSet] = {
    "sparkov": SPARKOV,
    "sparkov_rows": SPARKOV,
    "complete_journey": COMPLETE_JOURNEY,
    "adult": ADULT,
}
OWN, START, PASS_THROUGH = "own", "l-greedy", "pass-through"
# Not a secret: it makes the runs of this script repeat, and nothing that is published here is private.
BENCHMARK_SECRET = b"a benchmark's secret is no secret at all"
COMMAND = (sys.executable, "-m", "kanonflow.pipelines.cli")


class CommandFailedError(Exception):
    """A command that is measured ended with an exit code that is not expected."""


@dataclass(frozen=True)
class Run:
    """One run of the command. released, rejected: rows in the files. parts: seconds by name."""

    spent: Spent
    parts: Mapping[str, float]
    releases: int
    released: int
    rejected: Mapping[str, int]
    second_reader: str
    metrics: Sequence[Mapping[str, Any]]

    def mean(self, name: str) -> float | None:
        """Mean of a number of the metrics over the released rows."""
        pairs = [
            (record[name], record["rows_released"])
            for record in self.metrics
            if record["released"] and record[name] is not None
        ]
        rows = sum(count for _, count in pairs)
        return sum(value * count for value, count in pairs) / rows if rows else None


def write_policy(name: str, method: str, folder: Path) -> Path:
    """The example policy with its own solver or another method, as a file."""
    policy = example_policy(name)
    if method != OWN:
        policy = with_method(policy, method)
    path = folder / f"{name}_{method}.yaml"
    path.write_text(yaml.safe_dump(to_mapping(policy), sort_keys=False), encoding="utf-8")
    return path


def run_command(policy: Path, source: Path, output: Path, secret: Path, *more: str) -> Run:
    """``kanonflow anonymize`` in a process of its own. Raises CommandFailedError."""
    flags = ["--policy", policy, "--input", source, "--output", output, "--secret-file", secret, *more]
    done, spent = timed_child(_call, "anonymize", *map(str, flags))
    if done.returncode != 0:
        raise CommandFailedError(f"anonymize ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    metrics = [
        record for path in sorted((output / "restricted/metrics").glob("*.avro")) for record in _read(path)
    ]
    rejected = [record for path in (output / "restricted/rejected").glob("*.avro") for record in _read(path)]
    files = sorted((output / "release").glob("*.avro"))
    released = sum(len(_read(path)) for path in files)
    return Run(
        spent,
        _parts(done.stdout, spent, metrics),
        len(files),
        released,
        Counter(record["reason"] for record in rejected),
        second_reader(files, released),
        metrics,
    )


def _call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)


def _read(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


def _parts(summary: str, spent: Spent, metrics: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Wall seconds by part; ``time`` and ``read`` from the command's summary, which rounds to 0.1 s."""
    told = {name: float(value) for name, value in re.findall(r"^ *(time|read) +([0-9.]+) s", summary, re.M)}
    solve = sum(record["solve_ms"] for record in metrics) / 1e3
    publish_seconds = sum(record["publish_ms"] for record in metrics) / 1e3
    return {
        "starting": spent.wall - told["time"],
        "read": told["read"],
        "solve": solve,
        "publish": publish_seconds,
        "rest": told["time"] - told["read"] - solve - publish_seconds,
    }


def second_reader(files: Sequence[Path], rows: int) -> str:
    """What polars, which shares no code with the writer, finds in the releases."""
    try:
        import polars
    except ImportError:
        return "polars is not installed"
    try:
        found = sum(polars.read_avro(path).height for path in files)
    except polars.exceptions.PolarsError as error:
        return f"polars cannot read them ({type(error).__name__})"
    return "polars: same rows" if found == rows else f"polars: {found:,} rows"


def verify(policy: Path, source: Path, output: Path) -> tuple[bool, Mapping[str, Any], Spent]:
    """``kanonflow verify``: whether it passed, its figures, its time. Raises CommandFailedError."""
    flags = ["--policy", policy, "--input", source, "--release", output, "--json"]
    done, spent = timed_child(_call, "verify", *map(str, flags))
    if done.returncode not in (0, 1):
        raise CommandFailedError(f"verify ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    report = json.loads(done.stdout)
    return report["passed"], report["figures"], spent


def measure(arguments: argparse.Namespace, findings: Findings, folder: Path) -> None:
    """All jobs: warm-up, repeats in pairs, verification."""
    secret = folder / "secret"
    secret.write_bytes(BENCHMARK_SECRET)
    secret.chmod(0o600)
    sources: dict[str, Path] = {}
    for name in arguments.jobs:
        try:
            sources[name] = _source(name, arguments, folder)
        except MissingDataError as missing:
            findings.skipped.append(f"{name}: {missing}")
    numbered = 0

    def run(name: str, method: str, *more: str) -> tuple[Run, Path]:
        nonlocal numbered
        numbered += 1
        output = folder / f"run{numbered}"
        policy = write_policy(name, method, folder)
        return run_command(policy, sources[name], output, secret, *more), output

    runs: dict[tuple[str, str], list[tuple[Run, Path]]] = {}
    for turn in range(arguments.repeats + 1):
        for name in list(sources):
            try:
                if turn == 0:
                    run(name, OWN, "--evaluations", "0.1")
                    continue
                trio = [(method, run(name, method)) for method in (OWN, START, PASS_THROUGH)]
            except CommandFailedError as failed:
                findings.skipped.append(f"{name}: FAILED, {failed}")
                del sources[name]
                continue
            for method, found in trio:
                runs.setdefault((name, method), []).append(found)
    runs = {job: found for job, found in runs.items() if job[0] in sources}
    chosen = {
        job: sorted(found, key=lambda pair: pair[0].spent.wall)[len(found) // 2]
        for job, found in runs.items()
    }
    _report_time(findings, chosen)
    _report_rows(findings, chosen)
    _report_ratios(findings, runs, list(sources))
    if arguments.verify:
        _report_verification(findings, chosen, sources, folder)


def _source(name: str, arguments: argparse.Namespace, folder: Path) -> Path:
    data = JOBS[name]
    path = data_path(data)
    days, rows = (arguments.days, None) if data.time else (None, arguments.rows)
    if days is None and rows is None:
        return path
    return write_slice(data, folder, days=days, rows=rows)


def _report_time(findings: Findings, chosen: Mapping[tuple[str, str], tuple[Run, Path]]) -> None:
    parts = ("starting", "read", "solve", "publish", "rest")
    table = findings.table(
        "Time of the whole command",
        ["job", "solver", "rows", "wall s", "CPU s", "rows/s",
         *(f"{part} s" for part in parts), *(f"{part} %" for part in parts)],
        "rows/s: rows of the input by wall clock. The parts are wall clock and add up to it.",
    )  # fmt: skip
    for (name, method), (run, _) in chosen.items():
        rows = run.released + sum(run.rejected.values())
        table.rows.append(
            (
                name,
                method,
                rows,
                run.spent.wall,
                run.spent.cpu,
                rows / run.spent.wall,
                *(run.parts[part] for part in parts),
                *(100 * run.parts[part] / run.spent.wall for part in parts),
            )
        )


def _report_rows(findings: Findings, chosen: Mapping[tuple[str, str], tuple[Run, Path]]) -> None:
    table = findings.table(
        "What came out",
        ["job", "solver", "releases", "rows released", "rows rejected", "reasons", "mean GCP", "of the hulls", "bound",
         "warm windows", "read by"],
        "Every row is released or rejected. bound: mean of LB1, which no structure on the hulls can beat.",
    )  # fmt: skip
    for (name, method), (run, _) in chosen.items():
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(run.rejected.items()))
        table.rows.append(
            (
                name,
                method,
                run.releases,
                run.released,
                sum(run.rejected.values()),
                reasons or "-",
                run.mean("gcp"),
                run.mean("gcp_hull"),
                run.mean("lower_bound"),
                sum(record["warm"] for record in run.metrics),
                run.second_reader,
            )
        )


def _report_ratios(
    findings: Findings, runs: Mapping[tuple[str, str], list[tuple[Run, Path]]], names: Sequence[str]
) -> None:
    table = findings.table(
        "Against a start without search and against publishing the whole domain",
        ["job", "against", "wall ratio, median", "lowest", "highest", "CPU ratio, median", "GCP ratio"],
        "Ratio = own solver / the other one, of runs that followed one another. GCP: the mean, as published.",
    )
    for name in names:
        for rival in (START, PASS_THROUGH):
            pairs = [
                (own, other) for (own, _), (other, _) in zip(runs[name, OWN], runs[name, rival], strict=True)
            ]
            walls = sorted(own.spent.wall / other.spent.wall for own, other in pairs)
            cpus = sorted(own.spent.cpu / other.spent.cpu for own, other in pairs)
            losses = [run.mean("gcp") for run in pairs[0]]
            ratio = losses[0] / losses[1] if losses[0] is not None and losses[1] else None
            middle = len(pairs) // 2
            table.rows.append((name, rival, walls[middle], walls[0], walls[-1], cpus[middle], ratio))


def _report_verification(
    findings: Findings,
    chosen: Mapping[tuple[str, str], tuple[Run, Path]],
    sources: Mapping[str, Path],
    folder: Path,
) -> None:
    table = findings.table(
        "kanonflow verify",
        ["job", "passed", "wall s", "CPU s", "fewest rows of a record", "fewest individuals of a row",
         "mean individuals of a row"],
    )  # fmt: skip
    figures_shown = ("fewest_rows_of_record", "fewest_individuals_of_row", "mean_individuals_of_row")
    for name in sources:
        passed, figures, spent = verify(write_policy(name, OWN, folder), sources[name], chosen[name, OWN][1])
        table.rows.append(
            (name, passed, spent.wall, spent.cpu, *(figures[figure] for figure in figures_shown))
        )


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Time, loss and verification of the whole command.")
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--days", type=int, help="only the first days of the feeds")
    parser.add_argument("--rows", type=int, help="only the first rows of adult")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-verify", dest="verify", action="store_false")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("main_job", __doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        measure(arguments, findings, Path(folder))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
