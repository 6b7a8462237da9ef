"""Every solver by name: the shapes it answers in, the losses it lowers, and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.limits import ANYTHING, Limits
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.search.slot_loss import PLACE
from kanonflow.solvers.shapes.certify import CERTIFY_LIMITS, certify_graph
from kanonflow.solvers.shapes.classes import CLASS_LOSSES, CLASS_STARTS, LARGEST_K, solve_classes
from kanonflow.solvers.shapes.graph_starts import BUILT_STARTS, LEVELLED_STARTS
from kanonflow.solvers.shapes.graphs import GRAPH_STARTS, LOSSES, solve_graph
from kanonflow.solvers.shapes.paper_graphs import PAPER_METHODS, solve_paper
from kanonflow.solvers.solution import Solution


@dataclass(frozen=True)
class Way:
    """How a solver comes to an answer in one shape.

    losses: those it lowers. largest_k: the largest k that it takes. warm: whether it goes on from the window before.
    """

    run: Callable[[Task], Solution]
    losses: tuple[str, ...] = LOSSES[:1]
    largest_k: int = LARGEST_K
    warm: bool = False


@dataclass(frozen=True)
class Solver:
    """ways: by the shape that is asked for. start: the start that it stands for; None: it searches from any.
    limits: what it takes beside that, which those who know the feed ask before the first window.
    """

    name: str
    ways: Mapping[str, Way]
    start: str | None = None
    limits: Limits = ANYTHING

    def way(self, task: Task) -> Way:
        """How it solves the task. Raises BudgetError for a shape or a loss that is none of its own."""
        if task.shape not in self.ways:
            raise BudgetError(f"method {self.name} needs shape {' or '.join(self.ways)}, not {task.shape}")
        way = self.ways[task.shape]
        if task.loss not in way.losses:
            raise BudgetError(
                f"method {self.name} in shape {task.shape} takes loss {' or '.join(way.losses)}, not {task.loss}"
            )
        return way

    def solve(self, task: Task) -> Solution:
        """A k-anonymous structure of low loss. Raises as ``way`` does, and what the solver itself raises."""
        way = self.way(task)
        if self.start is not None:
            task = replace(task, start=self.start)
        return way.run(task if way.warm else replace(task, warm=None))


# A graph's slots name their members' places in so many bits.
LARGEST_GRAPH_K = PLACE - 1


def _searching(name: str) -> Solver:
    graph = Way(solve_graph, LOSSES, LARGEST_GRAPH_K, warm=True)
    return Solver(name, {"row_graph": graph, "classes": Way(solve_classes, CLASS_LOSSES, warm=True)})


def _start_alone(name: str, limits: Limits) -> Solver:
    """The start of that name as it is. Only KAB knows what to do with old classes: they are one of its stars."""
    ways = {"row_graph": Way(partial(solve_graph, search=False), LOSSES, LARGEST_GRAPH_K)}
    if name in CLASS_STARTS:
        ways["classes"] = Way(partial(solve_classes, search=False), CLASS_LOSSES, warm=name == "kab")
    return Solver(name, ways, start=name, limits=limits)


def _pass_through() -> Solver:
    """Everybody in one class, whatever is asked for: to measure what solving costs."""
    everybody = Way(partial(solve_classes, search=False))
    return Solver("pass-through", {"row_graph": everybody, "classes": everybody}, start="one-class")


def _certify() -> Solver:
    way = Way(certify_graph, largest_k=LARGEST_GRAPH_K)
    return Solver("certify", {"row_graph": way}, limits=CERTIFY_LIMITS)


def _paper(name: str) -> Solver:
    return Solver(name, {"row_graph": Way(partial(solve_paper, method=name), LOSSES, LARGEST_GRAPH_K)})


SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        _searching("auto"),
        _searching("iterated-local-search"),
        _certify(),
        *(_start_alone(name, start.limits) for name, start in {**BUILT_STARTS, **LEVELLED_STARTS}.items()),
        _pass_through(),
        *map(_paper, PAPER_METHODS),
    )
}
STARTS: dict[str, tuple[str, ...]] = {"row_graph": GRAPH_STARTS, "classes": CLASS_STARTS}
"""The starts that a search in a shape takes by name."""


def solver_named(method: str) -> Solver:
    """The solver of that name; raises BudgetError, naming all of them, when there is none."""
    if method not in SOLVERS:
        raise BudgetError(f"unknown method {method!r}: choose one of {', '.join(SOLVERS)}")
    return SOLVERS[method]
