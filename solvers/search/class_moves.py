"""Moves of individuals between closed classes: shift one, swap two, with the best gain; and the descent."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.individuals import Individuals
from kanonflow.solvers.search.class_gate import HOME, TARGET, Gate, forget
from kanonflow.solvers.search.class_state import (
    POOL,
    WAITING,
    Classes,
    changed_loss,
    gated_loss,
    move,
    refresh_class,
)
from kanonflow.solvers.search.workspace import EPSILON, Workspace, pop, push


class ClassScratch(NamedTuple):
    """seen: int64 (c,), last scan that saw a class. movable: bool (u,), who may leave a class.

    home: int32 (u,), the class of the window before, -1 without one. tie: float64 (u,), what standing in another class
    than that one costs, in rows; 0 without a home. Waiting costs no tie: who waits keeps the old class.
    """

    seen: NDArray[np.int64]
    movable: NDArray[np.bool_]
    home: NDArray[np.int32]
    tie: NDArray[np.float64]


def build_scratch(
    classes: Classes, movable: NDArray[np.bool_], home: NDArray[np.int32], tie: NDArray[np.float64]
) -> ClassScratch:
    """Fresh scratch for a search on ``classes``."""
    return ClassScratch(np.zeros(classes.size.size, dtype=np.int64), movable, home, tie)


@numba.njit(cache=True, nogil=True, forceinline=True)
def tie_cost(scratch: ClassScratch, unit: int, number: int) -> float:
    """What an individual pays for standing in that class, or in the pool, and not in its class of before."""
    return scratch.tie[unit] if number >= 0 and number != scratch.home[unit] else 0.0


@numba.njit(cache=True, nogil=True, forceinline=True)
def _offer(gate: Gate, gain: float, target: int, partner: int) -> None:
    """Keep a move whose gain is at most this much, for ``_best_offer`` to judge."""
    place = gate.offers[0]
    gate.offer_gain[place] = gain
    gate.offer[place, 0], gate.offer[place, 1] = target, partner
    gate.offers[0] = place + 1


@numba.njit(cache=True, nogil=True)
def _true_gain(
    people: Individuals,
    classes: Classes,
    scratch: ClassScratch,
    gate: Gate,
    unit: int,
    target: int,
    partner: int,
) -> float:
    """Gain of a shift or swap under the gate's rules."""
    home = classes.label[unit]
    gain = tie_cost(scratch, unit, home) - tie_cost(scratch, unit, target)
    if partner >= 0:
        gain += tie_cost(scratch, partner, target) - tie_cost(scratch, partner, home)
    if home >= 0:
        gain += classes.loss[home] - gated_loss(
            people, classes, gate, HOME, home, classes.position[unit], partner
        )
    else:
        gain += (people.rows[unit] - (people.rows[partner] if partner >= 0 else 0)) * WAITING
    if target >= 0:
        out = classes.position[partner] if partner >= 0 else -1
        gain += classes.loss[target] - gated_loss(people, classes, gate, TARGET, target, out, unit)
    else:
        gain -= (people.rows[unit] - (people.rows[partner] if partner >= 0 else 0)) * WAITING
    return gain


@numba.njit(cache=True, nogil=True)
def _best_offer(
    people: Individuals,
    classes: Classes,
    scratch: ClassScratch,
    gate: Gate,
    work: Workspace,
    unit: int,
    bound: float,
) -> float:
    """The best gain among the offers, most promising first: few are judged, for no gain is above its offer."""
    forget(gate)
    best = bound
    while gate.offers[0] > 0:
        place = np.argmax(gate.offer_gain[: gate.offers[0]])
        if gate.offer_gain[place] <= best:
            break
        target, partner = gate.offer[place, 0], gate.offer[place, 1]
        gain = _true_gain(people, classes, scratch, gate, unit, target, partner)
        work.evaluations[0] += 1
        if gain > best:
            best = gain
            work.found[0], work.found[1] = target, partner
        last = gate.offers[0] - 1
        gate.offer_gain[place] = gate.offer_gain[last]
        gate.offer[place] = gate.offer[last]
        gate.offers[0] = last
    gate.offers[0] = 0
    return best


