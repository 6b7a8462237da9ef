"""The start: groups that are not feasible join where rows x box grows least, the cheapest join of all first.

Not feasible is a group of fewer than k active people or, under rules for sensitive values, one that breaks one of them.
Of two groups that meet a rule both together do (shares average, entropies and distances are concave and convex), so
what is feasible stays so, whatever joins it.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.merging.near_cohorts import NearCohorts
from kanonflow.solvers.partition_search.group_loss import NOBODY, move, refresh_all
from kanonflow.solvers.partition_search.groups import Groups, both_ncp, box_ncp, widen_box
from kanonflow.solvers.partition_search.rules import HOME, ValueRules, forget, meets
from kanonflow.solvers.units.individuals import Individuals

# Cohorts looked at along the tour where the lists of a group's members name nobody outside it.
TOUR_REACH = 16
# Cohorts keep all of their rows.
ALL_ROWS = np.int64(np.iinfo(np.int64).max)


@kernel(inner=True)
def _growth(people: Individuals, groups: Groups, cost: np.ndarray, a: int, b: int) -> float:
    """What two groups cost more together than apart. O(d + W)."""
    ncp = both_ncp(people, groups.box, groups.words, a, b)
    return (groups.total[a, 0] + groups.total[b, 0]) * ncp - cost[a] - cost[b]


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
    cost: np.ndarray,
    near: NearCohorts,
    seen: np.ndarray,
    number: int,
    looked: np.ndarray,
) -> tuple[float, Any]:
    """Least growth and the group to join, of those near. -1: there is no other group.

    cost: float64 (g,), rows x NCP of each. seen: int64 (c,), the last look that met each group; looked: int64 (1,),
    looks so far.
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
                    growth = _growth(people, groups, cost, number, target)
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
                        growth = _growth(people, groups, cost, number, target)
                        if _better(groups, growth, target, best, partner):
                            best, partner = growth, target
            reach += 1
    return best, partner


@kernel(inner=True, counting=False)
def _lacks(people: Individuals, groups: Groups, number: int, rules: ValueRules | None = None) -> bool:
    """Whether a group is not feasible. O(1), with rules its rows."""
    lacking = groups.total[number, 1] < groups.k[0]
    # Compiled away where there are no rules.
    if rules is not None:  # noqa: SIM102
        if not lacking:
            forget(rules)
            first = groups.head[number]
            lacking = not meets(people, rules, groups.after, first, HOME, number, ALL_ROWS, NOBODY, NOBODY)
    return lacking


@kernel
def join_infeasible(
    people: Individuals, groups: Groups, near: NearCohorts, rules: ValueRules | None = None
) -> int:
    """Join groups until each is feasible; returns the joins that were priced. O(c k m (d + W) + c log c), with rules
    for each join the rows of the group more.

    Precondition: all cohorts together are feasible. The cheapest join comes first, that of the group of the least
    number at ties; the group of more cohorts keeps its number, at ties the lesser one.
    """
    c = groups.label.size
    lacks = np.zeros(groups.size.size, dtype=np.bool_)
    seen = np.zeros(c, dtype=np.int64)
    looked = np.zeros(1, dtype=np.int64)
    version = np.zeros(c, dtype=np.int64)
    # Rows x NCP, also of groups that are not feasible.
    cost = np.zeros(groups.size.size)
    for number in range(groups.size.size):
        if groups.size[number] > 0:
            cost[number] = groups.total[number, 0] * box_ncp(people, groups.box, number)
    heap: Any = [(0.0, NOBODY, NOBODY, NOBODY, NOBODY)]
    heap.pop()
    for number in range(c):
        if groups.size[number] > 0 and _lacks(people, groups, np.int64(number), rules):
            lacks[number] = True
            growth, partner = _best_join(people, groups, cost, near, seen, np.int64(number), looked)
            # Nobody is left where all are one group: then only rounding says that it lacks anything.
            if partner >= 0:
                heapq.heappush(heap, (growth, np.int64(number), partner, version[number], version[partner]))
    while len(heap) > 0:
        growth, number, partner, own, others = heapq.heappop(heap)
        if version[number] != own or not lacks[number]:
            continue
        if version[partner] == others:
            into, out = min(number, partner), max(number, partner)
            if groups.size[into] < groups.size[out]:
                into, out = out, into
            while groups.size[out] > 0:
                unit = np.int64(groups.head[out])
                move(people, groups, unit, into)
                widen_box(people, groups.box, groups.words, into, unit)
            cost[into] = groups.total[into, 0] * box_ncp(people, groups.box, into)
            version[out] += 1
            version[into] += 1
            number = into
            lacks[number] = _lacks(people, groups, number, rules)
        if lacks[number]:
            growth, partner = _best_join(people, groups, cost, near, seen, number, looked)
            if partner >= 0:
                heapq.heappush(heap, (growth, number, partner, version[number], version[partner]))
    refresh_all(people, groups)
    return looked[0]
