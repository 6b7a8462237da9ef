"""What of a policy a matching record vouches for: all that shapes the promise, nothing that only shapes the search."""

from __future__ import annotations

from dataclasses import replace

from kanonflow.schemas.policy import Policy, SolverChoice
from kanonflow.schemas.policy_file import policy_digest


def recorded_policy(policy: Policy) -> bytes:
    """Canonical JSON of a policy without its solver, the time that windows stay open for stragglers, how many rows may
    be rejected, what is assessed, and where the file of people is.

    Why without: a command line may change the first two for one run, the others only say how a run or a look at it
    ends, and none of them says anything about who hides whom. Whom the file names stands in the cohorts.
    """
    shaping = replace(
        policy, solver=SolverChoice(), out_of_orderness_ms=0, max_rejected=None, assess=None, people=None
    )
    return policy_digest(shaping)
