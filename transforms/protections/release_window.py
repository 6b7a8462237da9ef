"""One window of one partition, from rows to release: the pure function that every runner and test calls.

release_window(protection, due, before, rows) -> WindowResult(release, warm, rejected, metrics)

    gather    waiting and new rows in canonical order, repeats out
    admit     late rows out; too few individuals: all wait; who else cannot go with this release
    solve     a structure over the rows, warm or cold; what it leaves out waits or is suppressed
    issue     boxes and payloads through the gate
    leave     what the next release goes on from
    account   what waits, what is rejected, the metrics, and the state for the next release

Each stage returns what it found (``stages``) and leaves what it was given as it is. ``admit``, ``solve`` and ``leave``
are the protection's.

It is a deterministic function of its arguments unless a deadline strikes: the order of the rows does not matter, the
search has its own seed, the publishing its own keystream, both derived from the secret and the release's slot.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.protections.protection import A, Protection, S
from kanonflow.transforms.release.account import WindowResult, account
from kanonflow.transforms.release.candidates import gather
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.issue import issue
from kanonflow.transforms.release.ledger import deadlines, hold
from kanonflow.transforms.release.stages import Before, Left
from kanonflow.transforms.release.warm_state import WarmState


def release_window(
    protection: Protection[A, S],
    due: Due,
    before: Before,
    rows: pa.Table | None,
    resting: NDArray[np.bool_] | None = None,
) -> WindowResult:
    """Release a window, or hold or reject what cannot be released.

    rows: canonical rows that arrived since the partition's last release (None: none did), of this window or late.
    resting: of a window in parts, the waiting rows that are none of this part's: they wait on, as the first of those in
    the returned state.

    Precondition: the windows before this one have been released, and ``before`` is what the last call left.
    Postcondition: new + waiting rows = released + rejected + rows that wait in the returned state; what is released
    has passed the gate; equal arguments give equal bytes (with a deadline: if what was recorded is given).
    Raises ReleaseConflictError: what was recorded is not of these rows.
    Why: rows are lost or published twice nowhere but here. Time: the solver's, plus O(n k d + n log n).
    """
    gathered = gather(due, before.warm, rows, resting)
    admitted = protection.admit(due, gathered.rows, before)
    solved = protection.solve(due, admitted, before)
    issued = issue(due, solved.answer)
    left = protection.leave(due, before, admitted, solved, issued.publication)
    unreleased = gathered.unreleased + admitted.unreleased + solved.unreleased + issued.unreleased
    return account(due, before, gathered, unreleased, left, issued.publication)


def expire(due: Due, warm: WarmState, late: pa.Table | None) -> WindowResult:
    """Reject the waiting and late rows whose time is over at the slot's window end; nothing is released.

    late: rows that arrived after their window was released and found no later one since. Those whose time is not
    over wait on.
    """
    gathered = gather(due, warm, late)
    reasons = np.array([*warm.waiting_reason, *["late"] * gathered.new], dtype=object)[gathered.origin]
    unreleased = gathered.unreleased
    for reason in sorted(set(reasons)):
        unreleased += hold(due, gathered.rows.filter(pa.array(reasons == reason)), reason)
    return account(due, Before(warm), gathered, unreleased, Left(warm, None))


def earliest_deadline(state: WarmState, bound: BoundPolicy) -> int | None:
    """When the first waiting row must be released or rejected, in ms; None when none waits or there are no windows."""
    held = state.waiting if bound.policy.window_ms is not None else None
    return None if held is None else int(deadlines(held, bound).min())
