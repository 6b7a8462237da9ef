"""Budgets in evaluations that last so many CPU seconds on this machine, as it is now."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.stopwatch import timed
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes.graphs import solve_graph

# A little less than what fits, because other people's load comes and goes.
SAFETY = 0.85
PROBES = (100.0, 500.0)


class Pace(NamedTuple):
    """fixed: CPU seconds before the search. each: of an evaluation a row, over all rows."""

    fixed: float
    each: float

    def budget(self, seconds: float) -> Budget | None:
        """Evaluations a row that end in that many CPU seconds; None when the start alone takes longer."""
        left = SAFETY * seconds - self.fixed
        return Budget(left / self.each) if left > self.each else None


def measured_pace(table: Table, k: int, seed: int = 1) -> Pace:
    """Pace of the default search over a table, from two short ones."""
    solve_graph(Task(table, k, budget=Budget(1.0), seed=seed), untie=False)
    short, longer = (
        timed(solve_graph, Task(table, k, budget=Budget(probe), seed=seed), untie=False)[1].cpu
        for probe in PROBES
    )
    each = max((longer - short) / (PROBES[1] - PROBES[0]), 1e-9)
    return Pace(max(short - PROBES[0] * each, 0.0), each)
