"""When would whom of a feed enter? The rule of intakes, over who has rows in which windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.schemas.policy import Policy

Numbers = NDArray[np.int64]
NEVER = np.iinfo(np.int64).max


def entry_windows(member: Numbers, window: Numbers, policy: Policy, size: int) -> Numbers:
    """The number of the window with which each member of one partition enters, int64 (m,); NEVER: with none.

    member, window: int64 (q,), each member 0 .. m-1 with each window that it has rows in.
    size: people a cohort, in the place of the policy's.

    All who were seen and are not in enter when there are ``intake`` of them, or when a row of one must leave, and
    there are ``size`` at least. Only with a release: k people must have rows at hand that could go out. O(windows m).
    """
    assert policy.window_ms is not None
    assert policy.intake is not None
    count = int(member.max(initial=-1)) + 1
    enters = np.full(count, NEVER, dtype=np.int64)
    waiting = policy.waiting_ms // policy.window_ms
    intake = max(policy.intake, size)
    last = np.full(count, np.iinfo(np.int64).min, dtype=np.int64)
    order = np.argsort(window, kind="stable")
    member, window = member[order], window[order]
    pool = np.zeros(count, dtype=np.bool_)
    for now in np.union1d(window, window + waiting).tolist():
        new = member[_at(window, now)]
        pool[new[enters[new] == NEVER]] = True
        last[new] = now
        many = int(pool.sum())
        due = member[_at(window, now - waiting)]
        at_hand = int((pool & (last >= now - waiting)).sum()) + int((enters[new] != NEVER).sum())
        if many >= size and at_hand >= policy.k and (many >= intake or bool(pool[due].any())):
            enters[pool] = now
            pool[:] = False
    return enters


def _at(window: Numbers, number: int) -> slice:
    """Where a number stands in sorted numbers."""
    return slice(int(np.searchsorted(window, number)), int(np.searchsorted(window, number, side="right")))
