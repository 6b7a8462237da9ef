"""How many rows a second, at which loss? One thread over windows of 5,000 rows, and two threads over one window.

Data: UCI Adult in the order of the file, cut into windows of 5,000 rows (the last one shorter is left out);
domains are those of all rows; k = 5. Seconds are CPU seconds of the whole solver call, neighbours included, summed
over the windows; rows a second follow from them. Loss: mean GCP over the windows, as the search leaves it
(untie=False). The reference is what 10 s a window reach; ratios are to it in the same run. The target takes the fastest
budget tried whose loss is within 5% (2%) of the reference.

Two threads: one window of 30,162 rows at the default budget. ``speed-up`` is wall seconds with one thread over wall
seconds with two (the median of the ratios of pairs run one after the other; on a loaded machine it says little, see
the load). The graph is the same with any number of threads; ``loss ratio`` is the loss as searched in parts over
that of the search in one part at the same budget, which is what parts cost.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from benchmarks.data_sets import ADULT, MissingDataError, adult_table, data_path
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from benchmarks.timed_budgets import measured_pace
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.search import rounds
from kanonflow.solvers.shapes.graphs import solve_graph

WINDOW_ROWS = 5_000
K = 5
# (loss within, rows a second)
TARGETS = ((0.05, 8_000.0), (0.02, 3_000.0))


def windows_of(table: Table, rows: int) -> list[Table]:
    """Whole windows of so many rows."""
    return [
        replace(
            table,
            numeric=table.numeric[first : first + rows],
            categorical=table.categorical[first : first + rows],
        )
        for first in range(0, table.records - rows + 1, rows)
    ]


def one_thread(windows: list[Table], budgets: list[float], seconds: float, findings: Findings) -> None:
    """The loss at each budget, and which are within the targets."""
    budget = measured_pace(windows[0], K).budget(seconds)
    assert budget is not None
    best = float(
        np.mean([solve_graph(Task(each, K, budget=budget, seed=1), untie=False).loss for each in windows])
    )
    table = findings.table(
        "One thread, windows of 5,000 rows",
        ["evaluations a row", "rows/s", "GCP", "to the reference"],
        f"Reference: {best:.5f} at {budget.evaluations_per_row:,.0f} evaluations a row, {seconds:g} s a window.",
    )
    for each in budgets:
        runs = [
            timed(solve_graph, Task(part, K, budget=Budget(each), seed=1), untie=False) for part in windows
        ]
        loss = float(np.mean([solution.loss for solution, _ in runs]))
        speed = sum(part.records for part in windows) / sum(spent.cpu for _, spent in runs)
        table.rows.append((each, speed, loss, loss / best))
    targets = findings.table("Targets", ["loss within", "rows/s", "at least", "met"])
    for within, least in TARGETS:
        fast = max((row[1] for row in table.rows if row[3] <= 1 + within), default=0.0)
        targets.rows.append((f"{within:.0%}", fast, least, fast >= least))


def two_threads(table: Table, pairs: int, findings: Findings) -> None:
    """Wall times of one and two threads over one window, and what searching in parts costs."""
    ratios, losses = [], []
    for seed in range(1, pairs + 1):
        runs = [
            timed(solve_graph, Task(table, K, budget=Budget(), seed=seed, threads=threads), untie=False)
            for threads in (1, 2)
        ]
        ratios.append(runs[0][1].wall / runs[1][1].wall)
        losses.append(runs[0][0].loss)
        assert np.array_equal(runs[0][0].graph.members, runs[1][0].graph.members)
    parts = rounds.shards_for
    rounds.shards_for = lambda slots: 1
    try:
        whole = [
            solve_graph(Task(table, K, budget=Budget(), seed=seed), untie=False).loss
            for seed in range(1, pairs + 1)
        ]
    finally:
        rounds.shards_for = parts
    found = findings.table("Two threads on one window", ["rows", "parts", "speed-up", "GCP", "loss ratio"])
    found.rows.append(
        (
            table.records,
            parts(table.records),
            float(np.median(ratios)),
            float(np.mean(losses)),
            float(np.mean(losses) / np.mean(whole)),
        )
    )


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Rows a second at which loss.")
    parser.add_argument(
        "--budgets",
        type=float,
        nargs="+",
        default=[200.0, 400.0, 800.0, 1200.0, 1600.0, 2500.0, 3500.0, 5000.0],
    )
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--reference-seconds", type=float, default=10.0)
    parser.add_argument("--pairs", type=int, default=2)
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("throughput", __doc__ or "")
    try:
        table = adult_table(data_path(ADULT))
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    windows = windows_of(table, WINDOW_ROWS)[: arguments.windows]
    one_thread(windows, arguments.budgets, arguments.reference_seconds, findings)
    if arguments.pairs:
        two_threads(table, arguments.pairs, findings)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
