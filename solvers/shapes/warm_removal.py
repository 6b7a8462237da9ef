"""Records leave a graph: slots are dissolved, and their members take the places of those who left.

A record that leaves opens k places, and the graph must lose a slot. That slot is one with open places: its other
members fill open places near them, each where it widens the box least, so that everybody stands in k slots again. A
member that stands in every open slot near it already takes the place of another unit, which fills the open place. Of
all slots with open places the one whose dissolution costs least goes first. Source: none of the papers; the inverse
of insertion (starts/insertion.py).
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.shapes.torn_slots import (
    MOST_OPEN,
    Torn,
    growth_of,
    loss_with,
    may_join,
    move,
    open_place,
    take_back,
    torn_slots,
)
from kanonflow.solvers.starts.growing import MOST_PLACES
from kanonflow.solvers.units.distinct_rows import Units

# Open slots to which others are moved to make room for a member.
MOST_EJECTING = 2
# Slots from which a walk to open ones goes on: first few; more for those whose members found no place.
REACHES = (10, 300)
# No member may cost that much.
BIG = 1e300


@kernel(inner=True, forceinline=True, counting=False)
def _visit(torn: Torn, unit: int, visited: int) -> int:
    """Put the slots of a unit on the list of those to walk from, and the open ones on that of open ones."""
    first = torn.first[unit]
    for index in range(first, first + min(torn.filled[unit], MOST_PLACES)):
        slot = torn.places[index]
        if torn.stamp[slot] == torn.clock[0] or visited == torn.walk.size:
            continue
        torn.stamp[slot] = torn.clock[0]
        torn.walk[visited] = slot
        visited += 1
        if torn.open[slot] > 0 and torn.found[0] < MOST_OPEN:
            torn.near[torn.found[0]] = slot
            torn.found[0] += 1
    return visited


@kernel(inner=True, counting=False)
def _scan(units: Units, nearest: np.ndarray, torn: Torn, leaving: int, reach: int) -> None:
    """Find open slots near a slot, nearest first: a walk over its members and their neighbours to their slots.

    reach: slots from which the walk goes on.
    """
    k = torn.members.shape[1]
    torn.moved[0] = 0
    torn.found[0] = 0
    torn.clock[0] += 1
    torn.stamp[leaving] = torn.clock[0]
    torn.walk[0] = leaving
    visited = 1
    at = 0
    while at < min(visited, reach) and torn.found[0] < MOST_OPEN:
        slot = torn.walk[at]
        at += 1
        for p in range(k):
            unit = torn.members[slot, p]
            if unit < 0 or torn.seen[unit] == torn.clock[0]:
                continue
            torn.seen[unit] = torn.clock[0]
            visited = _visit(torn, unit, visited)
        for p in range(k):
            unit = torn.members[slot, p]
            for index in range(nearest.shape[1] if unit >= 0 else 0):
                near = nearest[unit, index]
                if near >= 0 and torn.seen[near] != torn.clock[0]:
                    torn.seen[near] = torn.clock[0]
                    visited = _visit(torn, near, visited)
    for p in range(k):
        unit = torn.members[leaving, p]
        torn.housed[p] = unit < 0
        for index in range(torn.found[0] if unit >= 0 else 0):
            torn.growth[p, index] = growth_of(units, torn, torn.near[index], unit)


@kernel(inner=True, counting=False)
def _try_to_eject(units: Units, torn: Torn, leaving: int, unit: int, c: int, t: int, best: float) -> float:
    """Price of unit c filling an open place of slot t, and ``unit`` one of c's places; ``best`` if that is lower."""
    if torn.seen[c] == torn.clock[0] or c == unit:
        return best
    torn.seen[c] = torn.clock[0]
    joining = growth_of(units, torn, t, c)
    if joining >= best:
        return best
    first = torn.first[c]
    for index in range(first, first + min(torn.filled[c], MOST_PLACES)):
        d = torn.places[index]
        if d in (leaving, t):
            continue
        q = 0
        while q < torn.members.shape[1] and torn.members[d, q] != c:
            q += 1
        # It has moved a moment ago.
        if q == torn.members.shape[1]:
            continue
        torn.members[d, q] = -1
        if may_join(units, torn.members, d, unit):
            price = joining + loss_with(units, torn.members, d, unit) - torn.loss[d]
            torn.evaluations[0] += 1
            if price < best:
                best = price
                torn.ejection[0], torn.ejection[1], torn.ejection[2], torn.ejection[3] = t, c, d, q
        torn.members[d, q] = c
    return best


