"""Slots with open places, and moves of units between them that can be taken back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.leaf_orders import range_cost

# Open slots near a member that are compared.
MOST_OPEN = 8


class Torn(NamedTuple):
    """s slots of an old graph, of which places are open, and what a dissolution has in hand.

    members: int32 (s, k), units, -1 where a place is open; open: int64 (s,), how many. loss: float64 (s,), of the box
    of those who are left. places: int32 (p,), the slots of each unit, one run a unit from first: int64 (u + 1,);
    filled: int64 (u,), how many. gone: bool (s,), dissolved. changed: bool (s,), took a unit in.
    stamp: int64 (s,), the last scan that saw a slot; seen: int64 (u,), a unit; clock: int64 (1,). evaluations: int64
    (1,), boxes worked out.
    near: int64 (MOST_OPEN,), open slots near the slot to dissolve, found: int64 (1,), how many; growth: float64 (k,
    MOST_OPEN), of each when a member joins, infinite where it may not. walk: int64 (s,), slots on the way to them.
    housed: bool (k,), members that have a new place.
    moves: int64 (2 k, 5), unit, from slot and position, to slot and position; before: float64 (2 k, 2), loss of both
    slots before; moved: int64 (1,), how many. ejection: int64 (4,), open slot, unit, its slot and position.
    """

    members: NDArray[np.int32]
    open: NDArray[np.int64]
    loss: NDArray[np.float64]
    places: NDArray[np.int32]
    first: NDArray[np.int64]
    filled: NDArray[np.int64]
    gone: NDArray[np.bool_]
    changed: NDArray[np.bool_]
    stamp: NDArray[np.int64]
    seen: NDArray[np.int64]
    clock: NDArray[np.int64]
    evaluations: NDArray[np.int64]
    near: NDArray[np.int64]
    growth: NDArray[np.float64]
    found: NDArray[np.int64]
    walk: NDArray[np.int64]
    housed: NDArray[np.bool_]
    moves: NDArray[np.int64]
    before: NDArray[np.float64]
    moved: NDArray[np.int64]
    ejection: NDArray[np.int64]


@kernel(forceinline=True, counting=False)
def loss_with(units: Units, members: np.ndarray, slot: int, unit: int) -> float:
    """Loss of the box of a slot's members (-1: nobody) and of one unit more (-1: none). O(k d)."""
    features = units.features
    k = members.shape[1]
    total = 0.0
    for j in range(features.numeric_weight.size):
        low = high = features.numeric[unit, j] if unit >= 0 else np.nan
        for p in range(k):
            member = members[slot, p]
            if member >= 0:
                x = features.numeric[member, j]
                low = x if not low <= x else low
                high = x if not high >= x else high
        if high > low:
            total += range_cost(features.orders, features.numeric_weight[j], j, low, high)
    for w in range(features.words.shape[1]):
        # The first value of each attribute is free.
        free = features.words[unit, w] if unit >= 0 else np.uint64(0)
        both = free
        for p in range(k):
            member = members[slot, p]
            if member >= 0:
                if free == 0:
                    free = features.words[member, w]
                both |= features.words[member, w]
        total += bits_cost(both & ~free, features.bit_weight, w)
    for j in range(features.wide_weight.size):
        values = 1 if unit >= 0 else 0
        for p in range(k):
            member = members[slot, p]
            fresh = member >= 0 and (unit < 0 or features.wide[member, j] != features.wide[unit, j])
            for q in range(p):
                other = members[slot, q]
                if fresh and other >= 0 and features.wide[other, j] == features.wide[member, j]:
                    fresh = False
            values += int(fresh)
        total += max(values - 1, 0) * features.wide_weight[j]
    return total


@kernel
def slot_losses(units: Units, members: np.ndarray) -> np.ndarray:
    """Loss of each slot's box, float64 (s,)."""
    losses = np.empty(members.shape[0])
    for slot in range(losses.size):
        losses[slot] = loss_with(units, members, slot, -1)
    return losses


@kernel(inner=True, forceinline=True, counting=False)
def may_join(units: Units, members: np.ndarray, slot: int, unit: int) -> bool:
    """Whether the slot may name the unit's individual once more."""
    named = 0
    for p in range(members.shape[1]):
        member = members[slot, p]
        if member >= 0 and units.individual[member] == units.individual[unit]:
            named += 1
    return named < units.limit[unit]


