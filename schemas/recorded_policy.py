"""What of a policy a matching record vouches for: all that shapes the promise, nothing that only shapes the search."""

from __future__ import annotations

from dataclasses import replace

from kanonflow.schemas.policy import Policy, SolverChoice
from kanonflow.schemas.policy_file import policy_digest


def recorded_policy(policy: Policy) -> bytes:
    """Canonical JSON of a policy without its solver and the time that windows stay open for stragglers.

    Why without: a command line may change both for one run, and neither says anything about who hides whom.
    """
    return policy_digest(replace(policy, solver=SolverChoice(), out_of_orderness_ms=0))
