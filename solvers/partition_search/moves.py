"""Moves of units between groups: shift one, swap two, a group of two or one; the best gain, and the descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.partition_search.group_loss import (
    NEVER,
    NOBODY,
    changed_loss,
    fresh_loss,
    move,
    refresh_group,
    ruled_loss,
)
from kanonflow.solvers.partition_search.rules import HOME, TARGET, ValueRules, forget
from kanonflow.solvers.search.workspace import EPSILON, Workspace, pop, push
from kanonflow.solvers.units.individuals import Individuals

# The target of those who leave for a group of their own.
FRESH = np.int64(-2)


@kernel(inner=True, counting=False)
def _true_gain(
    people: Individuals, groups: Any, rules: ValueRules, unit: int, target: int, partner: int
) -> float:
    """Gain of a shift or swap under the value rules."""
    home = np.int64(groups.label[unit])
    waits = (people.rows[unit] - (people.rows[partner] if partner >= 0 else 0)) * groups.waiting[0]
    gain = 0.0
    if home >= 0:
        gain += groups.loss[home] - ruled_loss(people, groups, rules, HOME, home, unit, partner)
    else:
        gain += waits
    if target >= 0:
        gain += groups.loss[target] - ruled_loss(people, groups, rules, TARGET, target, partner, unit)
    else:
        gain -= waits
    return gain


@kernel(inner=True)
def _best_offer(
    people: Individuals, groups: Any, rules: ValueRules, work: Workspace, unit: int, bound: float
) -> float:
    """The best gain among the offers, most promising first: few are judged, for no gain is above its offer."""
    forget(rules)
    best = bound
    while rules.offers[0] > 0:
        place = np.argmax(rules.offer_gain[: rules.offers[0]])
        if rules.offer_gain[place] <= best:
            break
        target, partner = rules.offer[place, 0], rules.offer[place, 1]
        gain = _true_gain(people, groups, rules, unit, target, partner)
        work.evaluations[0] += 1
        if gain > best:
            best = gain
            work.found[0], work.found[1] = target, partner
        last = rules.offers[0] - 1
        rules.offer_gain[place] = rules.offer_gain[last]
        rules.offer[place] = rules.offer[last]
        rules.offers[0] = last
    rules.offers[0] = 0
    return best


@kernel(inner=True, forceinline=True, counting=False)
def _offer(rules: ValueRules, gain: float, target: int, partner: int) -> None:
    """Keep a move whose gain is at most this much, for ``_best_offer`` to judge."""
    place = rules.offers[0]
    rules.offer_gain[place] = gain
    rules.offer[place, 0], rules.offer[place, 1] = target, partner
    rules.offers[0] = place + 1


@kernel(inner=True, counting=False)
def _best_exchange(
    people: Individuals,
    groups: Any,
    nearest: np.ndarray,
    work: Workspace,
    unit: int,
    rules: ValueRules | None = None,
) -> float:
    """Gain of the best shift or swap of one unit; 0 if none.

    Where nobody may wait no group is left with too few, for that would cost more than there is.
    """
    home = np.int64(groups.label[unit])
    waits = people.rows[unit] * groups.waiting[0]
    stays = waits
    leaves = waits
    if home >= 0:
        stays = groups.loss[home]
        leaves = stays - changed_loss(people, groups, home, np.int64(unit), NOBODY)
    # Rounding grows with the rows.
    least = EPSILON * (people.rows[unit] + (groups.total[home, 0] if home >= 0 else 0))
    best = least
    evaluations = 1
    work.clock[0] += 1
    if home >= 0 and leaves - waits > best:
        if rules is not None:
            _offer(rules, leaves - waits, NOBODY, NOBODY)
        else:
            best = leaves - waits
            work.found[0], work.found[1] = NOBODY, NOBODY
    for index in range(nearest.shape[1]):
        # Missing neighbours are -1 and stand at the end.
        other = np.int64(nearest[unit, index])
        if other < 0:
            continue
        target = np.int64(groups.label[other])
        if target == home:
            continue
        if target < 0:
            if home >= 0:
                joined = changed_loss(people, groups, home, np.int64(unit), other)
                evaluations += 1
                gain = stays + people.rows[other] * groups.waiting[0] - joined - waits
                if gain > best:
                    if rules is not None:
                        _offer(rules, gain, NOBODY, other)
                    else:
                        best = gain
                        work.found[0], work.found[1] = NOBODY, other
            continue
        there = groups.loss[target]
        if work.stamp[target] == work.clock[0]:
            continue
        work.stamp[target] = work.clock[0]
        if leaves > -NEVER / 2 and groups.size[target] < groups.room:
            gain = leaves + there - changed_loss(people, groups, target, NOBODY, np.int64(unit))
            evaluations += 1
            if gain > best:
                if rules is not None:
                    _offer(rules, gain, target, NOBODY)
                else:
                    best = gain
                    work.found[0], work.found[1] = target, NOBODY
        partner = np.int64(groups.head[target])
        for _ in range(groups.size[target]):
            gain = stays + there - changed_loss(people, groups, target, partner, np.int64(unit))
            evaluations += int(gain > -NEVER / 2)
            if gain > best:
                if home >= 0:
                    gain -= changed_loss(people, groups, home, np.int64(unit), partner)
                    evaluations += 1
                else:
                    gain -= people.rows[partner] * groups.waiting[0]
                if gain > best:
                    if rules is not None:
                        _offer(rules, gain, target, partner)
                    else:
                        best = gain
                        work.found[0], work.found[1] = target, partner
            partner = np.int64(groups.after[partner])
    work.evaluations[0] += evaluations
    if rules is not None:
        best = _best_offer(people, groups, rules, work, unit, best)
    return best if best > least else 0.0


# Not in the scan for the others, which individuals need alone: inside it they paid for it by half as much time again.
@kernel(inner=True, counting=False)
def _best_fresh(
    people: Individuals, groups: Any, nearest: np.ndarray, work: Workspace, unit: int, bound: float
) -> float:
    """The best gain of a group of the unit alone, or with one of its neighbours, above a bound."""
    home = np.int64(groups.label[unit])
    k, active = groups.k[0], groups.active[unit]
    leaves = groups.loss[home] - changed_loss(people, groups, home, np.int64(unit), NOBODY)
    best = max(bound, EPSILON * groups.total[home, 0])
    better = False
    if active >= k and groups.size[home] > 1:
        gain = leaves - fresh_loss(people, groups, unit, unit)
        if gain > best:
            best, better = gain, True
            work.found[0], work.found[1] = FRESH, NOBODY
    for index in range(nearest.shape[1]):
        other = np.int64(nearest[unit, index])
        target = np.int64(groups.label[other]) if other >= 0 else NOBODY
        if target < 0 or target == home or active + groups.active[other] < k:
            continue
        if groups.total[target, 1] - groups.active[other] >= k:
            gain = leaves + groups.loss[target] - changed_loss(people, groups, target, other, NOBODY)
            gain -= fresh_loss(people, groups, unit, other)
            work.evaluations[0] += 1
            if gain > best:
                best, better = gain, True
                work.found[0], work.found[1] = FRESH, other
    return best if better else bound


@kernel(counting=False)
def best_move(
    people: Individuals,
    groups: Any,
    nearest: np.ndarray,
    work: Workspace,
    unit: int,
    rules: ValueRules | None = None,
) -> float:
    """Gain of the best move of one unit; 0 if none. ``work.found`` = (target, partner), -1 for nobody.

    A target alone: the unit goes there; with a partner: they change places. Targets are the groups of its neighbours,
    the pool, and a FRESH group, of the unit alone or with the partner.
    With rules every move that would gain without them is kept, and judged after the scan: the rules only ever add to
    the loss of what a move makes, and a call inside the scan would slow it tenfold.
    O(neighbours x members x (d + values of a unit)).
    """
    gain = _best_exchange(people, groups, nearest, work, unit, rules)
    home = np.int64(groups.label[unit])
    # Compiled away where there are rules.
    if rules is None:  # noqa: SIM102
        if home >= 0 and groups.frees[0] > 0 and groups.active[unit] + groups.strongest[0] >= groups.k[0]:
            gain = _best_fresh(people, groups, nearest, work, unit, gain)
    return gain


@kernel(inner=True, counting=False)
def logged_move(people: Individuals, groups: Any, work: Workspace, unit: int, target: int) -> None:
    """Move a unit, note in the undo log where it came from, and put it on the list."""
    entry = work.logged[0]
    work.log[entry, 0], work.log[entry, 1] = unit, groups.label[unit]
    work.logged[0] += 1
    move(people, groups, unit, target)
    push(work, unit)


@kernel(inner=True, counting=False)
def refresh_and_push(
    people: Individuals, groups: Any, work: Workspace, number: int, rules: ValueRules | None = None
) -> None:
    """Recompute a group that changed and put its members on the list."""
    if number < 0:
        return
    refresh_group(people, groups, number, rules)
    unit = np.int64(groups.head[number])
    while unit >= 0:
        push(work, unit)
        unit = np.int64(groups.after[unit])


@kernel(counting=False)
def make_move(
    people: Individuals, groups: Any, work: Workspace, unit: int, rules: ValueRules | None = None
) -> None:
    """Make the move in ``work.found``; the groups that change are refreshed and their members looked at again."""
    home, target, partner = np.int64(groups.label[unit]), work.found[0], work.found[1]
    theirs = target
    if target == FRESH:
        theirs = np.int64(groups.label[partner]) if partner >= 0 else NOBODY
        target = np.int64(groups.free[groups.frees[0] - 1])
        logged_move(people, groups, work, unit, target)
        if partner >= 0:
            logged_move(people, groups, work, partner, target)
    else:
        if partner >= 0:
            logged_move(people, groups, work, partner, home)
        logged_move(people, groups, work, unit, target)
    # In a loop, as everything that refreshes: each further copy takes a second to compile.
    for number in (home, target, theirs if theirs != target else NOBODY):
        refresh_and_push(people, groups, work, number, rules)


@kernel(counting=False)
def descend(
    people: Individuals,
    groups: Any,
    nearest: np.ndarray,
    work: Workspace,
    limit: int,
    rules: ValueRules | None = None,
) -> float:
    """Best moves until nobody on the list has one, the log is full or ``limit`` evaluations are made.

    Returns the change of loss, in rows (<= 0).
    """
    change = 0.0
    while work.evaluations[0] < limit and work.logged[0] + 2 <= work.log.shape[0]:
        unit = pop(work)
        if unit < 0:
            break
        gain = best_move(people, groups, nearest, work, np.int64(unit), rules)
        if gain > 0.0:
            make_move(people, groups, work, np.int64(unit), rules)
            change -= gain
    return change
