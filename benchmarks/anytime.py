"""What does the search keep after so many seconds, and what do other methods keep in the time that they take?

Data: UCI Adult, complete cases, all 30,162 rows or the first ones; 8 quasi-identifiers, age numeric over the
range of the rows taken, 7 categorical. Loss: GCP of the hulls. One thread, one process, kernels loaded
before. Seconds are CPU seconds of the whole call: grouping, neighbours, start, search, dealing rows.

Search: ``solve_graph`` with method auto, ended by a deadline on the CPU clock a little before the seconds stated (for
dealing rows); ``CPU s`` is what the run then took. Such a run does not repeat exactly; the evaluations that it made do.
``GCP`` is what the search found (untie=False), ``GCP, untied`` the same graph after its two-edge cuts were
mended, as the product releases it; the exchange is not in the time. Other methods: ``solve`` with
the method's name, which goes without a search; a method that refuses the size is named as skipped. Targets are at
all rows: the loss without untying, within the seconds stated (which are tried there whatever --seconds says).
KANONFLOW_DATA names the folder of the data.
"""

from __future__ import annotations

import argparse
import time

from benchmarks.data_sets import ADULT, MissingDataError, adult_table, data_path
from benchmarks.line_charts import line_chart
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.catalogue import solver_names
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import SolverError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes.graphs import solve_graph, untie_graph
from kanonflow.solvers.structures.graph import GeneralizationGraph

ALL_ROWS = 30_162
# Evaluations a row that no deadline leaves time for.
ENDLESS = 1e6
# What dealing rows and pricing the result take after the deadline.
SECONDS_A_ROW = 4e-6
SEARCHING = ("auto", "iterated-local-search")
# (k, seconds) -> largest loss at all rows.
TARGETS = {
    (5, 3.0): 0.0158,
    (5, 10.0): 0.0146,
    (5, 30.0): 0.0141,
    (2, 5.0): 0.0038,
    (10, 30.0): 0.0285,
    (20, 30.0): 0.0510,
}
Lines = dict[str, list[tuple[float, float]]]


def measure_search(
    table: Table,
    k: int,
    seconds: list[float],
    longest: float,
    seed: int,
    curves: ResultTable,
    targets: ResultTable,
) -> list[tuple[float, float]]:
    """Add the search at each number of seconds; returns (CPU seconds, loss)."""
    points = []
    if table.records == ALL_ROWS:
        seconds = sorted({*seconds, *(limit for goal_k, limit in TARGETS if goal_k == k)})
        seconds = [limit for limit in seconds if limit <= longest]
    for limit in seconds:
        deadline = max(0.96 * limit - 0.05 - table.records * SECONDS_A_ROW, 0.001)
        budget = Budget(ENDLESS, deadline_ms=1000.0 * deadline)
        solution, spent = timed(
            solve_graph, Task(table, k, budget=budget, seed=seed, clock=time.thread_time), untie=False
        )
        free = untie_graph(
            table, solution.graph.members, seed=seed, per_row=solution.evaluations / table.records
        )
        parted = gcp(table, GeneralizationGraph(free.members))
        each = round(solution.evaluations / table.records)
        curves.rows.append((table.records, k, "auto", spent.cpu, solution.loss, parted, each))
        points.append((spent.cpu, solution.loss))
        goal = TARGETS.get((k, limit))
        if goal is not None and table.records == ALL_ROWS:
            met = solution.loss <= goal and spent.cpu <= limit
            targets.rows.append((k, limit, goal, solution.loss, parted, spent.cpu, met))
    return points


def measure_rivals(table: Table, k: int, methods: list[str], findings: Findings, seed: int) -> Lines:
    """Add the methods that do not search, each once after a small exercise; returns their one point each."""
    curves = findings.tables[0]
    lines: Lines = {}
    for method in methods:
        try:
            solution, spent = timed(solve, Task(table, k, seed=seed), method)
        except SolverError as refused:
            findings.skipped.append(f"{method}, {table.records} rows, k={k}: {refused}")
            continue
        curves.rows.append((table.records, k, method, spent.cpu, solution.loss, None, 0))
        lines[method] = [(spent.cpu, solution.loss), (spent.cpu * 1.02 + 0.05, solution.loss)]
    return lines


def parsed(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description="Loss over time on Adult, auto against the methods without a search."
    )
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[5_000, ALL_ROWS], help="first rows of the file"
    )
    parser.add_argument("--k", type=int, nargs="+", default=[2, 5, 10, 20])
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--longest", type=float, default=30.0, help="leave out targets of more seconds")
    rivals = [name for name in solver_names() if name not in (*SEARCHING, "pass-through")]
    parser.add_argument("--methods", nargs="*", default=rivals, help="beside auto (default: every one)")
    parser.add_argument("--seed", type=int, default=1)
    add_result_arguments(parser)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    arguments = parsed(argv)
    begun = environment()
    single = f"_k{arguments.k[0]}" if len(arguments.k) == 1 else ""
    findings = Findings(f"anytime{single}", __doc__ or "", module="anytime")
    try:
        path = data_path(ADULT)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    columns = ["rows", "k", "method", "CPU s", "GCP", "GCP, untied", "evaluations a row"]
    curves = findings.table("Loss over time", columns)
    targets = findings.table(
        "Targets at all rows", ["k", "within s", "at most", "GCP", "GCP, untied", "CPU s", "met"]
    )
    small = adult_table(path, 200)
    for rows in arguments.rows:
        table = adult_table(path, rows)
        for k in arguments.k:
            for method in arguments.methods:
                solve(Task(small, k, seed=1), method)
            lines: Lines = {
                "auto": measure_search(
                    table, k, arguments.seconds, arguments.longest, arguments.seed, curves, targets
                )
            }
            lines |= measure_rivals(table, k, arguments.methods, findings, arguments.seed)
            name = f"anytime_{rows}_k{k}.svg"
            chart = line_chart(f"Adult, {rows:,} rows, k={k}: loss over time", "CPU seconds", "GCP", lines)
            arguments.results.mkdir(parents=True, exist_ok=True)
            (arguments.results / name).write_text(chart, encoding="utf-8")
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
