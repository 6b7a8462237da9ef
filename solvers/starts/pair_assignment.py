"""k = 2 exactly: slots of two are an assignment of the records to each other, of least total pair loss.

A graph of slots of two names every record twice: it consists of rings. Walk each of them: the slot between a record
and the next is the record's choice, so the graph is an assignment without fixed points, and every assignment is such a
graph. Its loss is the sum of pair losses, hence the best graph is a minimum-cost assignment. It is solved over sparse
candidates, the near units of each unit and the slots of a given graph, which make sure that there is an assignment at
all; equal records are one node of a transportation problem.

Successive shortest paths with potentials (Edmonds & Karp 1972; Jonker & Volgenant 1987 for the order of the search).
Costs are symmetric, so half of the cheapest pair of each unit is a feasible potential at which mutual neighbours are
tight: most units are placed before the first path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import KdTree
from kanonflow.solvers.units.neighbours import nearest_units, pair_loss

# Adult, 5,000 rows: the optimum over 5 neighbours a unit is .00792, over 10 it is .00785.
PAIR_NEIGHBOURS = 10
# Adult needs some tens; where paths grow long the search does better with the time.
ARCS_A_ROW = 2000
# What a solution calls this start.
PAIR_ASSIGNMENT = "pair-assignment"


class Arcs(NamedTuple):
    """Candidates from unit to unit, sorted by tail and head: of each unit u those from first[u] to first[u + 1].

    first: int64 (u + 1,); tail, head: int32 (arcs,); cost: float64 (arcs,). entering: int64 (arcs,), arcs by head; of
    each unit those from first_entering[u]: int64 (u + 1,).
    """

    first: NDArray[np.int64]
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    cost: NDArray[np.float64]
    entering: NDArray[np.int64]
    first_entering: NDArray[np.int64]


@kernel(inner=True, forceinline=True)
def _sink(heap_key: np.ndarray, heap_unit: np.ndarray, size: int) -> None:
    """Move the last entry to the top and down to its place; ties go to the smaller unit."""
    key, unit = heap_key[size], heap_unit[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            heap_key[other] < heap_key[child]
            or (heap_key[other] == heap_key[child] and heap_unit[other] < heap_unit[child])
        ):
            child = other
        if key < heap_key[child] or (key == heap_key[child] and unit <= heap_unit[child]):
            break
        heap_key[at], heap_unit[at] = heap_key[child], heap_unit[child]
        at = child
    heap_key[at], heap_unit[at] = key, unit


@kernel(inner=True, forceinline=True)
def _rise(heap_key: np.ndarray, heap_unit: np.ndarray, size: int, key: float, unit: int) -> None:
    """Add an entry to a heap of ``size``."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if heap_key[above] < key or (heap_key[above] == key and heap_unit[above] <= unit):
            break
        heap_key[at], heap_unit[at] = heap_key[above], heap_unit[above]
        at = above
    heap_key[at], heap_unit[at] = key, unit


@kernel(inner=True)
def _place_tight(
    arcs: Arcs, weight: np.ndarray, out: np.ndarray, into: np.ndarray, flow: np.ndarray, room: np.ndarray
) -> None:
    """Potentials of half of each unit's cheapest arc, and flow on arcs that cost no more than both. In place."""
    for unit in range(weight.size):
        least = np.inf
        for arc in range(arcs.first[unit], arcs.first[unit + 1]):
            least = min(least, arcs.cost[arc])
        out[unit] = into[unit] = 0.5 * least
    for unit in range(weight.size):
        for arc in range(arcs.first[unit], arcs.first[unit + 1]):
            head = arcs.head[arc]
            if arcs.cost[arc] <= out[unit] + into[head]:
                moved = min(room[unit, 0], room[head, 1])
                flow[arc] += moved
                room[unit, 0] -= moved
                room[head, 1] -= moved


@kernel(inner=True)
def _augment(
    arcs: Arcs,
    flow: np.ndarray,
    room: np.ndarray,
    source: int,
    found: int,
    tail_from: np.ndarray,
    head_from: np.ndarray,
) -> None:
    """Move as much flow as fits along the path that the search found."""
    amount = min(room[source, 0], room[found, 1])
    tail = arcs.tail[head_from[found]]
    while tail != source:
        amount = min(amount, flow[tail_from[tail]])
        tail = arcs.tail[head_from[arcs.head[tail_from[tail]]]]
    room[source, 0] -= amount
    room[found, 1] -= amount
    arc = head_from[found]
    flow[arc] += amount
    while arcs.tail[arc] != source:
        back = tail_from[arcs.tail[arc]]
        flow[back] -= amount
        arc = head_from[arcs.head[back]]
        flow[arc] += amount


