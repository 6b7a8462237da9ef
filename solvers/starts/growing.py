"""What insertion knows of a graph that grows, and which of its units are near a record (starts/insertion.py)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.search.slots import Slots
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import KdTree
from kanonflow.solvers.units.neighbours import node_bound, pair_loss

# Places of one unit that are considered, where equal rows give it more.
MOST_PLACES = 48


class Growing(NamedTuple):
    """What is known of a graph that grows.

    filled: int64 (u,), places of each unit so far. live: int64 (nodes,), inserted units below each tree node.
    position: int64 (u,), where a unit stands in the tree's order. near: int64 (m,), inserted units near a record;
    distance: float64 (m,); stack: int64 (nodes,) and bounds: float64 (nodes,), of a query.
    edges: int64 (room, 3), unit, slot and position of the candidate edges; price: float64 (room,), how much the slot's
    loss grows. taken: int64 (n,), the last new slot that took an edge of this one. chosen: int64 (k,), edges.
    low, high: float64 (dn,), words: uint64 (W,), the box of the new slot. evaluations: int64 (1,), boxes worked out.
    """

    filled: NDArray[np.int64]
    live: NDArray[np.int64]
    position: NDArray[np.int64]
    near: NDArray[np.int64]
    distance: NDArray[np.float64]
    stack: NDArray[np.int64]
    bounds: NDArray[np.float64]
    edges: NDArray[np.int64]
    price: NDArray[np.float64]
    taken: NDArray[np.int64]
    chosen: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    words: NDArray[np.uint64]
    evaluations: NDArray[np.int64]


@kernel(inner=True, counting=False)
def nearest_inserted(units: Units, tree: KdTree, growing: Growing, unit: int) -> int:
    """Fill growing.near with the nearest inserted units, the unit itself among them; how many there are."""
    m = growing.near.size
    position = growing.position[unit]
    found = 0
    worst = np.inf
    growing.stack[0] = 0
    growing.bounds[0] = 0.0
    depth = 1
    while depth > 0:
        depth -= 1
        node = growing.stack[depth]
        if growing.live[node] == 0 or (found == m and growing.bounds[depth] >= worst):
            continue
        if tree.left[node] >= 0:
            near, far = tree.left[node], tree.right[node]
            near_bound = node_bound(units.features, tree, near, unit)
            far_bound = node_bound(units.features, tree, far, unit)
            inside = tree.start[near] <= position < tree.stop[near]
            if far_bound < near_bound or (far_bound == near_bound and not inside):
                near, far = far, near
                near_bound, far_bound = far_bound, near_bound
            growing.stack[depth], growing.bounds[depth] = far, far_bound
            growing.stack[depth + 1], growing.bounds[depth + 1] = near, near_bound
            depth += 2
            continue
        for index in range(tree.start[node], tree.stop[node]):
            other = tree.order[index]
            if growing.filled[other] == 0:
                continue
            gap = pair_loss(units.features, unit, other)
            growing.evaluations[0] += 1
            if found == m and gap >= worst:
                continue
            slot = found if found < m else m - 1
            found = min(found + 1, m)
            while slot > 0 and growing.distance[slot - 1] > gap:
                growing.distance[slot] = growing.distance[slot - 1]
                growing.near[slot] = growing.near[slot - 1]
                slot -= 1
            growing.distance[slot] = gap
            growing.near[slot] = other
            worst = growing.distance[found - 1]
    return found


def growing_over(units: Units, tree: KdTree, slots: Slots, near: int) -> Growing:
    """Nothing inserted yet. near: inserted units whose edges are considered for a record."""
    position = np.empty(tree.order.size, dtype=np.int64)
    position[tree.order] = np.arange(tree.order.size)
    n, k = slots.members.shape
    room = near * max(k, MOST_PLACES)
    return Growing(
        filled=np.zeros(units.weight.size, dtype=np.int64),
        live=np.zeros(tree.start.size, dtype=np.int64),
        position=position,
        near=np.empty(near, dtype=np.int64),
        distance=np.empty(near),
        stack=np.empty(tree.start.size + 1, dtype=np.int64),
        bounds=np.empty(tree.start.size + 1),
        edges=np.empty((room, 3), dtype=np.int64),
        price=np.empty(room),
        taken=np.full(n, -1, dtype=np.int64),
        chosen=np.empty(k, dtype=np.int64),
        low=np.empty(units.features.numeric.shape[1]),
        high=np.empty(units.features.numeric.shape[1]),
        words=np.empty(units.features.words.shape[1], dtype=np.uint64),
        evaluations=np.zeros(1, dtype=np.int64),
    )
