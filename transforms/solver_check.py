"""Whether the solver that a policy names can serve it: found out before the first window, not in mid-feed."""

from __future__ import annotations

from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.transforms.protections.protection_of import protection_of


def check_solver(policy: Policy) -> None:
    """Raise PolicyError, naming everything that is wrong, unless the solver takes this method, start and k.

    Why: a solver that refuses in a timer would end a bounded run half-way, and block a stream for ever.
    """
    if mistakes := protection_of(policy).refusals(policy):
        raise PolicyError(mistakes, policy.name)
