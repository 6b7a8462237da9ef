"""Holes in slots: each is filled with a near unit that needs a place; what cannot be placed legally is swapped in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.neighbours import pair_loss

# How many units on the tour are compared before a hole is filled.
ENOUGH_ON_THE_TOUR = 16


@kernel(inner=True, forceinline=True)
def holds(members: np.ndarray, individual: np.ndarray, slot: int, who: int) -> bool:
    """Whether a unit of an individual stands in the slot."""
    for p in range(members.shape[1]):
        if members[slot, p] >= 0 and individual[members[slot, p]] == who:
            return True
    return False


@kernel(inner=True)
def _joining_loss(units: Units, members: np.ndarray, slot: int, unit: int) -> float:
    """Sum of the pair losses to the slot's members; infinite when one of them is the same individual."""
    total = 0.0
    for p in range(members.shape[1]):
        member = members[slot, p]
        if member >= 0:
            if units.individual[member] == units.individual[unit]:
                total = np.inf
            else:
                total += pair_loss(units.features, member, unit)
    return total


@kernel(inner=True)
def _nearest_in_need(
    units: Units,
    nearest: np.ndarray,
    order: np.ndarray,
    rank: np.ndarray,
    need: np.ndarray,
    members: np.ndarray,
    slot: int,
) -> int:
    """A unit that needs a place and may stand in the slot: a member's listed neighbour, else the next on the tour."""
    k = members.shape[1]
    best = -1
    best_loss = np.inf
    anchor = -1
    for p in range(k):
        member = members[slot, p]
        if member < 0:
            continue
        anchor = member
        for index in range(nearest.shape[1]):
            candidate = nearest[member, index]
            if candidate >= 0 and need[candidate] > 0:
                loss = _joining_loss(units, members, slot, candidate)
                if loss < best_loss:
                    best, best_loss = candidate, loss
    begin = rank[anchor] if anchor >= 0 else 0
    seen = 0
    for step in range(order.size):
        for side in range(2):
            position = begin + step if side == 0 else begin - step
            if 0 <= position < order.size and need[order[position]] > 0:
                loss = _joining_loss(units, members, slot, order[position])
                if loss < np.inf:
                    seen += 1
                if loss < best_loss:
                    best, best_loss = order[position], loss
        if seen >= ENOUGH_ON_THE_TOUR:
            return best
    return best


@kernel(inner=True)
def _swap_in(
    units: Units, need: np.ndarray, members: np.ndarray, changed: np.ndarray, slot: int, p: int
) -> bool:
    """Fill a hole that no unit in need may fill: such a unit goes where another can be spared for the hole."""
    for unit in range(need.size):
        if need[unit] <= 0:
            continue
        who = units.individual[unit]
        for other in range(members.shape[0]):
            if other == slot or holds(members, units.individual, other, who):
                continue
            for q in range(members.shape[1]):
                spared = members[other, q]
                if spared >= 0 and not holds(members, units.individual, slot, units.individual[spared]):
                    members[slot, p] = spared
                    members[other, q] = unit
                    changed[other] = True
                    need[unit] -= 1
                    return True
    return False


@kernel
def _complete(
    units: Units,
    nearest: np.ndarray,
    order: np.ndarray,
    rank: np.ndarray,
    need: np.ndarray,
    members: np.ndarray,
    changed: np.ndarray,
) -> bool:
    pending = 0
    for slot in range(members.shape[0]):
        for p in range(members.shape[1]):
            if members[slot, p] >= 0:
                continue
            changed[slot] = True
            unit = _nearest_in_need(units, nearest, order, rank, need, members, slot)
            if unit < 0:
                pending += 1
                continue
            members[slot, p] = unit
            need[unit] -= 1
    if pending == 0:
        return True
    for slot in range(members.shape[0]):
        for p in range(members.shape[1]):
            if members[slot, p] < 0 and not _swap_in(units, need, members, changed, slot, p):
                return False
    return True


def fill_holes(
    units: Units,
    nearest: NDArray[np.int32],
    order: NDArray[np.int64],
    need: NDArray[np.int64],
    members: NDArray[np.int32],
    changed: NDArray[np.bool_],
) -> bool:
    """Fill the holes (-1) of ``members``, int32 (n, k) of units, in place; whether it could be done.

    order: int64 (u,), units in an order in which near ones are near. need: int64 (u,), places that each unit still
    needs, as many as there are holes. changed: bool (n,), set for slots that took a unit. No slot takes an individual
    that it holds.
    """
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return bool(_complete(units, nearest, order, rank, need, members, changed))
