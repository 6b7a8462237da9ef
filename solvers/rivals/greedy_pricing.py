"""Heuristic pricing: from each unit, slots of negative reduced cost grown member by member and improved by swaps.

The reduced cost is that of pricing.py. It proves nothing, but finds most slots that the linear program lacks in a
small part of the time; the exact walk is left to find the last ones and to prove the bound.
"""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.rivals.pricing import TOLERANCE, Nodes, joined_loss, take_member
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.neighbours import pair_loss

# Second members that are tried for each anchor, and rounds of swaps.
SECONDS = 4
SWAP_ROUNDS = 4


@kernel(inner=True)
def _nearest(
    units: Units, dual: np.ndarray, anchor: int, most: int, reduced: np.ndarray, near: np.ndarray
) -> int:
    """Units of least pair loss less dual to the anchor (itself too, if a slot may name it again), best first."""
    for unit in range(dual.size):
        same = units.individual[unit] == units.individual[anchor]
        again = unit == anchor and units.limit[anchor] > 1
        reduced[unit] = np.inf if same and not again else pair_loss(units.features, anchor, unit) - dual[unit]
    count = min(most, dual.size)
    chosen = np.argpartition(reduced, count - 1)[:count]
    chosen = chosen[np.argsort(reduced[chosen])]
    kept = 0
    for unit in chosen:
        if reduced[unit] < np.inf:
            near[kept] = unit
            kept += 1
    return kept


@kernel(inner=True)
def _best_joining(
    units: Units, nodes: Nodes, dual: np.ndarray, near: np.ndarray, count: int, depth: int
) -> int:
    """The candidate of least (box loss - dual) that may join the first ``depth`` members; -1 for none."""
    best = -1
    least = np.inf
    for index in range(count):
        unit = near[index]
        named = 0
        for t in range(depth):
            if units.individual[nodes.taken[t]] == units.individual[unit]:
                named += 1
        if named >= units.limit[unit]:
            continue
        cost = joined_loss(units.features, nodes, depth, unit) - dual[unit]
        if cost < least - TOLERANCE:
            best, least = unit, cost
    return best


@kernel(inner=True)
def _reduced(units: Units, nodes: Nodes, k: int) -> float:
    """Reduced cost of the slot of k members whose last is ``taken[k - 1]`` and box is that of row k."""
    total = nodes.categorical[k] - nodes.dual[k]
    for j in range(units.features.numeric_weight.size):
        total += min(nodes.high[k, j] - nodes.low[k, j], units.features.numeric_weight[j])
    return total


@kernel(inner=True)
def _improve(
    units: Units, nodes: Nodes, dual: np.ndarray, near: np.ndarray, count: int, k: int, members: np.ndarray
) -> float:
    """Replace members one by one by the best candidate, the anchor (the first) stays; returns the reduced cost."""
    cost = _reduced(units, nodes, k)
    for _ in range(SWAP_ROUNDS):
        before = cost
        for p in range(1, k):
            for t in range(k):
                members[t] = nodes.taken[t]
            depth = 0
            for t in range(k):
                if t != p:
                    take_member(units.features, nodes, depth, members[t], dual[members[t]])
                    depth += 1
            unit = _best_joining(units, nodes, dual, near, count, k - 1)
            unit = members[p] if unit < 0 else unit
            take_member(units.features, nodes, k - 1, unit, dual[unit])
            cost = _reduced(units, nodes, k)
        if cost > before - TOLERANCE:
            break
    return cost


@kernel
def greedy_slots(
    units: Units,
    nodes: Nodes,
    dual: np.ndarray,
    first: int,
    last: int,
    k: int,
    most_candidates: int,
    slots: np.ndarray,
) -> int:
    """Slots of negative reduced cost around units first..last-1; returns how many.

    slots: int32 (rows, k), filled up to its end. most_candidates: of one anchor.
    """
    written = 0
    reduced = np.empty(dual.size)
    near = np.empty(dual.size, dtype=np.int32)
    members = np.empty(k, dtype=np.int32)
    for anchor in range(first, last):
        count = _nearest(units, dual, anchor, most_candidates, reduced, near)
        for second in range(min(count, SECONDS)):
            take_member(units.features, nodes, 0, anchor, dual[anchor])
            take_member(units.features, nodes, 1, near[second], dual[near[second]])
            depth = 2
            while depth < k:
                unit = _best_joining(units, nodes, dual, near, count, depth)
                if unit < 0:
                    depth = k + 1
                else:
                    take_member(units.features, nodes, depth, unit, dual[unit])
                    depth += 1
            if depth > k or written == slots.shape[0]:
                continue
            if _improve(units, nodes, dual, near, count, k, members) < -TOLERANCE:
                for t in range(k):
                    slots[written, t] = nodes.taken[t]
                written += 1
    return written
