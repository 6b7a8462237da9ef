"""Moves of individuals between closed classes: shift one, swap two, with the best gain; and the descent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.class_search.class_loss import (
    NOBODY,
    changed_loss,
    move,
    refresh_class,
    ruled_loss,
)
from kanonflow.solvers.class_search.rules import HOME, TARGET, ValueRules, forget
from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.search.workspace import EPSILON, Workspace, pop, push
from kanonflow.solvers.units.individuals import Individuals


def none_seen(classes: Any) -> NDArray[np.int64]:
    """The last scan that saw each class, for a search on ``classes`` that begins: int64 (c,)."""
    return np.zeros(classes.size.size, dtype=np.int64)


@kernel(inner=True, forceinline=True)
def _offer(rules: ValueRules, gain: float, target: int, partner: int) -> None:
    """Keep a move whose gain is at most this much, for ``_best_offer`` to judge."""
    place = rules.offers[0]
    rules.offer_gain[place] = gain
    rules.offer[place, 0], rules.offer[place, 1] = target, partner
    rules.offers[0] = place + 1


@kernel(inner=True)
def _true_gain(
    people: Individuals,
    classes: Any,
    rules: ValueRules,
    unit: int,
    target: int,
    partner: int,
) -> float:
    """Gain of a shift or swap under the value rules."""
    home = np.int64(classes.label[unit])
    gain = 0.0
    if home >= 0:
        gain += classes.loss[home] - ruled_loss(
            people, classes, rules, HOME, home, np.int64(classes.position[unit]), partner
        )
    else:
        gain += (people.rows[unit] - (people.rows[partner] if partner >= 0 else 0)) * classes.waiting
    if target >= 0:
        out = np.int64(classes.position[partner]) if partner >= 0 else NOBODY
        gain += classes.loss[target] - ruled_loss(people, classes, rules, TARGET, target, out, unit)
    else:
        gain -= (people.rows[unit] - (people.rows[partner] if partner >= 0 else 0)) * classes.waiting
    return gain


@kernel(inner=True)
def _best_offer(
    people: Individuals,
    classes: Any,
    rules: ValueRules,
    work: Workspace,
    unit: int,
    bound: float,
) -> float:
    """The best gain among the offers, most promising first: few are judged, for no gain is above its offer."""
    forget(rules)
    best = bound
    while rules.offers[0] > 0:
        place = np.argmax(rules.offer_gain[: rules.offers[0]])
        if rules.offer_gain[place] <= best:
            break
        target, partner = rules.offer[place, 0], rules.offer[place, 1]
        gain = _true_gain(people, classes, rules, unit, target, partner)
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


@kernel
def best_move(
    people: Individuals,
    classes: Any,
    nearest: np.ndarray,
    work: Workspace,
    seen: np.ndarray,
    unit: int,
    rules: ValueRules | None = None,
) -> float:
    """Gain of the best shift or swap of one individual; ``work.found`` = (target class, partner or -1). 0 if none.

    Targets are the classes of its neighbours, and the pool. With rules every move that would gain without them is kept,
    and judged after the scan: the rules only ever add to the loss of what a move makes, and a call inside the scan
    would slow it tenfold.
    """
    home = np.int64(classes.label[unit])
    rows = people.rows[unit] * classes.waiting
    at = np.int64(classes.position[unit])
    home_loss = classes.loss[home] if home >= 0 else rows
    without = changed_loss(people, classes, home, at, NOBODY) if home >= 0 else 0.0
    room = classes.members.shape[1] - 1
    work.clock[0] += 1
    best = EPSILON
    evaluations = 1
    if home >= 0 and home_loss - without - rows > best:
        if rules is not None:
            _offer(rules, home_loss - without - rows, NOBODY, NOBODY)
        else:
            best = home_loss - without - rows
            work.found[0], work.found[1] = NOBODY, NOBODY
    for index in range(nearest.shape[1]):
        # Missing neighbours are -1 and stand at the end: skipped, for a break would make the loop count references.
        other = np.int64(nearest[unit, index])
        if other < 0:
            continue
        target = np.int64(classes.label[other])
        if target == home:
            continue
        if target < 0:
            if home >= 0:
                joined = changed_loss(people, classes, home, at, other)
                evaluations += 1
                gain = home_loss + people.rows[other] * classes.waiting - joined - rows
                if gain > best:
                    if rules is not None:
                        _offer(rules, gain, NOBODY, other)
                    else:
                        best = gain
                        work.found[0], work.found[1] = NOBODY, other
            continue
        if seen[target] == work.clock[0]:
            continue
        seen[target] = work.clock[0]
        if classes.size[target] < room:
            joined = changed_loss(people, classes, target, NOBODY, unit)
            evaluations += 1
            gain = home_loss - without + classes.loss[target] - joined
            if gain > best:
                if rules is not None:
                    _offer(rules, gain, target, NOBODY)
                else:
                    best = gain
                    work.found[0], work.found[1] = target, NOBODY
        for p in range(classes.size[target]):
            partner = np.int64(classes.members[target, p])
            there = changed_loss(people, classes, target, p, unit)
            gain = home_loss + classes.loss[target] - there
            evaluations += 1
            if gain <= best:
                continue
            if home >= 0:
                gain -= changed_loss(people, classes, home, at, partner)
                evaluations += 1
            else:
                gain -= people.rows[partner] * classes.waiting
            if gain > best:
                if rules is not None:
                    _offer(rules, gain, target, partner)
                else:
                    best = gain
                    work.found[0], work.found[1] = target, partner
    work.evaluations[0] += evaluations
    if rules is not None:
        best = _best_offer(people, classes, rules, work, unit, best)
    return best if best > EPSILON else 0.0


@kernel(inner=True)
def logged_move(classes: Any, work: Workspace, unit: int, target: int) -> None:
    """Move an individual and note where it came from in the undo log."""
    entry = work.logged[0]
    work.log[entry, 0], work.log[entry, 1] = unit, classes.label[unit]
    work.logged[0] += 1
    move(classes, unit, target)


@kernel(inner=True)
def refresh_and_push(
    people: Individuals, classes: Any, work: Workspace, number: int, rules: ValueRules | None = None
) -> None:
    """Recompute a class that changed and put its members on the list."""
    if number < 0:
        return
    refresh_class(people, classes, number, rules)
    for p in range(classes.size[number]):
        push(work, np.int64(classes.members[number, p]))


@kernel
def class_descend(
    people: Individuals,
    classes: Any,
    nearest: np.ndarray,
    work: Workspace,
    seen: np.ndarray,
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
        gain = best_move(people, classes, nearest, work, seen, unit, rules)
        if gain <= 0.0:
            continue
        home, target, partner = np.int64(classes.label[unit]), work.found[0], work.found[1]
        if partner >= 0:
            logged_move(classes, work, partner, home)
            push(work, partner)
        logged_move(classes, work, unit, target)
        push(work, unit)
        refresh_and_push(people, classes, work, home, rules)
        refresh_and_push(people, classes, work, target, rules)
        change -= gain
    return change