@kernel(inner=True, counting=False)
def _best_ejection(units: Units, nearest: np.ndarray, torn: Torn, leaving: int, p: int, best: float) -> float:
    """The cheapest way to find a place for the member at ``p`` by moving another unit, if below ``best``."""
    unit = torn.members[leaving, p]
    tried = 0
    for index in range(torn.found[0]):
        t = torn.near[index]
        if torn.open[t] == 0 or tried == MOST_EJECTING:
            continue
        tried += 1
        torn.clock[0] += 1
        for q in range(torn.members.shape[1]):
            center = torn.members[t, q]
            if center < 0:
                continue
            for near in range(nearest.shape[1]):
                if nearest[center, near] >= 0:
                    best = _try_to_eject(units, torn, leaving, unit, nearest[center, near], t, best)
        for near in range(nearest.shape[1]):
            if nearest[unit, near] >= 0:
                best = _try_to_eject(units, torn, leaving, unit, nearest[unit, near], t, best)
    return best


@kernel(inner=True, counting=False)
def _most_regret(torn: Torn) -> tuple:
    """Member and number of the open slot near it, of who would lose most by not getting its first choice; -1: none.

    Members that have no open slot to join come last.
    """
    chosen = place = -1
    most = -1.0
    for p in range(torn.housed.size):
        best = second = np.inf
        at = -1
        for index in range(0 if torn.housed[p] else torn.found[0]):
            growth = torn.growth[p, index]
            if growth < best:
                best, second, at = growth, best, index
            elif growth < second:
                second = growth
        if at >= 0 and second - best > most:
            most, chosen, place = second - best, p, at
    return chosen, place


@kernel(inner=True, counting=False)
def _refresh_growth(units: Units, torn: Torn, leaving: int, slot: int) -> None:
    """Work out anew what the members that wait add to a slot that has just changed."""
    for p in range(torn.members.shape[1]):
        for index in range(0 if torn.housed[p] else torn.found[0]):
            if torn.near[index] == slot:
                torn.growth[p, index] = growth_of(units, torn, slot, torn.members[leaving, p])


@kernel(inner=True, counting=False)
def _move_out(
    units: Units, nearest: np.ndarray, torn: Torn, leaving: int, reach: int, thorough: bool
) -> float:
    """Find new places for the slot's members, the one that would regret most to wait first.

    Returns how much the loss rises (less the slot's own, which is saved); infinite when somebody finds no place.
    What was done stays until ``_take_back``.
    """
    _scan(units, nearest, torn, leaving, reach)
    total = -torn.loss[leaving]
    # What a member may cost before others are asked to make room for it.
    bar = torn.loss[leaving] / torn.housed.size if thorough else BIG
    while True:
        p, place = _most_regret(torn)
        growth = np.inf
        if p >= 0:
            growth = torn.growth[p, place]
        else:
            p = 0
            while p < torn.housed.size and torn.housed[p]:
                p += 1
            if p == torn.housed.size:
                return total
        ejected = growth
        if growth > bar:
            ejected = _best_ejection(units, nearest, torn, leaving, p, growth)
        if ejected == np.inf:
            return np.inf
        unit = torn.members[leaving, p]
        if ejected < growth:
            t, c, d, q = torn.ejection[0], torn.ejection[1], torn.ejection[2], torn.ejection[3]
            total += move(units, torn, leaving, c, d, q, t, open_place(torn, t))
            total += move(units, torn, leaving, unit, leaving, p, d, q)
            torn.housed[p] = True
            _refresh_growth(units, torn, leaving, d)
        else:
            t = torn.near[place]
            total += move(units, torn, leaving, unit, leaving, p, t, open_place(torn, t))
        torn.housed[p] = True
        _refresh_growth(units, torn, leaving, t)


