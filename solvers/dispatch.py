"""One entrance to every solver: ``solve(table, k, method=..., start=..., budget=..., seed=...)``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.class_search.diversity import Sensitive
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.paper_search import PaperSearch
from kanonflow.solvers.search.rounds import Progress
from kanonflow.solvers.shapes.certify import LARGEST_ROWS as LARGEST_CERTIFIED
from kanonflow.solvers.shapes.certify import certify_graph
from kanonflow.solvers.shapes.classes import CLASS_STARTS, solve_classes
from kanonflow.solvers.shapes.graph_starts import BUILT_STARTS
from kanonflow.solvers.shapes.graphs import GRAPH_STARTS, solve_graph
from kanonflow.solvers.shapes.level_classes import LEVEL_STARTS
from kanonflow.solvers.shapes.paper_graphs import PAPER_METHODS, solve_paper
from kanonflow.solvers.shapes.warm_classes import WarmClasses
from kanonflow.solvers.shapes.warm_start import WarmGraph
from kanonflow.solvers.solution import Solution

# method -> (the start it stands for, whether the search goes on from there)
METHODS: dict[str, tuple[str | None, bool]] = {
    "auto": (None, True),
    "iterated-local-search": (None, True),
    "certify": (None, True),
    **{start: (start, False) for start in (*BUILT_STARTS, *LEVEL_STARTS)},
    "pass-through": ("one-class", False),
    **dict.fromkeys(PAPER_METHODS, (None, True)),
}
# shape -> what the previous window leaves for it
SHAPES: dict[str, type] = {"graph": WarmGraph, "classes": WarmClasses}
# Methods that build graphs over records and nothing else.
GRAPH_ONLY = ("certify", *PAPER_METHODS)
# The most rows that a method of several steps takes at once; those of starts stand beside the starts.
LARGEST_SEARCHED = {"certify": LARGEST_CERTIFIED}
# Methods that know one loss.
NCP_ONLY = ("pass-through", "certify")
STARTS = tuple(dict.fromkeys((*GRAPH_STARTS, *CLASS_STARTS)))


def solve(
    table: Table,
    k: int,
    *,
    shape: str = "graph",
    method: str = "auto",
    start: str = "auto",
    loss: str = "ncp",
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
    ``certify`` adds the LP bound with its certificate, and rounds the program (shape graph; no warm start);
    ``pass-through`` puts everybody into one class, for measuring what solving costs; ``paper-local-search`` and
    ``paper-iterated-local-search`` are S0's search as printed (paper_graphs.py), for shape graph and cold starts.
    loss: what is lowered and reported, ``ncp`` (GCP) or ``sil`` (no lower bound then).
    warm: what the previous window left, by shape. priority: which rows of an individual stay (shape classes only).
    sensitive: fields whose values in each class must meet rules (shape classes only).

    Raises BudgetError for an unknown method, start, shape or loss, InfeasibleError when no structure exists. The
    result is a function of the arguments but for a deadline.
    """
    if method not in METHODS:
        raise BudgetError(f"unknown method {method!r}: choose one of {', '.join(METHODS)}")
    if shape not in SHAPES:
        raise BudgetError(f"unknown shape {shape!r}: choose one of {', '.join(SHAPES)}")
    if warm is not None and not isinstance(warm, SHAPES[shape]):
        raise BudgetError(f"shape {shape} takes a {SHAPES[shape].__name__} as warm start")
    if method in GRAPH_ONLY and shape != "graph":
        raise BudgetError(f"method {method} needs shape graph, not {shape}")
    if sensitive and shape != "classes":
        raise BudgetError("rules for sensitive values need shape classes")
    if loss != "ncp" and method in NCP_ONLY:
        raise BudgetError(f"loss {loss} needs a method other than {' and '.join(NCP_ONLY)}")
    named, search = METHODS[method]
    chosen = named if named is not None else start
    given: dict[str, Any] = {
        "start": chosen,
        "budget": budget if budget is not None else Budget(),
        "seed": seed,
        "threads": threads,
        "search": search,
        "clock": clock,
    }
    if method in PAPER_METHODS:
        del given["search"]
        return solve_paper(
            table, k, method=method, parameters=PaperSearch(loss=loss), progress=progress, **given
        )
    if method == "pass-through" or shape == "classes":
        # The old classes are one of KAB's stars; the other starts know nothing of them.
        earlier = warm if (search or chosen == "kab") and isinstance(warm, WarmClasses) else None
        given |= {"priority": priority, "sensitive": sensitive, "loss": loss, "progress": progress}
        return solve_classes(table, k, warm=earlier, **given)
    if method == "certify":
        return certify_graph(table, k, **{name: value for name, value in given.items() if name != "search"})
    graph = warm if search and isinstance(warm, WarmGraph) else None
    return solve_graph(table, k, warm=graph, loss=loss, progress=progress, **given)