@kernel(inner=True, forceinline=True, counting=False)
def growth_of(units: Units, torn: Torn, slot: int, unit: int) -> float:
    """How much the slot's loss grows when the unit fills an open place; infinite where it may not."""
    if torn.open[slot] == 0 or not may_join(units, torn.members, slot, unit):
        return np.inf
    torn.evaluations[0] += 1
    return loss_with(units, torn.members, slot, unit) - torn.loss[slot]


@kernel(inner=True, counting=False)
def move(
    units: Units, torn: Torn, leaving: int, unit: int, source: int, position: int, target: int, to: int
) -> float:
    """Move a unit into an open place and note it; returns the change of loss.

    The slot that is to be dissolved (leaving) keeps its members until the end, and its loss is not counted.
    """
    entry = torn.moved[0]
    torn.moved[0] += 1
    torn.moves[entry, 0], torn.moves[entry, 1], torn.moves[entry, 2] = unit, source, position
    torn.moves[entry, 3], torn.moves[entry, 4] = target, to
    torn.before[entry, 0], torn.before[entry, 1] = torn.loss[source], torn.loss[target]
    change = -torn.loss[target]
    torn.members[target, to] = unit
    torn.open[target] -= 1
    torn.loss[target] = loss_with(units, torn.members, target, -1)
    change += torn.loss[target]
    if source != leaving:
        change -= torn.loss[source]
        torn.members[source, position] = -1
        torn.open[source] += 1
        torn.loss[source] = loss_with(units, torn.members, source, -1)
        change += torn.loss[source]
    return change


@kernel(inner=True, counting=False)
def take_back(torn: Torn, leaving: int) -> None:
    """Undo the moves noted."""
    while torn.moved[0] > 0:
        torn.moved[0] -= 1
        entry = torn.moved[0]
        source, target = torn.moves[entry, 1], torn.moves[entry, 3]
        torn.members[target, torn.moves[entry, 4]] = -1
        torn.open[target] += 1
        torn.loss[target] = torn.before[entry, 1]
        if source != leaving:
            torn.members[source, torn.moves[entry, 2]] = torn.moves[entry, 0]
            torn.open[source] -= 1
            torn.loss[source] = torn.before[entry, 0]


@kernel(inner=True, forceinline=True, counting=False)
def open_place(torn: Torn, slot: int) -> int:
    """The first open position of a slot that has one."""
    position = 0
    while torn.members[slot, position] >= 0:
        position += 1
    return position


def torn_slots(units: Units, members: NDArray[np.int32]) -> Torn:
    """The slots of an old graph with open places. members: int32 (s, k), changed in place."""
    s, k = members.shape
    u = units.weight.size
    here = members >= 0
    slots = np.repeat(np.arange(s), k)[here.ravel()]
    of_place = members[here]
    order = np.argsort(of_place, kind="stable")
    first = np.zeros(u + 1, dtype=np.int64)
    filled = np.bincount(of_place, minlength=u)
    np.cumsum(filled, out=first[1:])
    return Torn(
        members=members,
        open=k - here.sum(axis=1),
        loss=slot_losses(units, members),
        places=slots[order].astype(np.int32),
        first=first,
        filled=filled.astype(np.int64),
        gone=np.zeros(s, dtype=np.bool_),
        changed=np.zeros(s, dtype=np.bool_),
        stamp=np.zeros(s, dtype=np.int64),
        seen=np.zeros(u, dtype=np.int64),
        clock=np.zeros(1, dtype=np.int64),
        evaluations=np.zeros(1, dtype=np.int64),
        near=np.empty(MOST_OPEN, dtype=np.int64),
        growth=np.empty((k, MOST_OPEN)),
        found=np.zeros(1, dtype=np.int64),
        walk=np.empty(s, dtype=np.int64),
        housed=np.zeros(k, dtype=np.bool_),
        moves=np.empty((2 * k, 5), dtype=np.int64),
        before=np.empty((2 * k, 2)),
        moved=np.zeros(1, dtype=np.int64),
        ejection=np.zeros(4, dtype=np.int64),
    )
