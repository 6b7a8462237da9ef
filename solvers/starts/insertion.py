"""Insertion: a graph grows by one record at a time, which joins k - 1 edges near it.

Record v takes k - 1 edges (y_t -> x_t), members y_t of distinct slots x_t: v takes the place of y_t in x_t, and the new
slot is {v, y_1 .. y_(k-1)}. Every record then stands in k slots again, and every slot holds k records. Records come in
an order that is coarse first and fine later, so that those before v lie all round it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.search.slot_loss import PLACE, admits, refresh, replaced_loss
from kanonflow.solvers.search.slots import Slots, build_slots
from kanonflow.solvers.starts.circulant import constructive_members
from kanonflow.solvers.starts.growing import MOST_PLACES, Growing, growing_over, nearest_inserted
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import KdTree
from kanonflow.solvers.units.leaf_orders import range_cost

# Near units whose edges are considered for a record: the more, the better the graph and the longer it takes.
NEAR_FOR_EACH_MEMBER = 6
LEAST_NEAR = 64
# How often each chosen edge is chosen anew beside the others.
SWEEPS = 1


@kernel(inner=True, counting=False)
def _edges_near(units: Units, slots: Slots, growing: Growing, unit: int, near: int, size: int) -> int:
    """Fill growing.edges with the edges of the near units whose place the unit may take; how many there are."""
    features = units.features
    edges = 0
    for index in range(near):
        other = growing.near[index]
        if units.individual[other] == units.individual[unit] and units.limit[unit] < 2:
            continue
        first = slots.first_place[other]
        count = growing.filled[other]
        tries = min(count, MOST_PLACES)
        for step in range(tries):
            # Of more places a stretch that begins elsewhere each time.
            place = slots.places[first + (step + size * tries) % count]
            slot, p = place // PLACE, place % PLACE
            if edges < growing.price.size and admits(
                slots, slot, p, units.individual[unit], units.limit[unit]
            ):
                price = replaced_loss(features, slots, slot, p, unit) - slots.loss[slot]
                growing.edges[edges, 0], growing.edges[edges, 1], growing.edges[edges, 2] = other, slot, p
                growing.price[edges] = price
                edges += 1
    growing.evaluations[0] += edges
    return edges


@kernel(inner=True, forceinline=True, counting=False)
def _widen(units: Units, growing: Growing, unit: int, anew: bool) -> None:
    """Let the new slot's box cover one unit more, or (anew) that one alone."""
    for j in range(growing.low.size):
        y = units.features.numeric[unit, j]
        growing.low[j] = y if anew else min(growing.low[j], y)
        growing.high[j] = y if anew else max(growing.high[j], y)
    for w in range(growing.words.size):
        growing.words[w] = units.features.words[unit, w] | (np.uint64(0) if anew else growing.words[w])


@kernel(inner=True, forceinline=True, counting=False)
def _joining(units: Units, slots: Slots, growing: Growing, size: int, count: int, unit: int) -> float:
    """How much the new slot, of ``count`` members so far, grows by a unit; infinite where it may not join."""
    features = units.features
    named = 0
    total = 0.0
    for p in range(count):
        if slots.who[size, p] == units.individual[unit]:
            named += 1
    for j in range(growing.low.size):
        y = features.numeric[unit, j]
        weight = features.numeric_weight[j]
        low, high = growing.low[j], growing.high[j]
        grown = range_cost(features.orders, weight, j, min(low, y), max(high, y))
        total += grown - range_cost(features.orders, weight, j, low, high)
    for w in range(growing.words.size):
        total += bits_cost(features.words[unit, w] & ~growing.words[w], features.bit_weight, w)
    for j in range(features.wide_weight.size):
        fresh = True
        for p in range(count):
            if features.wide[slots.members[size, p], j] == features.wide[unit, j]:
                fresh = False
        if fresh:
            total += features.wide_weight[j]
    return total if named < units.limit[unit] else np.inf


