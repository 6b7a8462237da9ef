"""What did a stretch of work cost: the same commands by two working trees of this repository, one after the other.

    git worktree add BEFORE 26c8339; make .venv/.installed-test in both, and the kernels of both compiled
    KANONFLOW_DATA=DIR python -m benchmarks.two_commits --before BEFORE --after AFTER

``make demo`` with its kernels beside the sources, and ``kanonflow anonymize`` over whole feeds under their example
policies with the kernels of NUMBA_CACHE_DIR. The trees take turns, each round begins with the other one, and both have
the round's secret. CPU: seconds of the command and all its processes. Ratio: after / before of a round; the mean over
rounds. GCP: of the published boxes, by rows released. Founding: GCP of the rows of newcomers under their cohorts'
boxes, by people who entered. What is measured is appended to ``--log`` at once, and tables are made of all that it has.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np

from benchmarks.data_sets import ADULT, COMPLETE_JOURNEY, SPARKOV, DataSet, MissingDataError, data_path
from benchmarks.result_files import Findings, add_result_arguments, environment, publish

FEEDS = {data.name: data for data in (ADULT, COMPLETE_JOURNEY, SPARKOV)}
DEMO = "demo"
COSTS = ("command", "rounds", "CPU s, before", "CPU s, after", "ratio, mean", "least", "most")
LOSSES = ("feed", "figure", "rounds", "before", "after", "ratio, mean", "least", "most")
SHELL = "find solvers -name '*.py' | LC_ALL=C sort | xargs cat | cksum | tr ' ' '-'"


def surroundings(tree: Path, *, cached: bool) -> dict[str, str]:
    """The environment of a command. cached: with kernels where make keeps them, and not beside the sources."""
    made = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    made.pop("NUMBA_CACHE_DIR", None)
    if cached:
        state = subprocess.run(SHELL, shell=True, cwd=tree, capture_output=True, text=True, check=True).stdout
        made["NUMBA_CACHE_DIR"] = str(tree / ".numba_cache" / state.strip())
    return made


def spent(command: Sequence[str], tree: Path, *, cached: bool) -> float:
    """CPU seconds of a command and all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=tree, env=surroundings(tree, cached=cached), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def figures(output: Path) -> dict[str, float | None]:
    """What a run's metrics say: rows released, their GCP, and that of newcomers where there are any."""
    released = [
        record
        for path in sorted((output / "restricted" / "metrics").glob("*.avro"))
        for record in fastavro.reader(path.open("rb"))
        if record["released"]  # type: ignore[index]
    ]
    rows = [record["rows_released"] for record in released]  # type: ignore[index]
    founded = [each for each in released if each.get("gcp_newcomers") is not None]  # type: ignore[union-attr]
    entered = [record["people_entered"] for record in founded]  # type: ignore[index]
    newcomers = [record["gcp_newcomers"] for record in founded]  # type: ignore[index]
    return {
        "rows": sum(rows),
        "gcp": float(np.average([record["gcp"] for record in released], weights=rows)),  # type: ignore[index]
        "gcp_newcomers": float(np.average(newcomers, weights=entered)) if founded else None,
    }


def whole_run(tree: Path, data: DataSet, number: int, folder: Path) -> dict[str, float | None]:
    """Anonymize a whole feed. number: of the round, whose secret it takes."""
    secret, output = folder / "secret", folder / "out"
    secret.write_text(hashlib.sha256(f"paired {number}".encode()).hexdigest() + "\n")
    secret.chmod(0o600)
    shutil.rmtree(output, ignore_errors=True)
    command = [str(tree / ".venv/bin/kanonflow"), "anonymize", "--policy", f"policies/{data.name}.yaml"]
    told = ["--input", str(data_path(data)), "--output", str(output), "--secret-file", str(secret), "--quiet"]
    return {"cpu": spent([*command, *told], tree, cached=True), **figures(output)}


def ratios(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float, float, float]:
    """Means before and after, and of their ratios the mean, the least and the most."""
    each = [after / before for before, after in pairs]
    means = np.mean(pairs, axis=0)
    return float(means[0]), float(means[1]), float(np.mean(each)), min(each), max(each)


def in_pairs(log: Sequence[Mapping[str, Any]], what: str, figure: str) -> list[tuple[float, float]]:
    """Before and after of each round that has both."""
    sides: dict[int, dict[str, float]] = {}
    for entry in log:
        if entry["what"] == what and entry.get(figure) is not None:
            sides.setdefault(entry["round"], {})[entry["tree"]] = entry[figure]
    return [(each["before"], each["now"]) for each in sides.values() if len(each) == 2]


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="The same commands by two working trees, in turns.")
    parser.add_argument("--before", type=Path, required=True, help="a working tree with .venv and kernels")
    parser.add_argument("--after", type=Path, required=True, help="another")
    parser.add_argument("--what", nargs="*", default=[DEMO, *FEEDS], choices=[DEMO, *FEEDS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=Path, required=True, help="measurements, a JSON object a line")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("two_commits", __doc__ or "")
    trees = {"before": arguments.before.resolve(), "now": arguments.after.resolve()}
    with tempfile.TemporaryDirectory() as folder, arguments.log.open("a") as log:
        for what in arguments.what:
            for number in range(arguments.rounds):
                for name in sorted(trees, reverse=number % 2 == 1):
                    try:
                        if what == DEMO:
                            told: dict[str, Any] = {"cpu": spent(["make", "demo"], trees[name], cached=False)}
                        else:
                            told = whole_run(trees[name], FEEDS[what], number, Path(folder))
                    except MissingDataError as missing:
                        findings.skipped.append(str(missing))
                        continue
                    print(
                        json.dumps({"what": what, "round": number, "tree": name, **told}),
                        file=log,
                        flush=True,
                    )
    entries = [json.loads(line) for line in arguments.log.read_text().splitlines()]
    costs = findings.table("CPU of whole commands", COSTS)
    losses = findings.table("Loss of the same runs", LOSSES)
    for what in (DEMO, *FEEDS):
        if pairs := in_pairs(entries, what, "cpu"):
            name = "make demo" if what == DEMO else f"kanonflow anonymize, {what}"
            costs.rows.append((name, len(pairs), *ratios(pairs)))
        for title, figure in (("GCP of releases", "gcp"), ("founding", "gcp_newcomers")):
            if pairs := in_pairs(entries, what, figure):
                losses.rows.append((what, title, len(pairs), *ratios(pairs)))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    sys.exit(main())
