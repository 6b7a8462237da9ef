"""Moves of cohorts between groups, with the best gain, and the descent along them."""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.merging.groups import NOBODY, Groups, joined_ncp, move, refresh
from kanonflow.solvers.search.workspace import EPSILON, Workspace, pop, push
from kanonflow.solvers.units.individuals import Individuals, hull_loss


@kernel
def best_move(people: Individuals, groups: Groups, nearest: np.ndarray, work: Workspace, unit: int) -> float:
    """Gain of the best move of one cohort that leaves every group feasible; 0 if none gains.

    ``work.found`` = (target, partner). A target alone: the cohort goes there; target and partner: they change places;
    a partner alone: both leave and are a group of their own; neither: the cohort is a group by itself.
    Targets are the groups of its neighbours. O(neighbours x members x (d + values of a cohort)).
    """
    k = groups.k[0]
    home = np.int64(groups.label[unit])
    rows, active = groups.rows[unit], groups.active[unit]
    home_rows, home_active = groups.total[home, 0] - rows, groups.total[home, 1] - active
    alone = groups.size[home] == 1
    leaves = alone or home_active >= k
    home_loss = groups.loss[home]
    left = home_loss - groups.without[unit]
    # Rounding grows with the rows.
    least = EPSILON * (home_rows + rows)
    best = least
    evaluations = 1
    work.clock[0] += 1
    if leaves and not alone and active >= k:
        gain = left - rows * hull_loss(people, unit, unit)
        if gain > best:
            best = gain
            work.found[0], work.found[1] = NOBODY, NOBODY
    for index in range(nearest.shape[1]):
        other = np.int64(nearest[unit, index])
        if other < 0:
            continue
        target = np.int64(groups.label[other])
        if target == home:
            continue
        target_rows, target_active = groups.total[target, 0], groups.total[target, 1]
        target_loss = groups.loss[target]
        rest_active = target_active - groups.active[other]
        if leaves and groups.size[target] > 1 and rest_active >= k and active + groups.active[other] >= k:
            pair = (rows + groups.rows[other]) * hull_loss(people, unit, other)
            evaluations += 1
            gain = left + target_loss - groups.without[other] - pair
            if gain > best:
                best = gain
                work.found[0], work.found[1] = NOBODY, other
        if work.stamp[target] == work.clock[0]:
            continue
        work.stamp[target] = work.clock[0]
        if leaves:
            joined = (target_rows + rows) * joined_ncp(people, groups.hull, groups.hull_words, target, unit)
            evaluations += 1
            gain = left + target_loss - joined
            if gain > best:
                best = gain
                work.found[0], work.found[1] = target, NOBODY
        partner = np.int64(groups.head[target])
        while partner >= 0:
            theirs = groups.active[partner]
            if home_active + theirs >= k and target_active - theirs + active >= k:
                there = target_rows - groups.rows[partner] + rows
                gain = home_loss + target_loss
                gain -= there * joined_ncp(people, groups.rest, groups.rest_words, partner, unit)
                evaluations += 1
                if gain > best:
                    here = home_rows + groups.rows[partner]
                    gain -= here * joined_ncp(people, groups.rest, groups.rest_words, unit, partner)
                    evaluations += 1
                    if gain > best:
                        best = gain
                        work.found[0], work.found[1] = target, partner
            partner = np.int64(groups.after[partner])
    work.evaluations[0] += evaluations
    return best if best > least else 0.0


@kernel(inner=True)
def logged_move(groups: Groups, work: Workspace, unit: int, target: int) -> None:
    """Move a cohort and note where it came from in the undo log."""
    entry = work.logged[0]
    work.log[entry, 0], work.log[entry, 1] = unit, groups.label[unit]
    work.logged[0] += 1
    move(groups, unit, target)


@kernel(inner=True)
def refresh_and_push(people: Individuals, groups: Groups, work: Workspace, number: int) -> None:
    """Recompute a group that changed and put its members on the list."""
    if groups.size[number] == 0:
        groups.loss[number] = 0.0
        return
    refresh(people, groups, number)
    work.evaluations[0] += groups.size[number]
    unit = np.int64(groups.head[number])
    while unit >= 0:
        push(work, unit)
        unit = np.int64(groups.after[unit])


@kernel
def make_move(people: Individuals, groups: Groups, work: Workspace, unit: int) -> None:
    """Make the move in ``work.found``; the groups that change are refreshed and their members looked at again."""
    home, target, partner = np.int64(groups.label[unit]), work.found[0], work.found[1]
    theirs = target
    if target < 0:
        theirs = np.int64(groups.label[partner]) if partner >= 0 else NOBODY
        target = np.int64(groups.free[groups.frees[0] - 1])
        logged_move(groups, work, unit, target)
        if partner >= 0:
            logged_move(groups, work, partner, target)
    else:
        if partner >= 0:
            logged_move(groups, work, partner, home)
        logged_move(groups, work, unit, target)
    refresh_and_push(people, groups, work, home)
    refresh_and_push(people, groups, work, target)
    if theirs >= 0 and theirs != target:
        refresh_and_push(people, groups, work, theirs)


@kernel
def descend(people: Individuals, groups: Groups, nearest: np.ndarray, work: Workspace, limit: int) -> float:
    """Best moves until nobody on the list has one, the log is full or ``limit`` evaluations are made.

    Returns the change of cost (<= 0).
    """
    change = 0.0
    while work.evaluations[0] < limit and work.logged[0] + 2 <= work.log.shape[0]:
        unit = pop(work)
        if unit < 0:
            break
        gain = best_move(people, groups, nearest, work, np.int64(unit))
        if gain > 0.0:
            make_move(people, groups, work, np.int64(unit))
            change -= gain
    return change