@kernel(inner=True, counting=False)
def _list_place(torn: Torn, unit: int, slot: int) -> int:
    index = torn.first[unit]
    while torn.places[index] != slot:
        index += 1
    return index


@kernel(inner=True, counting=False)
def _dissolve(torn: Torn, leaving: int) -> None:
    """Carry out the moves noted; who has none is left without a place."""
    for entry in range(torn.moved[0]):
        target = torn.moves[entry, 3]
        torn.places[_list_place(torn, torn.moves[entry, 0], torn.moves[entry, 1])] = target
        torn.changed[target] = True
    for p in range(torn.housed.size):
        unit = torn.members[leaving, p]
        torn.members[leaving, p] = -1
        if not torn.housed[p]:
            torn.filled[unit] -= 1
            last = torn.places[torn.first[unit] + torn.filled[unit]]
            torn.places[_list_place(torn, unit, leaving)] = last
    torn.gone[leaving] = True
    torn.open[leaving] = 0


@kernel
def _dissolve_cheapest(units: Units, nearest: np.ndarray, torn: Torn, count: int, reach: int) -> int:
    """Dissolve up to ``count`` slots, the cheapest first; prices are worked out again when a slot's turn comes.

    Returns how many are still to be dissolved: those whose members find no place within reach.
    """
    waiting = [(0.0, 0)]
    waiting.pop()
    for slot in range(torn.open.size):
        if torn.open[slot] > 0:
            waiting.append((_move_out(units, nearest, torn, slot, reach, np.bool_(False)), slot))
            take_back(torn, slot)
    heapify(waiting)
    left = count
    while left > 0 and len(waiting) > 0:
        price, slot = heappop(waiting)
        if price == np.inf:
            break
        # Filled by others meanwhile: it is whole.
        if torn.open[slot] == 0:
            continue
        now = _move_out(units, nearest, torn, slot, reach, np.bool_(True))
        if now > price and (now == np.inf or (len(waiting) > 0 and now > waiting[0][0])):
            take_back(torn, slot)
            heappush(waiting, (now, slot))
            continue
        _dissolve(torn, slot)
        left -= 1
    return left


@kernel
def _drop(torn: Torn, count: int) -> None:
    """Dissolve ``count`` slots whose members find no place: those with most open places, which leave fewest over."""
    left = count
    for wanted in range(torn.members.shape[1], -1, -1):
        for slot in range(torn.open.size):
            if left > 0 and not torn.gone[slot] and torn.open[slot] == wanted:
                torn.moved[0] = 0
                torn.housed[:] = torn.members[slot] < 0
                _dissolve(torn, slot)
                left -= 1


class Removed(NamedTuple):
    """members: int32 (s - count, k), -1 where a place is still open. changed: bool (s - count,). evaluations: made."""

    members: NDArray[np.int32]
    changed: NDArray[np.bool_]
    evaluations: int


def dissolve_slots(
    units: Units, nearest: NDArray[np.int32], members: NDArray[np.int32], count: int
) -> Removed:
    """Take ``count`` slots, 0 <= count <= s, out of an old graph and give their members open places of the others.

    members: int32 (s, k) of units, -1 where somebody left; no slot names a unit more often than its limit. nearest:
    int32 (u, m), neighbours of each unit. Postcondition: no slot names a unit more often than its limit; a unit that
    found no open place near it stands in fewer slots than before. O(s k^2 m (k d + k)) at most; most slots are whole
    and cost nothing.
    """
    torn = torn_slots(units, np.ascontiguousarray(members, dtype=np.int32).copy())
    left = count
    for reach in REACHES:
        left = _dissolve_cheapest(units, nearest, torn, left, reach) if left > 0 else 0
    _drop(torn, left)
    stay = ~torn.gone
    return Removed(torn.members[stay], torn.changed[stay], int(torn.evaluations[0]))
