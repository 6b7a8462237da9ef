"""What of a policy's solver cannot serve its protection, and how to mend that."""

from __future__ import annotations

from collections.abc import Collection

from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.policy import LATTICE_METHODS, Field, Policy
from kanonflow.schemas.policy_choices import SolverChoice
from kanonflow.schemas.policy_keys import SOLVER
from kanonflow.schemas.written_values import unknown_keys
from kanonflow.solvers.catalogue import (
    Solver,
    find_solver,
    method_names,
    solver_named,
    solver_names,
    start_names,
    takes_start,
    taking_parameters,
)
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.limits import Attribute, Demand, Limits, Refusal
from kanonflow.solvers.problem.parameters import chosen, parameter_defaults, unknown_parameters
from kanonflow.solvers.shapes.lattices import lattice_solver

_SAID = {
    "rows": "max_window_rows: must be at most {most} ({key} {name} takes no more rows at once; larger windows are"
    " released in parts), or choose another solver",
    "categories": "{key}: {name} takes numbers and dates only, not {names}",
    "hierarchies": "{key}: {name} has no program for hierarchies, as {names}: choose auto",
    "k": "{size}: {key} {name} takes at most {most}",
    "levels": "{key}: {name} needs levels of hierarchies, which these fields do not have: {names}; "
    "give each type: hierarchy",
    "nodes": "{key}: {name} takes lattices of at most {most:,} nodes, and the hierarchies span {asked:,}; take kgen",
}


def refusals_of_search(policy: Policy, shape: str) -> list[str]:
    """Of graphs and closed classes that are searched, or built by a start alone. shape: as solvers name it."""
    choice = policy.solver
    kind = f"protect: {policy.protect}"
    mistakes = []
    if choice.suppression:
        mistakes.append(
            f"solver.suppression: only solvers that publish levels suppress rows: {', '.join(LATTICE_METHODS)}"
        )
    solver, start = find_solver(choice.method), find_solver(choice.start)
    if solver is None or shape not in solver.ways:
        levels = f", or for levels of hierarchies {', '.join(LATTICE_METHODS)}"
        mistakes.append(
            f"solver.method: with {kind} it must be one of {', '.join(method_names(shape))}{levels}"
        )
        solver = solver_named("auto")
    if not takes_start(shape, choice.start):
        mistakes.append(f"solver.start: with {kind} it must be one of {', '.join(start_names(shape))}")
    way = solver.ways[shape]
    if choice.loss not in way.losses:
        mistakes.append(f"solver.loss: with {kind} and this method it must be one of {', '.join(way.losses)}")
    if _class_size(policy) > way.largest_k:
        mistakes.append(f"{_size_key(policy)}: the solver takes at most {way.largest_k}")
    mistakes += _refused(policy, "solver.method", choice.method, solver.limits)
    mistakes += _refused_parameters(choice, solver)
    return mistakes + ([] if start is None else _refused(policy, "solver.start", choice.start, start.limits))


def refusals_of_levels(policy: Policy) -> list[str]:
    """Of windows that are released at levels of hierarchies.

    A class of equal labels is a closed class: it serves rows that belong to nobody, and individuals in closed classes.
    Rows of individuals one by one (``protect: row``) would need another rule for classes, graphs have none.
    """
    choice = policy.solver
    named = f"solver.method: {choice.method} publishes levels of hierarchies"
    mistakes = []
    if policy.promise.of_people != bool(policy.owner):
        mistakes.append(f"{named} in closed classes; with role: individual that takes protect: individual")
    if choice.deadline_ms is not None:
        mistakes.append(
            f"solver.deadline: {choice.method} has none; leave it out, or take kgen with evaluations_per_row"
        )
    if choice.loss != "ncp":
        mistakes.append(f"solver.loss: {choice.method} has its own; leave it out")
    if names := ", ".join(field.name for field in policy.ruled):
        mistakes.append(f"{named} and cannot meet rules for sensitive values ({names})")
    mistakes += _refused(policy, "solver.method", choice.method, lattice_solver(choice.method).limits)
    mistakes += _refused_parameters(choice, solver_named(choice.method))
    if choice.evaluations_per_row is not None and "evaluations" in dict(choice.parameters):
        mistakes.append("solver.evaluations: evaluations_per_row says it, too; leave one out")
    if choice.start != "auto":
        mistakes.append(f"solver.start: {choice.method} has no start to choose; leave it out")
    return mistakes


def _refused_parameters(choice: SolverChoice, solver: Solver) -> list[str]:
    """Keys that no solver has, or another than the chosen one, and values that are not for them."""
    choices = dict(choice.parameters)
    taking = taking_parameters(solver, choice.start)
    mistakes = []
    for name in unknown_parameters(taking, choices):
        own = [each for of in taking if of is not None for each in parameter_defaults(of)]
        owners = [each for each in solver_names() if name in _parameters_of(each)]
        if owners:
            mistakes.append(f"solver.{name}: is a parameter of {', '.join(owners)}, not of {choice.method}")
        else:
            mistakes += unknown_keys([name], [*(key.name for key in SOLVER), *own], "solver.")
    for of in taking:
        try:
            if of is not None:
                chosen(of, choices)
        except BudgetError as refusal:
            mistakes.append(f"solver: {refusal}")
    return mistakes


def _parameters_of(name: str) -> Collection[str]:
    of = solver_named(name).parameters
    return () if of is None else parameter_defaults(of)


def _refused(policy: Policy, key: str, name: str, limits: Limits) -> list[str]:
    """What the policy asks of a start or method beyond what it takes, and how to mend it.

    A window of more than ``max_window_rows`` goes out in parts, so that key is how windows are kept small enough. (A
    part may still be larger, by what earlier ones left behind: see ``release_window``.)
    """
    size = _size_key(policy)
    return [_said(each, key, name, size) for each in limits.refusals(demand_of(policy))]


def _said(refusal: Refusal, key: str, name: str, size: str) -> str:
    names = ", ".join(refusal.names)
    return _SAID[refusal.what].format(
        key=key, name=name, names=names, most=refusal.most, asked=refusal.asked, size=size
    )


def demand_of(policy: Policy) -> Demand:
    """What a policy's windows ask of a solver; of lasting cohorts, what their founding asks."""
    return Demand(policy.max_window_rows, _class_size(policy), tuple(map(_attribute, policy.quasis)))


def _class_size(policy: Policy) -> int:
    """Individuals a class at least: k, or of lasting cohorts their size, for there the solver founds cohorts."""
    return policy.k if policy.cohort_size is None else policy.cohort_size


def _size_key(policy: Policy) -> str:
    return "k" if policy.cohort_size is None else "cohort_size"


def _attribute(field: Field) -> Attribute:
    quasi = field.quasi
    if quasi is None:
        return Attribute(field.name, True, None)
    kind = KINDS[quasi.type]
    tree = kind.tree(quasi)
    return Attribute(field.name, kind.in_ranges, None if tree is None else tree.height)