@numba.njit(cache=True, nogil=True)
def best_move(
    people: Individuals,
    classes: Classes,
    nearest: np.ndarray,
    work: Workspace,
    scratch: ClassScratch,
    unit: int,
    gate: Gate | None = None,
) -> float:
    """Gain of the best shift or swap of one individual; ``work.found`` = (target class, partner or -1). 0 if none.

    Targets are the classes of its neighbours, and the pool. Gains count the ties to the classes of before. A frozen
    individual is neither moved nor swapped. With a gate every move that would gain without it is kept, and judged
    after the scan: the rules only ever add to the loss of what a move makes, and a call inside the scan would slow it
    tenfold.
    """
    home = classes.label[unit]
    rows = people.rows[unit] * WAITING
    at = classes.position[unit]
    # All that this individual pays where it is, so that moves back to the class of before gain the tie.
    home_loss = (classes.loss[home] if home >= 0 else rows) + tie_cost(scratch, unit, home)
    without = changed_loss(people, classes, home, at, -1) if home >= 0 else 0.0
    room = classes.members.shape[1] - 1
    work.clock[0] += 1
    best = EPSILON
    evaluations = 1
    if home >= 0 and home_loss - without - rows > best:
        if gate is not None:
            _offer(gate, home_loss - without - rows, POOL, -1)
        else:
            best = home_loss - without - rows
            work.found[0], work.found[1] = POOL, -1
    for index in range(nearest.shape[1]):
        # Missing neighbours are -1 and stand at the end: skipped, for a break would make the loop count references.
        other = nearest[unit, index]
        if other < 0:
            continue
        target = classes.label[other]
        if target == home:
            continue
        if target < 0:
            if scratch.movable[other] and home >= 0:
                joined = changed_loss(people, classes, home, at, other)
                evaluations += 1
                gain = home_loss + people.rows[other] * WAITING - joined - rows
                gain -= tie_cost(scratch, other, home)
                if gain > best:
                    if gate is not None:
                        _offer(gate, gain, POOL, other)
                    else:
                        best = gain
                        work.found[0], work.found[1] = POOL, other
            continue
        if scratch.seen[target] == work.clock[0]:
            continue
        scratch.seen[target] = work.clock[0]
        own_tie = tie_cost(scratch, unit, target)
        if classes.size[target] < room:
            joined = changed_loss(people, classes, target, -1, unit)
            evaluations += 1
            gain = home_loss - without + classes.loss[target] - joined - own_tie
            if gain > best:
                if gate is not None:
                    _offer(gate, gain, target, -1)
                else:
                    best = gain
                    work.found[0], work.found[1] = target, -1
        for p in range(classes.size[target]):
            partner = classes.members[target, p]
            if not scratch.movable[partner]:
                continue
            there = changed_loss(people, classes, target, p, unit)
            gain = home_loss + classes.loss[target] - there - own_tie
            gain += tie_cost(scratch, partner, target) - tie_cost(scratch, partner, home)
            evaluations += 1
            if gain <= best:
                continue
            if home >= 0:
                gain -= changed_loss(people, classes, home, at, partner)
                evaluations += 1
            else:
                gain -= people.rows[partner] * WAITING
            if gain > best:
                if gate is not None:
                    _offer(gate, gain, target, partner)
                else:
                    best = gain
                    work.found[0], work.found[1] = target, partner
    work.evaluations[0] += evaluations
    if gate is not None:
        best = _best_offer(people, classes, scratch, gate, work, unit, best)
    return best if best > EPSILON else 0.0


@numba.njit(cache=True, nogil=True)
def logged_move(classes: Classes, work: Workspace, unit: int, target: int) -> None:
    """Move an individual and note where it came from in the undo log."""
    entry = work.logged[0]
    work.log[entry, 0], work.log[entry, 1] = unit, classes.label[unit]
    work.logged[0] += 1
    move(classes, unit, target)


@numba.njit(cache=True, nogil=True)
def refresh_and_push(
    people: Individuals, classes: Classes, work: Workspace, number: int, gate: Gate | None = None
) -> None:
    """Recompute a class that changed and put its members on the list."""
    if number < 0:
        return
    refresh_class(people, classes, number, gate)
    for p in range(classes.size[number]):
        push(work, classes.members[number, p])


@numba.njit(cache=True, nogil=True)
def class_descend(
    people: Individuals,
    classes: Classes,
    nearest: np.ndarray,
    work: Workspace,
    scratch: ClassScratch,
    limit: int,
    gate: Gate | None = None,
) -> float:
    """Best moves until nobody on the list has one, the log is full or ``limit`` evaluations are made.

    Returns the change of loss, in rows (<= 0).
    """
    change = 0.0
    while work.evaluations[0] < limit and work.logged[0] + 2 <= work.log.shape[0]:
        unit = pop(work)
        if unit < 0:
            break
        if not scratch.movable[unit]:
            continue
        gain = best_move(people, classes, nearest, work, scratch, unit, gate)
        if gain <= 0.0:
            continue
        home, target, partner = classes.label[unit], work.found[0], work.found[1]
        if partner >= 0:
            logged_move(classes, work, partner, home)
            push(work, partner)
        logged_move(classes, work, unit, target)
        push(work, unit)
        refresh_and_push(people, classes, work, home, gate)
        refresh_and_push(people, classes, work, target, gate)
        change -= gain
    return change
