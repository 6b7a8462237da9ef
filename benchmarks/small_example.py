"""Is the example of S2 (its Table I) the best that its eight tuples allow, and what do its algorithms make of them?

Data: the ages and salaries of S2's Table I, eight tuples, k = 3, each attribute over the range of the eight. Loss: GCP
of the hulls (S2, eq. 3). Beside the graph that the table prints stand the constructions of S2, the Hungarian one that
S0 tells of, the ring, l-greedy, our search from it, and a bound below which no graph is, which ``certify`` proves; each
ratio is to the printed graph. Graphs are as they were built: two-edge cuts, which the product exchanges away, are left
in, as the printed graph has them. CPU time is not the question: each takes milliseconds.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes.graphs import solve_graph

AGES = (59, 57, 39, 28, 41, 37, 40, 53)
SALARIES = (25, 27, 47, 41, 20, 59, 35, 34)
# The originals that each published tuple of the table matches.
PRINTED = ((0, 1, 7), (0, 1, 7), (2, 3, 5), (3, 4, 5), (0, 4, 6), (2, 3, 5), (2, 4, 6), (1, 6, 7))
PRINTED_NAME = "as printed in Table I"
K = 3
STARTS = ("ring", "greedy", "sort-greedy", "hungarian", "l-greedy")


def example_table() -> Table:
    """The eight tuples."""
    values = np.array([AGES, SALARIES], dtype=np.float64).T
    scaled = (values - values.min(axis=0)) / np.ptp(values, axis=0)
    return Table(scaled, np.empty((8, 0), np.int32), np.empty(0, np.int64), np.ones(2))


def printed_loss(members: tuple[tuple[int, ...], ...] = PRINTED) -> float:
    """GCP of a graph over the eight tuples, by the sums of its slots' ranges."""
    table = example_table()
    return float(np.mean([np.ptp(table.numeric[list(slot)], axis=0).mean() for slot in members]))


def built_loss(table: Table, start: str) -> float:
    """GCP of a construction alone."""
    task = Task(table, K, start=start, budget=Budget(0), seed=1)
    return solve_graph(task, search=False, untie=False).loss


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="S2's example, by its algorithms and at the least loss.")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("small_example", __doc__ or "", module="small_example")
    shown = findings.table("Eight tuples, k = 3", ["graph", "GCP", "to the printed"])
    table, printed = example_table(), printed_loss()
    rows = [(PRINTED_NAME, printed)]
    rows += [(name, built_loss(table, name)) for name in STARTS]
    rows.append(("our search", solve_graph(Task(table, K, seed=1), untie=False).loss))
    rows.append(("proven bound", solve(Task(table, K, seed=1), "certify").lower_bound))
    shown.rows += [(name, loss, loss / printed) for name, loss in rows]
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
