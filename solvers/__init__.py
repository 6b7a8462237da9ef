"""Tables of numbers in, k-anonymous structures out: ``solve(Task(Table(...), k, seed=1), "auto")``."""

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.solution import Solution

__all__ = ["Budget", "Solution", "Table", "Task", "solve"]
