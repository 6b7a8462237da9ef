"""The start: groups that are not feasible join where rows x box grows least, the cheapest join of all first."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.merging.groups import NOBODY, Groups, box_ncp, move, refresh, widen_box
from kanonflow.solvers.merging.near_cohorts import NearCohorts
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost

# Cohorts looked at along the tour where the lists of a group's members name nobody outside it.
TOUR_REACH = 16


@kernel(inner=True)
def _growth(people: Individuals, groups: Groups, a: int, b: int) -> float:
    """What two groups cost more together than apart. O(d + W)."""
    ncp = -people.first_value[0]
    for j in range(people.numeric_weight.size):
        low = min(groups.hull[a, 1 + 2 * j], groups.hull[b, 1 + 2 * j])
        high = max(groups.hull[a, 2 + 2 * j], groups.hull[b, 2 + 2 * j])
        ncp += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    for w in range(groups.hull_words.shape[1]):
        ncp += bits_cost(groups.hull_words[a, w] | groups.hull_words[b, w], people.bit_weight, w)
    return (groups.total[a, 0] + groups.total[b, 0]) * ncp - groups.loss[a] - groups.loss[b]


@kernel(inner=True)
def _better(groups: Groups, growth: float, target: int, best: float, partner: int) -> bool:
    """Whether a join is to be preferred. At ties to fewer active people, or equal boxes would all be one group."""
    if growth != best or partner < 0:
        return growth < best
    theirs, others = groups.total[target, 1], groups.total[partner, 1]
    return theirs < others or (theirs == others and target < partner)


@kernel(inner=True)
def _best_join(
    people: Individuals,
    groups: Groups,
    near: NearCohorts,
    seen: np.ndarray,
    number: int,
    looked: np.ndarray,
) -> tuple[float, Any]:
    """Least growth and the group to join, of those near. -1: there is no other group.

    seen: int64 (c,), the last look that met each group; looked: int64 (1,), looks so far.
    """
    best, partner = np.inf, NOBODY
    mark = looked[0]
    unit = np.int64(groups.head[number])
    while unit >= 0:
        for index in range(near.nearest.shape[1]):
            other = np.int64(near.nearest[unit, index])
            if other >= 0:
                target = np.int64(groups.label[other])
                if target != number and seen[target] <= mark:
                    looked[0] += 1
                    seen[target] = looked[0]
                    growth = _growth(people, groups, number, target)
                    if _better(groups, growth, target, best, partner):
                        best, partner = growth, target
        unit = np.int64(groups.after[unit])
    if partner < 0:
        # Outward along the tour, past its own members, until somebody is found: O(members + TOUR_REACH).
        place = near.place[groups.head[number]]
        found, reach = 0, 1
        while found < TOUR_REACH and (place - reach >= 0 or place + reach < near.tour.size):
            for side in (place - reach, place + reach):
                if 0 <= side < near.tour.size:
                    target = np.int64(groups.label[near.tour[side]])
                    if target != number:
                        found += 1
                        looked[0] += 1
                        growth = _growth(people, groups, number, target)
                        if _better(groups, growth, target, best, partner):
                            best, partner = growth, target
            reach += 1
    return best, partner


@kernel
def join_infeasible(people: Individuals, groups: Groups, near: NearCohorts) -> int:
    """Join groups until each is feasible; returns the joins that were priced. O(c k m (d + W) + c log c).

    Precondition: all cohorts together are feasible. The cheapest join comes first, that of the group of the least
    number at ties; the group of more cohorts keeps its number, at ties the lesser one.
    """
    c = groups.label.size
    k = groups.k[0]
    seen = np.zeros(c, dtype=np.int64)
    looked = np.zeros(1, dtype=np.int64)
    version = np.zeros(c, dtype=np.int64)
    heap: Any = [(0.0, NOBODY, NOBODY, NOBODY, NOBODY)]
    heap.pop()
    for number in range(c):
        if groups.size[number] > 0 and groups.total[number, 1] < k:
            growth, partner = _best_join(people, groups, near, seen, np.int64(number), looked)
            heapq.heappush(heap, (growth, np.int64(number), partner, version[number], version[partner]))
    while len(heap) > 0:
        growth, number, partner, own, others = heapq.heappop(heap)
        if version[number] != own or groups.total[number, 1] >= k:
            continue
        if version[partner] == others:
            into, out = min(number, partner), max(number, partner)
            if groups.size[into] < groups.size[out]:
                into, out = out, into
            while groups.size[out] > 0:
                unit = np.int64(groups.head[out])
                move(groups, unit, into)
                widen_box(people, groups.hull, groups.hull_words, into, unit)
            groups.loss[into] = groups.total[into, 0] * box_ncp(people, groups.hull, into)
            groups.loss[out] = 0.0
            version[out] += 1
            version[into] += 1
            number = into
        if groups.total[number, 1] < k:
            growth, partner = _best_join(people, groups, near, seen, number, looked)
            heapq.heappush(heap, (growth, number, partner, version[number], version[partner]))
    for number in range(c):
        if groups.size[number] > 0:
            refresh(people, groups, number)
    return looked[0]