@kernel
def _assign(arcs: Arcs, weight: np.ndarray, limit: int) -> tuple:
    """Flow on each arc, int32 (arcs,), of least cost with ``weight`` out of and into each unit; whether it is complete.

    limit: arcs looked at after which it is given up.
    """
    u = weight.size
    out, into = np.zeros(u), np.zeros(u)
    flow = np.zeros(arcs.head.size, dtype=np.int32)
    room = np.empty((u, 2), dtype=np.int32)
    room[:, 0] = weight
    room[:, 1] = weight
    _place_tight(arcs, weight, out, into, flow, room)
    # Of units as tails and as heads in the present search: distance, the arc that led there; and in which search.
    tail_gap, head_gap = np.empty(u), np.empty(u)
    tail_from, head_from = np.empty(u, dtype=np.int64), np.empty(u, dtype=np.int64)
    tail_seen, head_seen = np.full(u, -1, dtype=np.int64), np.full(u, -1, dtype=np.int64)
    tails, heads = np.empty(u, dtype=np.int64), np.empty(u, dtype=np.int64)
    heap_key, heap_unit = np.empty(arcs.head.size + 1), np.empty(arcs.head.size + 1, dtype=np.int64)
    looked = 0
    search = 0
    for source in range(u):
        while room[source, 0] > 0:
            size = reached = closed = 0
            tail_seen[source] = search
            tail_gap[source] = 0.0
            tail_from[source] = -1
            tails[0] = source
            reached = 1
            scanned = 0
            found = -1
            gap = 0.0
            while found < 0:
                while scanned < reached:
                    tail = tails[scanned]
                    scanned += 1
                    for arc in range(arcs.first[tail], arcs.first[tail + 1]):
                        head = arcs.head[arc]
                        # Rounding may leave a tight arc a little below 0.
                        onward = tail_gap[tail] + max(arcs.cost[arc] - out[tail] - into[head], 0.0)
                        if head_seen[head] != search or onward < head_gap[head]:
                            head_seen[head] = search
                            head_gap[head] = onward
                            head_from[head] = arc
                            _rise(heap_key, heap_unit, size, onward, head)
                            size += 1
                    looked += arcs.first[tail + 1] - arcs.first[tail]
                if size == 0 or looked > limit:
                    return flow, False
                gap, head = heap_key[0], heap_unit[0]
                size -= 1
                if size > 0:
                    _sink(heap_key, heap_unit, size)
                if gap > head_gap[head]:
                    continue
                if room[head, 1] > 0:
                    found = head
                    continue
                heads[closed] = head
                closed += 1
                for index in range(arcs.first_entering[head], arcs.first_entering[head + 1]):
                    arc = arcs.entering[index]
                    if flow[arc] > 0:
                        tail = arcs.tail[arc]
                        if tail_seen[tail] != search:
                            tail_seen[tail] = search
                            tail_gap[tail] = gap
                            tail_from[tail] = arc
                            tails[reached] = tail
                            reached += 1
                looked += arcs.first_entering[head + 1] - arcs.first_entering[head]
            for index in range(reached):
                out[tails[index]] += gap - tail_gap[tails[index]]
            for index in range(closed):
                into[heads[index]] -= gap - head_gap[heads[index]]
            _augment(arcs, flow, room, source, found, tail_from, head_from)
            search += 1
    return flow, True


@kernel
def _pair_losses(units: Units, tail: np.ndarray, head: np.ndarray, cost: np.ndarray) -> None:
    for arc in range(cost.size):
        cost[arc] = pair_loss(units.features, tail[arc], head[arc])


def candidate_arcs(units: Units, nearest: NDArray[np.int32], members: NDArray[np.int32]) -> Arcs:
    """Both ways between each unit and its near ones (-1: none), the pairs of a graph, and a unit and itself.

    nearest: int32 (u, m). members: int32 (n, 2), a legal graph. A unit is paired with itself where a slot may name it
    twice.
    """
    u, m = nearest.shape
    near = nearest.ravel()
    one = np.repeat(np.arange(u), m)[near >= 0]
    other = near[near >= 0].astype(np.int64)
    alone = np.flatnonzero(units.limit > 1)
    left, right = members[:, 0].astype(np.int64), members[:, 1].astype(np.int64)
    key = np.unique(
        np.concatenate(
            [one * u + other, other * u + one, left * u + right, right * u + left, alone * u + alone]
        )
    )
    tail, head = (key // u).astype(np.int32), (key % u).astype(np.int32)
    cost = np.empty(key.size)
    _pair_losses(units, tail, head, cost)
    return Arcs(
        first=np.searchsorted(tail, np.arange(u + 1)),
        tail=tail,
        head=head,
        cost=cost,
        entering=np.argsort(head, kind="stable"),
        first_entering=np.searchsorted(np.sort(head), np.arange(u + 1)),
    )


def pair_members(
    units: Units, tree: KdTree, members: NDArray[np.int32], *, arcs_a_row: int = ARCS_A_ROW
) -> NDArray[np.int32]:
    """The best graph over the candidates, int32 (n, 2) of units; the given one where that takes too long.

    members: int32 (n, 2), a legal graph. arcs_a_row: arcs looked at, a row, after which it takes too long.
    Postcondition: a legal graph, of no more loss than the given one. O(n m log n) a path at worst; 0.1 s for 30,000
    rows of Adult, and the neighbours'.
    """
    nearest, _ = nearest_units(units.features, tree, units.individual, PAIR_NEIGHBOURS)
    arcs = candidate_arcs(units, nearest, members)
    flow, complete = _assign(arcs, units.weight, arcs_a_row * members.shape[0])
    if not complete:
        return members
    return np.repeat(np.stack([arcs.tail, arcs.head], axis=1), flow, axis=0)
