"""Tables of numbers in, k-anonymous structures out: ``solve(Table(...), k, budget=Budget(...), seed=1)``."""

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.solution import Solution

__all__ = ["Budget", "Solution", "Table", "solve"]