@kernel(inner=True, counting=False)
def _pick(units: Units, slots: Slots, growing: Growing, size: int, count: int, edges: int) -> bool:
    """Choose member number ``count`` of the new slot by the edge of least growth of both slots; False: none."""
    best = np.inf
    found = -1
    last = -1
    joining = 0.0
    for edge in range(edges):
        if growing.taken[growing.edges[edge, 1]] == size:
            continue
        if growing.edges[edge, 0] != last:
            last = growing.edges[edge, 0]
            joining = _joining(units, slots, growing, size, count, last)
            growing.evaluations[0] += 1
        if joining + growing.price[edge] < best:
            best = joining + growing.price[edge]
            found = edge
    if found < 0:
        return False
    growing.chosen[count] = found
    growing.taken[growing.edges[found, 1]] = size
    other = growing.edges[found, 0]
    slots.members[size, count] = other
    slots.who[size, count] = units.individual[other]
    _widen(units, growing, other, False)
    return True


@kernel(inner=True, counting=False)
def _choose(units: Units, slots: Slots, growing: Growing, size: int, unit: int, edges: int) -> bool:
    """Choose k - 1 of the candidate edges for slot number ``size``, one by one, then each anew beside the others.

    False if there are too few.
    """
    k = slots.members.shape[1]
    slots.members[size, 0] = unit
    slots.who[size, 0] = units.individual[unit]
    _widen(units, growing, unit, True)
    for count in range(1, k):
        if not _pick(units, slots, growing, size, count, edges):
            for earlier in range(1, count):
                growing.taken[growing.edges[growing.chosen[earlier], 1]] = -1
            return False
    for _ in range(SWEEPS * (k - 1)):
        # The first goes, the others move up, and the best for the last place is chosen: perhaps the one that went.
        growing.taken[growing.edges[growing.chosen[1], 1]] = -1
        _widen(units, growing, unit, True)
        for count in range(1, k - 1):
            growing.chosen[count] = growing.chosen[count + 1]
            other = slots.members[size, count + 1]
            slots.members[size, count] = other
            slots.who[size, count] = units.individual[other]
            _widen(units, growing, other, False)
        _pick(units, slots, growing, size, k - 1, edges)
    return True


@kernel(inner=True, forceinline=True, counting=False)
def _add_place(slots: Slots, growing: Growing, unit: int, slot: int, position: int) -> None:
    entry = slots.first_place[unit] + growing.filled[unit]
    slots.places[entry] = slot * PLACE + position
    slots.entry[slot, position] = entry
    growing.filled[unit] += 1


@kernel(inner=True, counting=False)
def _rewire(units: Units, slots: Slots, growing: Growing, size: int, unit: int) -> None:
    """Carry out what was chosen: the unit into the places of the others, and they into the new slot."""
    _add_place(slots, growing, unit, size, 0)
    for count in range(1, slots.members.shape[1]):
        edge = growing.chosen[count]
        slot, position = growing.edges[edge, 1], growing.edges[edge, 2]
        entry = slots.entry[slot, position]
        slots.places[entry] = size * PLACE + count
        slots.entry[size, count] = entry
        slots.members[slot, position] = unit
        slots.who[slot, position] = units.individual[unit]
        _add_place(slots, growing, unit, slot, position)
        refresh(units.features, slots, slot)
    refresh(units.features, slots, size)


@kernel(inner=True, forceinline=True, counting=False)
def _enliven(tree: KdTree, growing: Growing, unit: int) -> None:
    """Count a unit that was not there before in every tree node above it."""
    if growing.filled[unit] == 0:
        node = 0
        while node >= 0:
            growing.live[node] += 1
            left = tree.left[node]
            if left >= 0 and growing.position[unit] >= tree.stop[left]:
                left = tree.right[node]
            node = left


@kernel(inner=True, counting=False)
def _seed(units: Units, tree: KdTree, slots: Slots, growing: Growing, order: np.ndarray) -> int:
    """The first k rows that may share a slot form a complete graph; takes them out of ``order`` (-1); slots made."""
    k = slots.members.shape[1]
    count = 0
    for index in range(order.size):
        unit = order[index]
        named = 0
        for p in range(count):
            if slots.who[0, p] == units.individual[unit]:
                named += 1
        if count < k and named < units.limit[unit]:
            for slot in range(k):
                slots.members[slot, count] = unit
                slots.who[slot, count] = units.individual[unit]
            count += 1
            order[index] = -1
    if count < k:
        return 0
    for p in range(k):
        _enliven(tree, growing, slots.members[0, p])
        for slot in range(k):
            _add_place(slots, growing, slots.members[0, p], slot, p)
    for slot in range(k):
        refresh(units.features, slots, slot)
    return k


