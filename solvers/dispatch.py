"""One entrance to every solver: ``solve(Task(table, k, seed=1), method)``."""

from __future__ import annotations

from kanonflow.solvers.catalogue import solver_named
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.solution import Solution


def solve(task: Task, method: str = "auto") -> Solution:
    """A k-anonymous structure of low information loss over a table.

    method: ``auto`` and ``iterated-local-search`` search from ``task.start``; a start's name returns that start;
    ``certify`` adds the LP bound with its proof, and rounds the program (shape row_graph; no warm start);
    ``pass-through`` puts everybody into one class, for measuring what solving costs; ``paper-local-search`` and
    ``paper-iterated-local-search`` are S0's search as printed (paper_graphs.py), for shape row_graph and cold starts.

    Raises BudgetError for an unknown method or start, or one that does not serve the task's shape and loss,
    UnservedError for a table that it does not take, InfeasibleError when no structure exists. The result is a function
    of the arguments but for a deadline.
    """
    return solver_named(method).solve(task)
