"""One entrance to every solver: ``solve(table, k, method=..., start=..., budget=..., seed=...)``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.budget import Budget
from kanonflow.solvers.diversity import Sensitive
from kanonflow.solvers.errors import BudgetError
from kanonflow.solvers.search.rounds import Progress
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.solve_classes import CLASS_STARTS, WarmClasses, solve_classes
from kanonflow.solvers.solve_graph import GRAPH_STARTS, solve_graph
from kanonflow.solvers.table import Table
from kanonflow.solvers.warm_start import WarmGraph

# method -> (the start it stands for, whether the search goes on from there)
METHODS: dict[str, tuple[str | None, bool]] = {
    "auto": (None, True),
    "iterated-local-search": (None, True),
    "l-greedy": ("l-greedy", False),
    "kd-leaves": ("kd-leaves", False),
    "constructive": ("constructive", False),
    "pass-through": ("one-class", False),
}
# shape -> what the previous window leaves for it
SHAPES: dict[str, type] = {"graph": WarmGraph, "classes": WarmClasses}
STARTS = tuple(dict.fromkeys((*GRAPH_STARTS, *CLASS_STARTS)))


def solve(
    table: Table,
    k: int,
    *,
    shape: str = "graph",
    method: str = "auto",
    start: str = "auto",
    budget: Budget | None = None,
    seed: int,
    threads: int = 1,
    warm: WarmGraph | WarmClasses | None = None,
    priority: NDArray[np.int64] | None = None,
    sensitive: Sequence[Sensitive] = (),
    clock: Callable[[], float] = time.monotonic,
    progress: Progress | None = None,
) -> Solution:
    """A k-anonymous structure of low information loss over a table.

    shape: ``graph`` (k-regular graph over records) or ``classes`` (closed classes of individuals).
    method: ``auto`` and ``iterated-local-search`` search from ``start``; a start's name returns that start;
    ``pass-through`` puts everybody into one class, for measuring what solving costs. warm: what the previous window
    left, WarmGraph or WarmClasses by shape. priority: which rows of an individual stay (classes only).
    sensitive: fields whose values in each class must meet rules (classes only).

    Raises BudgetError for an unknown method, start or shape, InfeasibleError when no structure exists. The result is
    a function of the arguments but for a deadline.
    """
    if method not in METHODS:
        raise BudgetError(f"unknown method {method!r}: choose one of {', '.join(METHODS)}")
    if shape not in SHAPES:
        raise BudgetError(f"unknown shape {shape!r}: choose one of {', '.join(SHAPES)}")
    if warm is not None and not isinstance(warm, SHAPES[shape]):
        raise BudgetError(f"shape {shape} takes a {SHAPES[shape].__name__} as warm start")
    if sensitive and shape != "classes":
        raise BudgetError("rules for sensitive values need shape classes")
    named, search = METHODS[method]
    chosen = named if named is not None else start
    budget = budget if budget is not None else Budget()
    if method == "pass-through" or shape == "classes":
        return solve_classes(
            table,
            k,
            start=chosen,
            budget=budget,
            seed=seed,
            threads=threads,
            warm=warm if search and isinstance(warm, WarmClasses) else None,
            search=search,
            priority=priority,
            sensitive=sensitive,
            clock=clock,
            progress=progress,
        )
    return solve_graph(
        table,
        k,
        start=chosen,
        budget=budget,
        seed=seed,
        threads=threads,
        warm=warm if search and isinstance(warm, WarmGraph) else None,
        search=search,
        clock=clock,
        progress=progress,
    )
