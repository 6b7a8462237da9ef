"""Tables of numbers in, k-anonymous structures out: ``solve(Task(Table(...), k, seed=1), "auto")``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanonflow.solvers.dispatch import solve
    from kanonflow.solvers.problem.budget import Budget
    from kanonflow.solvers.problem.table import Table
    from kanonflow.solvers.problem.task import Task
    from kanonflow.solvers.solution import Solution

__all__ = ["Budget", "Solution", "Table", "Task", "solve"]

_HOMES = {
    "Budget": "problem.budget",
    "Solution": "solution",
    "Table": "problem.table",
    "Task": "problem.task",
    "solve": "dispatch",
}
"""Where each name is made, and loaded when it is asked for: what derives a key from a secret solves nothing."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"kanonflow.solvers.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
