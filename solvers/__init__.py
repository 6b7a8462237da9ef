"""Tables of numbers in, k-anonymous structures out: ``solve(Table(...), k, budget=Budget(...), seed=1)``."""

# Not by a lazy __getattr__: the module solve would hide the function of that name.
from kanonflow.solvers.budget import Budget
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.solve import solve
from kanonflow.solvers.table import Table

__all__ = ["Budget", "Solution", "Table", "solve"]
