"""What keeps Split & Carry behind l-greedy: its program, the length of its segments, or the sort order?

Data: census-4 of 1,000 rows (benchmarks/generated_tables), as S0 runs it on a census extract of four attributes; and
four numbers drawn evenly, of which no two rows are alike. Loss: GCP of the hulls of the classes, before any search;
ratios are to l-greedy in this run. Segments are as long as so many columns allow (classes of k to choose from, rows
that are alike counted once); 0 leaves the sorted blocks of k. Nearly all programs are solved to their optimum. Orders:
by attributes of ascending variance, as printed, or of descending. CPU seconds of one call, kernels loaded; one seed.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from benchmarks.generated_tables import census_table
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.split_and_carry import COLUMNS, split_and_carry_members
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.solvers.starts.l_greedy import sorted_rows
from kanonflow.solvers.units.distinct_rows import Units, group_rows

SEED = 1
ORDERS = ("ascending", "descending")


def even_table(rows: int) -> Table:
    """Four numbers, each drawn evenly from [0, 1]."""
    drawn = np.random.default_rng(SEED).random((rows, 4))
    return Table(drawn, np.empty((rows, 0), np.int32), np.empty(0, np.int64), np.ones(4))


def ordered_rows(units: Units, order: str) -> NDArray[np.int32]:
    """Rows as l-greedy sorts them, or by attributes of descending variance."""
    rows = np.repeat(np.arange(units.weight.size, dtype=np.int32), units.weight)
    if order == "ascending":
        return sorted_rows(units, rows)
    values = units.features.numeric[rows]
    return rows[np.lexsort([values[:, j] for j in np.argsort(values.var(axis=0), kind="stable")])]


def hull_loss(units: Units, members: NDArray[np.int32]) -> float:
    """GCP of slots over units; numbers only."""
    return float(np.ptp(units.features.numeric[members], axis=1).sum(axis=1).mean())


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Split & Carry, by length of segments and sort order.")
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--k", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--columns", type=int, nargs="+", default=[0, 300, 1_000, COLUMNS])
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("segments", __doc__ or "", module="segments")
    found = findings.table(
        "Split & Carry by columns of a segment and sort order",
        ["data", "rows", "k", "variance", "columns", "GCP", "to l-greedy", "CPU s"],
    )
    for name, table in (
        ("census-4", census_table(arguments.rows, SEED)),
        ("even", even_table(arguments.rows)),
    ):
        units = group_rows(table)
        for k in arguments.k:
            task = Task(table, k, start="l-greedy", budget=Budget(0), seed=SEED)
            base = solve_graph(task, search=False, untie=False).loss
            for order in ORDERS:
                for columns in arguments.columns if order == ORDERS[0] else arguments.columns[-1:]:
                    members, spent = timed(
                        split_and_carry_members, units, k, distinct=False, columns=columns,
                        order=ordered_rows(units, order),
                    )  # fmt: skip
                    loss = hull_loss(units, members)
                    found.rows.append((name, arguments.rows, k, order, columns, loss, loss / base, spent.cpu))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
