"""Whether the solver that a policy names can serve it: found out before the first window, not in mid-feed."""

from __future__ import annotations

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.transforms.protections.protection_of import protection_of


def check_solver(policy: Policy) -> None:
    """Raise PolicyError, naming everything that is wrong, unless the solver takes this method, start and k.

    Why: a solver that refuses in a timer would end a bounded run half-way, and block a stream for ever.
    """
    try:
        mistakes = protection_of(policy).refusals(policy)
    except BudgetError as broken:
        # A package brings a solver that cannot be had.
        mistakes = [f"solver: {broken}"]
    if mistakes:
        raise PolicyError(mistakes, policy.name)
