"""Whether the solver that a policy names can serve it: found out before the first window, not in mid-feed."""

from __future__ import annotations

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import LATTICE_METHODS, Cohort, Policy, Shape
from kanonflow.solvers.search.slots import PLACE
from kanonflow.solvers.solve import METHODS
from kanonflow.solvers.solve_classes import CLASS_STARTS, LARGEST_K
from kanonflow.solvers.solve_cohorts import ROOM
from kanonflow.solvers.solve_graph import GRAPH_STARTS
from kanonflow.transforms.lattice_windows import check_lattice_solver


def check_solver(policy: Policy) -> None:
    """Raise PolicyError, naming everything that is wrong, unless the solver takes this method, start and k.

    Why: a solver that refuses in a timer would end a bounded run half-way, and block a stream for ever.
    """
    if policy.by_levels:
        check_lattice_solver(policy)
        return
    closed = policy.closed
    kind = "shape: graph" if policy.shape is Shape.GRAPH else f"protect: {policy.protect}"
    starts = CLASS_STARTS if closed else GRAPH_STARTS
    choice = policy.solver
    mistakes = []
    if choice.suppression:
        mistakes.append(
            f"solver.suppression: only solvers that publish levels suppress rows: {', '.join(LATTICE_METHODS)}"
        )
    usable = [name for name, (start, _) in METHODS.items() if start in (None, "one-class", *starts)]
    if choice.method not in usable:
        levels = f", or for levels of hierarchies {', '.join(LATTICE_METHODS)}"
        mistakes.append(f"solver.method: with {kind} it must be one of {', '.join(usable)}{levels}")
    if choice.start not in starts:
        mistakes.append(f"solver.start: with {kind} it must be one of {', '.join(starts)}")
    largest = LARGEST_K if closed or choice.method == "pass-through" else PLACE - 1
    if policy.cohort is Cohort.STRICT:
        largest = LARGEST_K // ROOM
        if choice.method == "pass-through":
            mistakes.append("solver.method: pass-through remembers no classes; cohort: strict needs them")
    if policy.k > largest:
        mistakes.append(f"k: the solver takes at most {largest}")
    if mistakes:
        raise PolicyError(mistakes, policy.name)
