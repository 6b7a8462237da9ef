"""Local perturbations ("kicks") of closed classes: swaps, a class dissolved or split; repair; keep unless worse."""

from __future__ import annotations

from typing import Any

import numpy as np

from kanonflow.solvers.class_search.class_loss import NOBODY, move, refresh_class
from kanonflow.solvers.class_search.moves import (
    class_descend,
    logged_move,
    refresh_and_push,
)
from kanonflow.solvers.class_search.rules import ValueRules
from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.search.workspace import EPSILON, Workspace, pop, push
from kanonflow.solvers.units.bits import next_random
from kanonflow.solvers.units.individuals import Individuals, hull_loss
from kanonflow.solvers.units.stable_order import stable_order

# After two swaps the repair leads back to where it was in 84% of the kicks. Loss to that of l-greedy at equal budget,
# sparkov's weeks (days): two .912 (.850), three .906 (.837), four .902 (.833), six .896 (.829), nine .895 (.837); six
# spread over the neighbours of one individual instead of all of that individual: weeks .886 against .891, days equal.
_SWAPS = 6
# One kick in so many dissolves a class, another one splits a class: they cost much, and fewer are worth it.
_DRAWS = np.int64(12)
_NO_LIMIT = np.int64(np.iinfo(np.int64).max)


@kernel(inner=True, forceinline=True)
def _paid(people: Individuals, classes: Any, unit: int) -> float:
    """What an individual costs beside its class, in rows: waiting in the pool."""
    return people.rows[unit] * classes.waiting if classes.label[unit] < 0 else 0.0


@kernel(inner=True)
def _random_swap(
    people: Individuals,
    classes: Any,
    nearest: np.ndarray,
    work: Workspace,
    unit: int,
    change: np.ndarray,
    rules: ValueRules | None = None,
) -> bool:
    """Swap with a neighbour, or somebody in its class; ``change[0]`` takes the change of loss."""
    other = np.int64(nearest[unit, next_random(work.random, nearest.shape[1])])
    if other < 0 or classes.label[other] == classes.label[unit] or classes.label[unit] < 0:
        return False
    home, target = np.int64(classes.label[unit]), np.int64(classes.label[other])
    partner = other
    if target >= 0:
        partner = np.int64(classes.members[target, next_random(work.random, classes.size[target])])
    change[0] -= classes.loss[home] + (classes.loss[target] if target >= 0 else 0.0)
    change[0] -= _paid(people, classes, unit) + _paid(people, classes, partner)
    logged_move(classes, work, partner, home)
    logged_move(classes, work, unit, target)
    push(work, unit)
    push(work, partner)
    refresh_and_push(people, classes, work, home, rules)
    refresh_and_push(people, classes, work, target, rules)
    change[0] += classes.loss[home] + (classes.loss[target] if target >= 0 else 0.0)
    change[0] += _paid(people, classes, unit) + _paid(people, classes, partner)
    return True


@kernel(inner=True)
def _dissolve(
    people: Individuals,
    classes: Any,
    work: Workspace,
    number: int,
    change: np.ndarray,
    rules: ValueRules | None = None,
) -> bool:
    """Everybody into the pool; the descent finds new classes for them. Not for a class that would fill the undo log."""
    if classes.size[number] > work.log.shape[0] // 2:
        return False
    change[0] -= classes.loss[number]
    while classes.size[number] > 0:
        unit = np.int64(classes.members[number, classes.size[number] - 1])
        logged_move(classes, work, unit, NOBODY)
        change[0] += _paid(people, classes, unit)
        push(work, unit)
    refresh_class(people, classes, number, rules)
    return True


@kernel(inner=True)
def _split(
    people: Individuals,
    classes: Any,
    work: Workspace,
    number: int,
    empty: int,
    change: np.ndarray,
    rules: ValueRules | None = None,
) -> bool:
    """The k members nearest to a random one, by hull or by row count, become a class of their own."""
    size, k = classes.size[number], classes.k[0]
    if size < 2 * k or empty < 0 or k > work.log.shape[0] // 2:
        return False
    seed = np.int64(classes.members[number, next_random(work.random, size)])
    by_rows = next_random(work.random, np.int64(2)) == 0
    gaps = np.empty(size)
    units = np.empty(size, dtype=np.int64)
    for p in range(size):
        units[p] = classes.members[number, p]
        if by_rows:
            gaps[p] = abs(people.rows[units[p]] - people.rows[seed])
        else:
            gaps[p] = hull_loss(people, units[p], seed) if units[p] != seed else -1.0
    change[0] -= classes.loss[number]
    order, scratch = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    stable_order(gaps, size, order, scratch)
    for place in range(k):
        logged_move(classes, work, units[order[place]], empty)
    refresh_and_push(people, classes, work, number, rules)
    refresh_and_push(people, classes, work, empty, rules)
    change[0] += classes.loss[number] + classes.loss[empty]
    return True


@kernel(inner=True)
def _undo(
    people: Individuals, classes: Any, work: Workspace, seen: np.ndarray, rules: ValueRules | None = None
) -> None:
    """Everybody back to where they were, last moves first; the classes that changed are recomputed once."""
    moves = work.logged[0]
    for back in range(moves):
        entry = moves - 1 - back
        unit, origin = np.int64(work.log[entry, 0]), np.int64(work.log[entry, 1])
        now = classes.label[unit]
        work.log[entry, 2] = now
        move(classes, unit, origin)
        if now >= 0:
            seen[now] = -1
        if origin >= 0:
            seen[origin] = -1
    for entry in range(moves):
        for column in range(1, 3):
            number = np.int64(work.log[entry, column])
            if number >= 0 and seen[number] == -1:
                refresh_class(people, classes, number, rules)
                seen[number] = 0
    work.logged[0] = 0


@kernel
def class_kick(
    people: Individuals,
    classes: Any,
    nearest: np.ndarray,
    work: Workspace,
    seen: np.ndarray,
    tour: np.ndarray,
    first: int,
    limit: int,
    rules: ValueRules | None = None,
) -> int:
    """Kick along a tour of individuals until ``limit`` evaluations; returns the next position.

    Postcondition: the loss is not higher, and every class is empty or has at least k individuals or waits whole.
    """
    position = first
    change = np.zeros(1)
    while work.evaluations[0] < limit:
        unit = tour[position]
        position = (position + 1) % tour.size
        work.evaluations[0] += 1
        work.logged[0] = 0
        change[0] = 0.0
        number = np.int64(classes.label[unit])
        draw = next_random(work.random, _DRAWS)
        done = False
        if number >= 0 and draw == 0:
            done = _dissolve(people, classes, work, number, change, rules)
        elif number >= 0 and draw == 1:
            empty: Any = NOBODY
            for candidate in range(classes.size.size):
                if classes.size[candidate] == 0:
                    empty = candidate
                    break
            done = _split(people, classes, work, number, empty, change, rules)
        if not done:
            walker = unit
            for _ in range(_SWAPS):
                swapped = _random_swap(people, classes, nearest, work, walker, change, rules)
                done = done or swapped
                near = np.int64(nearest[unit, next_random(work.random, nearest.shape[1])])
                walker = near if near >= 0 else unit
        if not done:
            continue
        change[0] += class_descend(people, classes, nearest, work, seen, _NO_LIMIT, rules)
        if change[0] >= EPSILON:
            _undo(people, classes, work, seen, rules)
        while pop(work) >= 0:
            pass
    return position
