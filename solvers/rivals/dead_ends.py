"""What a greedy assignment does with a source that finds every admissible slot taken (S2, Algorithms 1 and 2).

First the paper's repair: a source that has a slot gives it up and takes a free one. Where no such exchange exists,
an augmenting path: the shortest chain of such exchanges, found breadth first.
"""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.rivals.open_slots import OpenSlots, growth, may_join
from kanonflow.solvers.units.distinct_rows import Units


@kernel(inner=True)
def _cheapest_free(units: Units, slots: OpenSlots, size: int, holder: np.ndarray, unit: int) -> int:
    """The free slot that grows least by the unit, the first of equals; -1 if it may join none."""
    best = np.inf
    found = -1
    for slot in range(holder.size):
        if holder[slot] >= 0:
            continue
        price = growth(units.features, slots, size, slot, unit)
        if price < best and may_join(units, slots, size, slot, unit):
            best = price
            found = slot
    return found


@kernel(inner=True)
def _exchange(
    units: Units, slots: OpenSlots, size: int, holder: np.ndarray, target: np.ndarray, source: int, other: int
) -> bool:
    """The source takes the slot of ``other``, which takes the cheapest free one, if both may."""
    slot = target[other]
    if slot < 0 or not may_join(units, slots, size, slot, slots.rows[source]):
        return False
    free = _cheapest_free(units, slots, size, holder, slots.rows[other])
    if free < 0:
        return False
    target[other], target[source] = free, slot
    holder[free], holder[slot] = other, source
    return True


@kernel(inner=True)
def _augment(
    units: Units, slots: OpenSlots, size: int, holder: np.ndarray, target: np.ndarray, source: int
) -> bool:
    """Place the source by a shortest augmenting path; False if there is none (then no assignment exists)."""
    n = holder.size
    queue = np.empty(n, dtype=np.int64)
    reached_by = np.full(n, -1, dtype=np.int64)
    queue[0] = source
    head, tail = 0, 1
    end = -1
    while head < tail and end < 0:
        giver = queue[head]
        head += 1
        for slot in range(n):
            if end >= 0 or reached_by[slot] >= 0 or slot == target[giver]:
                continue
            if not may_join(units, slots, size, slot, slots.rows[giver]):
                continue
            reached_by[slot] = giver
            if holder[slot] < 0:
                end = slot
            else:
                queue[tail] = holder[slot]
                tail += 1
    if end < 0:
        return False
    slot = end
    giver = -1
    while giver != source:
        giver = reached_by[slot]
        before = target[giver]
        target[giver] = slot
        holder[slot] = giver
        slot = before
    return True


@kernel(inner=True)
def place_stranded(
    units: Units,
    slots: OpenSlots,
    size: int,
    holder: np.ndarray,
    target: np.ndarray,
    source: int,
    both_ways: bool,
) -> bool:
    """Give a stranded source a slot; False if that is impossible.

    holder: int64 (n,), the source on each slot, -1: free. target: int64 (n,), the slot of each source, -1: none yet.
    The sources next to it in the order are asked first: those before it, with ``both_ways`` those after it, too
    (SortGreedy, where any source may have a slot already). O(n) exchanges tried, O(n^2) for a path.
    """
    for distance in range(1, target.size):
        for side in range(2 if both_ways else 1):
            other = source - distance if side == 0 else source + distance
            if 0 <= other < target.size and _exchange(units, slots, size, holder, target, source, other):
                return True
    return _augment(units, slots, size, holder, target, source)