@kernel(inner=True, counting=False)
def _take_over(units: Units, tree: KdTree, slots: Slots, growing: Growing, size: int) -> None:
    """Read a graph of ``size`` slots from ``slots.members``."""
    for slot in range(size):
        for p in range(slots.members.shape[1]):
            unit = slots.members[slot, p]
            slots.who[slot, p] = units.individual[unit]
            _enliven(tree, growing, unit)
            _add_place(slots, growing, unit, slot, p)
        refresh(units.features, slots, slot)


@kernel(counting=False)
def _grow(units: Units, tree: KdTree, slots: Slots, growing: Growing, order: np.ndarray, begun: int) -> bool:
    """Insert every row of ``order`` into the graph of the first ``begun`` slots, or (0) into one that is yet to begin.

    What finds no k - 1 edges near comes again at the end. False if rows remain.
    """
    if begun > 0:
        _take_over(units, tree, slots, growing, begun)
        size = begun
    else:
        size = _seed(units, tree, slots, growing, order)
    if size == 0:
        return False
    waiting = True
    moved = True
    while waiting and moved:
        waiting = False
        moved = False
        for index in range(order.size):
            unit = order[index]
            if unit < 0:
                continue
            near = nearest_inserted(units, tree, growing, unit)
            edges = _edges_near(units, slots, growing, unit, near, size)
            if _choose(units, slots, growing, size, unit, edges):
                _enliven(tree, growing, unit)
                _rewire(units, slots, growing, size, unit)
                size += 1
                order[index] = -1
                moved = True
            else:
                waiting = True
    return not waiting


def coarse_to_fine(count: int) -> NDArray[np.int64]:
    """The numbers below ``count`` so that every beginning of them lies evenly: by their bits in reverse."""
    bits = max(int(count - 1).bit_length(), 1)
    numbers = np.arange(count)
    reverse = np.zeros(count, dtype=np.int64)
    for bit in range(bits):
        reverse |= ((numbers >> bit) & 1) << (bits - 1 - bit)
    return np.argsort(reverse, kind="stable")


class Inserted(NamedTuple):
    """members: int32 (n, k), units. evaluations: boxes and pairs worked out."""

    members: NDArray[np.int32]
    evaluations: int


def inserted_members(
    units: Units,
    tree: KdTree,
    begun: NDArray[np.int32],
    rows: NDArray[np.int64],
    k: int,
    *,
    distinct: bool,
    near: int | None = None,
) -> Inserted | None:
    """A graph of a part of the rows with the others inserted; None when some find no k - 1 legal edges.

    begun: int32 (n - r, k) of units, a legal graph of its rows, or empty. rows: int64 (r,), the units of the others in
    the order in which they come. distinct: whether slots need distinct individuals. near: inserted units whose edges
    are considered for a record, at first. O(n k d + r (log n + near k (d + k))) and the search for neighbours.
    """
    # Slots of any legal graph: arrays of the right sizes, filled anew from the first to the last.
    any_members = constructive_members(units, k, distinct=distinct)
    slots = build_slots(units, any_members)
    evaluations = 0
    for attempt in range(3):
        m = (near or max(LEAST_NEAR, NEAR_FOR_EACH_MEMBER * k)) << (2 * attempt)
        growing = growing_over(units, tree, slots, m)
        slots.members[: begun.shape[0]] = begun
        done = _grow(units, tree, slots, growing, rows.copy(), begun.shape[0])
        evaluations += int(growing.evaluations[0])
        if done:
            return Inserted(slots.members, evaluations)
    return None


def insertion_members(
    units: Units, tree: KdTree, k: int, *, distinct: bool, near: int | None = None
) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k). near: inserted units whose edges are considered for a record.

    The k - 1 edges are chosen one after the other, each the one of least growth of both slots. Records come in the
    tour of the k-d tree, coarse to fine. distinct: whether slots need distinct individuals.

    Raises InfeasibleError when a record finds no k - 1 legal edges. O(n (log n + near k (d + k))) and the search for
    neighbours. Source: none of the papers; the inverse of taking a record out of a window.
    """
    tour = np.repeat(tree.order, units.weight[tree.order]).astype(np.int64)
    order = tour[coarse_to_fine(tour.size)]
    nobody = np.empty((0, k), dtype=np.int32)
    inserted = inserted_members(units, tree, nobody, order, k, distinct=distinct, near=near)
    if inserted is None:
        raise InfeasibleError(f"insertion finds no {k - 1} edges for a record")
    return inserted.members
