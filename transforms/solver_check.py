"""Whether the solver that a policy names can serve it: found out before the first window, not in mid-feed."""

from __future__ import annotations

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import LATTICE_METHODS, Field, Policy, QuasiType
from kanonflow.solvers.dispatch import GRAPH_ONLY, LARGEST_SEARCHED, METHODS, NCP_ONLY
from kanonflow.solvers.search.slot_loss import PLACE
from kanonflow.solvers.shapes.classes import CLASS_STARTS, LARGEST_K
from kanonflow.solvers.shapes.graph_starts import LARGEST_K as LARGEST_K_OF_START
from kanonflow.solvers.shapes.graph_starts import LARGEST_ROWS, NUMERIC_ONLY
from kanonflow.solvers.shapes.graphs import GRAPH_STARTS, LOSSES
from kanonflow.transforms.release.full_domain import check_lattice_solver, lattice_mistakes
from kanonflow.transforms.release.window_structures import solver_shape


def check_solver(policy: Policy) -> None:
    """Raise PolicyError, naming everything that is wrong, unless the solver takes this method, start and k.

    Why: a solver that refuses in a timer would end a bounded run half-way, and block a stream for ever.
    """
    if policy.by_levels:
        check_lattice_solver(policy)
        return
    closed = policy.closed
    kind = f"protect: {policy.protect}"
    starts = CLASS_STARTS if closed else GRAPH_STARTS
    choice = policy.solver
    mistakes = []
    if choice.suppression:
        mistakes.append(
            f"solver.suppression: only solvers that publish levels suppress rows: {', '.join(LATTICE_METHODS)}"
        )
    usable = [name for name, (start, _) in METHODS.items() if start in (None, "one-class", *starts)]
    if solver_shape(policy) != "graph":
        usable = [name for name in usable if name not in GRAPH_ONLY]
    if choice.method not in usable:
        levels = f", or for levels of hierarchies {', '.join(LATTICE_METHODS)}"
        mistakes.append(f"solver.method: with {kind} it must be one of {', '.join(usable)}{levels}")
    if choice.start not in starts:
        mistakes.append(f"solver.start: with {kind} it must be one of {', '.join(starts)}")
    if choice.start in LATTICE_METHODS:
        mistakes += lattice_mistakes(policy, "solver.start", choice.start)
    losses = LOSSES if choice.method not in NCP_ONLY else LOSSES[:1]
    if choice.loss not in losses:
        mistakes.append(f"solver.loss: with {kind} and this method it must be one of {', '.join(losses)}")
    largest = LARGEST_K if closed or choice.method == "pass-through" else PLACE - 1
    if policy.k > largest:
        mistakes.append(f"k: the solver takes at most {largest}")
    built = METHODS.get(choice.method, (None, False))[0]
    mistakes += _beyond(policy, "solver.method", choice.method if built is None else built)
    mistakes += _beyond(policy, "solver.start", choice.start)
    if mistakes:
        raise PolicyError(mistakes, policy.name)


def _beyond(policy: Policy, key: str, start: str | None) -> list[str]:
    """What the policy asks of a start or method beyond what it takes: rows at once, kinds of quasi-identifiers, k.

    A window of more than ``max_window_rows`` goes out in parts, so that key is how windows are kept small enough. (A
    part may still be larger, by what earlier ones left behind: see ``release_window``.)
    """
    mistakes = []
    most = {**LARGEST_ROWS, **LARGEST_SEARCHED}.get(str(start))
    if most is not None and policy.max_window_rows > most:
        mistakes.append(
            f"max_window_rows: must be at most {most} ({key} {start} takes no more rows at once; larger windows are"
            " released in parts), or choose another solver"
        )
    if start in NUMERIC_ONLY:
        names = [field.name for field in policy.quasis if _categorical(field)]
        if names:
            mistakes.append(f"{key}: {start} takes numbers and dates only, not {', '.join(names)}")
    if start in LARGEST_SEARCHED:
        names = [field.name for field in policy.quasis if field.quasi and field.quasi.hierarchy is not None]
        if names:
            mistakes.append(
                f"{key}: {start} has no program for hierarchies, as {', '.join(names)}: choose auto"
            )
    if start in LARGEST_K_OF_START and policy.k > LARGEST_K_OF_START[start]:
        mistakes.append(f"k: {key} {start} takes at most {LARGEST_K_OF_START[start]}")
    return mistakes


def _categorical(field: Field) -> bool:
    return field.quasi is not None and field.quasi.type not in (QuasiType.NUMERIC, QuasiType.DATE)
