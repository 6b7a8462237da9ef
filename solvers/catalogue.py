"""Every solver by name: the shapes it answers in, the losses it lowers, and what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.limits import ANYTHING, Limits
from kanonflow.solvers.problem.parameters import unknown_parameters
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.registered import registered, registered_names
from kanonflow.solvers.search.slot_loss import PLACE
from kanonflow.solvers.shapes.class_starts import ClassStart
from kanonflow.solvers.shapes.classes import CLASS_LOSSES, CLASS_STARTS, LARGEST_K, solve_classes
from kanonflow.solvers.shapes.graph_starts import BUILT_STARTS, GraphStart
from kanonflow.solvers.shapes.graphs import GRAPH_STARTS, LOSSES, solve_graph
from kanonflow.solvers.shapes.lattices import LatticeSolver
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

    graph_start, class_start: what the search begins with where a task or a policy names it as a start. levels: what
    runs where it is asked for a node of a lattice. parameters: a dataclass of what may be chosen of it
    (``problem/parameters.py``); None: nothing.
    """

    name: str
    ways: Mapping[str, Way]
    start: str | None = None
    limits: Limits = ANYTHING
    graph_start: GraphStart | None = None
    class_start: ClassStart | None = None
    levels: LatticeSolver | None = None
    parameters: type[Any] | None = None

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
        """A k-anonymous structure of low loss.

        Raises as ``way`` does, BudgetError for a parameter that neither it nor the task's start has, and what the
        solver itself raises.
        """
        way = self.way(task)
        if unknown := unknown_parameters(taking_parameters(self, task.start), task.parameters):
            mistakes = "; ".join(f"no parameter {name!r}: {meant}" for name, meant in unknown.items())
            raise BudgetError(f"method {self.name}, start {task.start}: {mistakes}")
        if self.start is not None:
            task = replace(task, start=self.start)
        return way.run(task if way.warm else replace(task, warm=None))


# A graph's slots name their members' places in so many bits.
LARGEST_GRAPH_K = PLACE - 1


def _searching(name: str) -> Solver:
    graph = Way(solve_graph, LOSSES, LARGEST_GRAPH_K, warm=True)
    return Solver(name, {"row_graph": graph, "classes": Way(solve_classes, CLASS_LOSSES, warm=True)})


def start_alone(
    name: str,
    graph_start: GraphStart | None = None,
    class_start: ClassStart | None = None,
    *,
    limits: Limits = ANYTHING,
    warm: bool = False,
    levels: LatticeSolver | None = None,
    parameters: type[Any] | None = None,
) -> Solver:
    """The start of that name as it is, without a search. warm: whether it knows what to do with old classes."""
    ways = {}
    if graph_start is not None:
        ways["row_graph"] = Way(partial(solve_graph, search=False), LOSSES, LARGEST_GRAPH_K)
    if class_start is not None or name in CLASS_STARTS:
        ways["classes"] = Way(partial(solve_classes, search=False), CLASS_LOSSES, warm=warm)
    return Solver(name, ways, name, limits, graph_start, class_start, levels, parameters)


def _pass_through() -> Solver:
    """Everybody in one class, whatever is asked for: to measure what solving costs."""
    everybody = Way(partial(solve_classes, search=False))
    return Solver("pass-through", {"row_graph": everybody, "classes": everybody}, start="one-class")


SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        _searching("auto"),
        _searching("iterated-local-search"),
        *(start_alone(name, start) for name, start in BUILT_STARTS.items()),
        _pass_through(),
    )
}
"""What the product brings itself; ``find_solver`` knows those of packages, too."""
STARTS: dict[str, tuple[str, ...]] = {"row_graph": GRAPH_STARTS, "classes": CLASS_STARTS}
"""The product's starts that a search in a shape takes by name."""


def find_solver(name: str) -> Solver | None:
    """The solver of that name: the product's, else the one that a package brings (``registered``), else None.

    Raises BudgetError: a package brings something else under this name, or cannot be imported.
    """
    found = SOLVERS.get(name) or registered(name)
    if found is not None and not isinstance(found, Solver):
        raise BudgetError(
            f"what is registered as solver {name!r} is no Solver of kanonflow.solvers.catalogue"
        )
    return found


def solver_named(method: str) -> Solver:
    """The solver of that name; raises BudgetError, naming all of them, when there is none."""
    if (found := find_solver(method)) is None:
        raise BudgetError(f"unknown method {method!r}: choose one of {', '.join(solver_names())}")
    return found


def taking_parameters(solver: Solver, start: str) -> tuple[type[Any] | None, ...]:
    """Whose parameters a task may choose: the method's, and those of the start that it searches from."""
    begun = find_solver(start) if solver.start is None else None
    return (solver.parameters, None if begun is None else begun.parameters)


def solver_names() -> tuple[str, ...]:
    """Every name that ``solve`` takes as its method. Imports no package."""
    return (*SOLVERS, *(name for name in registered_names() if name not in SOLVERS))


def method_names(shape: str) -> tuple[str, ...]:
    """Methods that answer in a shape, those that packages bring included: all of these are imported for it."""
    return tuple(name for name in solver_names() if shape in solver_named(name).ways)


def takes_start(shape: str, name: str) -> bool:
    """Whether a search in a shape can begin with the start of that name."""
    if name in STARTS[shape]:
        return True
    found = find_solver(name)
    return (
        found is not None and (found.graph_start if shape == "row_graph" else found.class_start) is not None
    )


def start_names(shape: str) -> tuple[str, ...]:
    """Starts that a search in a shape takes by name; as ``method_names``, it imports them all."""
    return (
        *STARTS[shape],
        *(name for name in solver_names() if name not in STARTS[shape] and takes_start(shape, name)),
    )
