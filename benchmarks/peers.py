"""What do the pip-installable peers lose on Adult, measured as we measure ourselves?

Data: UCI Adult, complete cases, 30,162 rows, 8 quasi-identifiers, age numeric, 7 categorical; the salary class is the
payload. Peers, each of the version that the environment has: anonypy (Mondrian) and anjana (full-domain
generalization by ARX's hierarchies, at most 5% of the rows suppressed). They run in a virtual environment of their own,
as they pin other libraries: ``python -m venv DIR && DIR/bin/pip install anonypy anjana``, then ``--python
DIR/bin/python``. Ours in this process: ``auto`` for graphs and for closed classes, l-greedy, strict Mondrian.

Loss: GCP of the hulls of the classes found, rows that are suppressed 1 each. It is kinder to anjana than the labels it
publishes, whose boxes are wider than the hulls. CPU seconds of the anonymization, without reading and start-up. Ratios
are to ``auto`` for graphs; below 1 is better. One run each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import peer_programs
from benchmarks.data_sets import ADULT, MissingDataError, adult_table, data_path
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.warm_up import warm_up

PEERS = ("anonypy", "anjana")
OURS = {
    "auto, graph": ("row_graph", "auto"),
    "auto, classes": ("classes", "auto"),
    "l-greedy": ("row_graph", "l-greedy"),
    "mondrian": ("classes", "mondrian"),
}
COLUMNS = ("k", "system", "GCP", "to auto", "classes", "smallest", "suppressed %", "CPU s")


def peer_classes(python: str, peer: str, path: Path, k: int) -> tuple[Partition, float]:
    """The classes that a peer finds, and its CPU seconds. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "found.json"
        program = str(Path(peer_programs.__file__).resolve())
        command = [python, program, peer, str(path), str(k), str(target)]
        subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
        found = json.loads(target.read_text())
    return Partition(np.array(found["labels"], dtype=np.int32)), float(found["seconds"])


def loss_of(table: Table, partition: Partition) -> float:
    """GCP of the hulls, suppressed rows 1 each."""
    left_out = float((partition.labels < 0).mean())
    return left_out + (1.0 - left_out) * gcp(table, partition)


def measure(table: Table, path: Path, k: int, python: str | None, losses: ResultTable) -> None:
    """One row a system."""
    found: list[tuple[str, float, Partition | None, float]] = []
    for name, (shape, method) in OURS.items():
        solution, spent = timed(solve, Task(table, k, shape=shape, seed=1), method)
        classes = solution.structure if isinstance(solution.structure, Partition) else None
        found.append((name, solution.loss, classes, spent.cpu))
    for peer in PEERS if python is not None else ():
        partition, seconds = peer_classes(python or "", peer, path, k)
        found.append((peer, loss_of(table, partition), partition, seconds))
        print(f"k={k}, {peer}: done", flush=True)
    base = found[0][1]
    for name, loss, partition_or_none, seconds in found:
        labels = np.empty(0, np.int32) if partition_or_none is None else partition_or_none.labels
        sizes = np.bincount(labels[labels >= 0])
        sizes = sizes[sizes > 0]
        losses.rows.append(
            (
                k, name, loss, loss / base, sizes.size if sizes.size else None,
                int(sizes.min()) if sizes.size else None,
                100.0 * float((labels < 0).mean()) if labels.size else 0.0, seconds,
            )
        )  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="anonypy and anjana beside ours, on Adult.")
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--rows", type=int, help="only the first rows, without peers")
    parser.add_argument("--python", help="the Python of the peers' environment; without it they are skipped")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("peers", __doc__ or "")
    losses = findings.table("Adult, hulls of the classes found", COLUMNS)
    try:
        path = data_path(ADULT)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    python = None if arguments.rows is not None else arguments.python
    if python is None:
        findings.skipped.append("anonypy, anjana: skipped, --python names no environment that has them")
    warm_up()
    table = adult_table(path, arguments.rows)
    for k in arguments.k:
        measure(table, path, k, python, losses)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
