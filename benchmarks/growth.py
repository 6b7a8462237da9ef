"""How do time and memory grow with the window?

Data: UCI Adult, of which a window of n rows takes n rows drawn with replacement; with each, a tenth of the
categorical values are exchanged for those of other rows and the age moves by up to two years, so that 100,000
rows are not four copies of 30,162. k = 5, seed 1, method auto, one thread; kernels loaded before.

Equal relative quality: for each n the loss at 4,000 evaluations a row is the mark, and the seconds are those of
the smallest budget tried (each twice the one before) whose loss is within 5% of it. CPU seconds of the whole call.
Memory: the peak of the process's resident set up to then, sizes ascending, so each is an upper bound.
Targets: 40,000 rows in at most 10 times the seconds of 5,000, and 100,000 rows within 8 GiB.
"""

from __future__ import annotations

import argparse
import resource
from dataclasses import replace

import numpy as np

from benchmarks.data_sets import ADULT, MissingDataError, adult_table, data_path
from benchmarks.line_charts import line_chart
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes.graphs import solve_graph

K = 5
WITHIN = 0.05
BUDGETS = (125.0, 250.0, 500.0, 1000.0)
MARK = 4.0
MOST_GROWTH = 10.0
MOST_GIB = 8.0


def noisy(table: Table, rows: int, seed: int) -> Table:
    """So many rows drawn from a table with replacement, and disturbed."""
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, table.records, rows)
    numeric = table.numeric[drawn] + generator.integers(-2, 3, (rows, table.numeric.shape[1])) / 73.0
    categorical = table.categorical[drawn].copy()
    for column in categorical.T:
        other = generator.random(rows) < 0.1
        column[other] = generator.permutation(column)[other]
    return replace(table, numeric=np.clip(numeric, 0.0, 1.0), categorical=categorical)


def peak_gib() -> float:
    """The largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(table: Table, found: ResultTable) -> float:
    """Add a size; returns the CPU seconds to the mark."""
    mark = solve_graph(Task(table, K, budget=Budget(MARK * BUDGETS[-1]), seed=1), untie=False).loss
    seconds = 0.0
    for each in BUDGETS:
        solution, spent = timed(solve_graph, Task(table, K, budget=Budget(each), seed=1), untie=False)
        seconds = spent.cpu
        if solution.loss <= (1 + WITHIN) * mark:
            break
    ratio = solution.loss / mark
    found.rows.append(
        (table.records, each, seconds, 1e3 * seconds / table.records, solution.loss, ratio, peak_gib())
    )
    return seconds


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Time and memory from 1,000 to 100,000 rows.")
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[1_000, 2_000, 5_000, 10_000, 20_000, 40_000, 100_000]
    )
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("growth", __doc__ or "")
    try:
        table = adult_table(data_path(ADULT))
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    solve_graph(Task(noisy(table, 500, 1), K, budget=Budget(20.0), seed=1), untie=False)
    columns = ["rows", "evaluations a row", "CPU s", "ms a row", "GCP", "to the mark", "peak GiB"]
    found = findings.table("Seconds to come within 5% of 4,000 evaluations a row", columns)
    seconds = {rows: measure(noisy(table, rows, 1), found) for rows in sorted(arguments.rows)}
    targets = findings.table("Targets", ["what", "found", "at most", "met"])
    if {5_000, 40_000} <= seconds.keys():
        growth = seconds[40_000] / seconds[5_000]
        targets.rows.append(
            ("seconds of 40,000 rows to those of 5,000", growth, MOST_GROWTH, growth <= MOST_GROWTH)
        )
    targets.rows.append((f"GiB at {max(seconds):,} rows", peak_gib(), MOST_GIB, peak_gib() <= MOST_GIB))
    arguments.results.mkdir(parents=True, exist_ok=True)
    chart = line_chart(
        "Time to 5% of the long search", "rows", "CPU seconds", {"auto": sorted(seconds.items())}
    )
    (arguments.results / "growth.svg").write_text(chart, encoding="utf-8")
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
