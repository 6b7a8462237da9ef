"""From the linear program's x to a legal graph: slots by their share, the rest completed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.starts.holes import fill_holes
from kanonflow.solvers.units.distinct_rows import Units

# A share counts as whole when it is this near.
NEAR = 1e-6


@kernel
def _take(
    slots: np.ndarray,
    which: np.ndarray,
    times: np.ndarray,
    need: np.ndarray,
    members: np.ndarray,
    filled: int,
) -> int:
    """Take slots as often as asked, or until one of their units needs no place; returns how many are filled then."""
    k = slots.shape[1]
    for index in which:
        room = times[index]
        for p in range(k):
            held = 0
            for q in range(k):
                held += slots[index, q] == slots[index, p]
            room = min(room, need[slots[index, p]] // held)
        for _ in range(room):
            for p in range(k):
                members[filled, p] = slots[index, p]
                need[slots[index, p]] -= 1
            filled += 1
    return filled


@kernel
def _take_in_part(
    slots: np.ndarray, which: np.ndarray, need: np.ndarray, members: np.ndarray, filled: int
) -> None:
    """Give each open slot the members of a given one that still need places, as many as there are. slots: sorted."""
    k = slots.shape[1]
    for least in range(k - 1, 1, -1):
        for index in which:
            if filled == members.shape[0]:
                return
            free = 0
            for p in range(k):
                unit = slots[index, p]
                if need[unit] > 0 and (p == 0 or unit != slots[index, p - 1]):
                    members[filled, free] = unit
                    free += 1
            if free < least:
                members[filled, :free] = -1
                continue
            for p in range(free):
                need[members[filled, p]] -= 1
            filled += 1


def round_slots(
    units: Units,
    nearest: NDArray[np.int32],
    order: NDArray[np.int64],
    slots: NDArray[np.int32],
    x: NDArray[np.float64],
    k: int,
    seed: int,
) -> NDArray[np.int32] | None:
    """A legal graph, int32 (n, k) of units, that keeps what the program is sure of; None if it cannot be completed.

    order: int64 (u,), units in an order in which near ones are near. slots: int32 (m, k), each sorted; x: float64 (m,),
    ``sum over S of mult_i(S) x_S = k w_i``. Each slot is taken ``floor(x)`` times; then slots are tried again by their
    remaining share (jittered by ``seed``), as long as their units need places; then slots with as many of their members
    as still need places; what is empty is filled with near units. O(m k^2 + n k), and what filling takes.
    """
    need = units.weight.astype(np.int64) * k
    # The program holds its equations up to a tolerance only: a slot may have less room than its whole part.
    whole = np.floor(x + NEAR).astype(np.int64)
    share = np.clip(x - whole, 0.0, 1.0)
    n = int(units.weight.sum())
    members = np.full((n, k), -1, dtype=np.int32)
    filled = _take(slots, np.flatnonzero(whole > 0), whole, need, members, 0)
    draws = np.random.default_rng(seed).random(share.size)
    fractional = np.flatnonzero(share > NEAR)
    fractional = fractional[np.argsort(-(share + 0.3 * draws)[fractional], kind="stable")]
    filled = _take(slots, fractional, np.ones_like(whole), need, members, filled)
    _take_in_part(slots, fractional, need, members, filled)
    if not fill_holes(units, nearest, order, need, members, np.zeros(n, dtype=np.bool_)):
        return None
    return members
