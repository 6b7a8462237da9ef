"""A descent that keeps groups feasible under rules for sensitive values: cohorts leave, move, or change places.

What joining has made is larger than it must be where the group that came along was one too many. Every step keeps k
active people and the rules in each group that it makes, and lowers the loss; what it judges of a cohort are its rows as
a whole. So the answer is a function of boxes and of each cohort's multiset of rows, as ``merging.py`` promises.
"""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.merging.joining import ALL_ROWS
from kanonflow.solvers.merging.near_cohorts import NearCohorts
from kanonflow.solvers.partition_search.group_loss import (
    NOBODY,
    changed_loss,
    fresh_loss,
    move,
    refresh_group,
)
from kanonflow.solvers.partition_search.groups import Groups
from kanonflow.solvers.partition_search.rules import HOME, TARGET, ValueRules, forget, meets
from kanonflow.solvers.search.workspace import EPSILON
from kanonflow.solvers.units.individuals import Individuals


@kernel(inner=True, counting=False)
def _may(
    people: Individuals, groups: Groups, rules: ValueRules, side: int, number: int, out: int, unit: int
) -> bool:
    """Whether a group is feasible after the member ``out`` left and ``unit`` came; -1 for nobody."""
    active = groups.total[number, 1]
    active -= groups.active[out] if out >= 0 else 0
    active += groups.active[unit] if unit >= 0 else 0
    # Nobody left: it is no group any more, and nobody is in want of anything.
    if active == 0:
        return True
    if active < groups.k[0]:
        return False
    first = groups.head[number]
    return meets(people, rules, groups.after, first, side, number, ALL_ROWS, out, unit)


@kernel(inner=True, counting=False)
def _alone(people: Individuals, groups: Groups, rules: ValueRules, unit: int) -> bool:
    """Whether a cohort is feasible by itself: a group that is one, and nobody else in the chain."""
    if groups.active[unit] < groups.k[0]:
        return False
    after, groups.after[unit] = groups.after[unit], NOBODY
    forget(rules)
    met = meets(people, rules, groups.after, np.int32(unit), TARGET, NOBODY - 1, ALL_ROWS, NOBODY, NOBODY)
    groups.after[unit] = after
    forget(rules)
    return met


@kernel
def descend_under_rules(
    people: Individuals, groups: Groups, near: NearCohorts, rules: ValueRules, most: int
) -> int:
    """Lower the loss until no step does, or ``most`` groups were priced; returns how many were. Changes ``groups``.

    Precondition: every group is feasible. Postcondition: so is every group, and the loss is no higher. Cohorts in the
    order of the tour; of the steps of one that with the largest gain, at ties the first that was found.
    O(steps x neighbours x members x (d + rows of two cohorts)).
    """
    priced, moved = 0, True
    while moved and priced < most:
        moved = False
        for place in range(near.tour.size):
            unit = near.tour[place]
            home = np.int64(groups.label[unit])
            left = changed_loss(people, groups, home, unit, NOBODY)
            least = EPSILON * groups.total[home, 0]
            best, target, partner = least, NOBODY - 1, NOBODY
            forget(rules)
            free = _may(people, groups, rules, HOME, home, unit, NOBODY)
            if groups.size[home] == 1:
                left = 0.0
            elif free and groups.frees[0] > 0 and _alone(people, groups, rules, unit):
                gain = groups.loss[home] - left - fresh_loss(people, groups, unit, unit)
                priced += 1
                if gain > best:
                    best, target, partner = gain, NOBODY, NOBODY
            for index in range(near.nearest.shape[1]):
                other = np.int64(near.nearest[unit, index])
                to = np.int64(groups.label[other]) if other >= 0 else home
                if to == home:
                    continue
                there = groups.loss[home] + groups.loss[to]
                if free:
                    gain = there - left - changed_loss(people, groups, to, NOBODY, unit)
                    priced += 1
                    if gain > best and _may(people, groups, rules, TARGET, to, NOBODY, unit):
                        best, target, partner = gain, to, NOBODY
                gain = there - changed_loss(people, groups, to, other, unit)
                priced += 1
                if gain > best:
                    gain -= changed_loss(people, groups, home, unit, other)
                    priced += 1
                    if (
                        gain > best
                        and _may(people, groups, rules, TARGET, to, other, unit)
                        and _may(people, groups, rules, HOME, home, unit, other)
                    ):
                        best, target, partner = gain, to, other
            if best > least:
                if target == NOBODY:
                    target = np.int64(groups.free[groups.frees[0] - 1])
                move(people, groups, unit, target)
                if partner >= 0:
                    move(people, groups, partner, home)
                refresh_group(people, groups, target)
                refresh_group(people, groups, home)
                moved = True
            if priced >= most:
                break
    return priced
