"""Local perturbations ("kicks") of a partition: swaps, a group dissolved or split, some grouped afresh; repair; keep
unless worse."""

from __future__ import annotations

from typing import Any

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.partition_search.group_loss import NEVER, NOBODY, members, move, refresh_group
from kanonflow.solvers.partition_search.moves import descend, logged_move, refresh_and_push
from kanonflow.solvers.partition_search.ruin import Ruin, recreate
from kanonflow.solvers.partition_search.rules import ValueRules
from kanonflow.solvers.search.workspace import EPSILON, Workspace, pop
from kanonflow.solvers.units.bits import next_random
from kanonflow.solvers.units.individuals import Individuals, hull_loss
from kanonflow.solvers.units.stable_order import stable_order

# After two swaps the repair leads back to where it was in 84% of the kicks. Loss to that of l-greedy at equal budget,
# sparkov's weeks (days): two .912 (.850), three .906 (.837), four .902 (.833), six .896 (.829), nine .895 (.837); six
# spread over the neighbours of one individual instead of all of that individual: weeks .886 against .891, days equal.
_SWAPS = 6
# One kick in so many dissolves a class, another one splits a class: they cost much, and fewer are worth it.
_DRAWS = np.int64(12)
# So many of them group afresh; all of them where nobody may wait.
_RUINS = np.int64(1)
# The change of loss where nothing was done.
NOTHING = np.inf
_NO_LIMIT = np.int64(np.iinfo(np.int64).max)


@kernel(inner=True, forceinline=True, counting=False)
def _paid(people: Individuals, groups: Any, unit: int, target: int) -> float:
    """What a unit costs beside a target group, in rows: that group, and waiting in the pool."""
    loss = groups.loss[target] if target >= 0 else 0.0
    return loss + (people.rows[unit] * groups.waiting[0] if groups.label[unit] < 0 else 0.0)


@kernel(inner=True, counting=False)
def _random_swap(
    people: Individuals,
    groups: Any,
    nearest: np.ndarray,
    work: Workspace,
    unit: int,
    rules: ValueRules | None = None,
) -> float:
    """Swap with a neighbour, or somebody in its group; returns the change of loss, NOTHING where nothing was done."""
    other = np.int64(nearest[unit, next_random(work.random, nearest.shape[1])])
    if other < 0 or groups.label[other] == groups.label[unit] or groups.label[unit] < 0:
        return NOTHING
    home, target = np.int64(groups.label[unit]), np.int64(groups.label[other])
    partner = other
    if target >= 0:
        partner = np.int64(groups.head[target])
        for _ in range(next_random(work.random, groups.size[target])):
            partner = np.int64(groups.after[partner])
    change = -_paid(people, groups, unit, home) - _paid(people, groups, partner, target)
    logged_move(people, groups, work, partner, home)
    logged_move(people, groups, work, unit, target)
    for number in (home, target):
        refresh_and_push(people, groups, work, number, rules)
    return change + _paid(people, groups, unit, home) + _paid(people, groups, partner, target)


@kernel(inner=True, counting=False)
def _dissolve(people: Individuals, groups: Any, work: Workspace, number: int) -> float:
    """Everybody into the pool; the descent finds new groups for them. NOTHING for a group that would fill the log."""
    if groups.size[number] > work.log.shape[0] // 2:
        return NOTHING
    change = groups.total[number, 0] * groups.waiting[0] - groups.loss[number]
    while groups.size[number] > 0:
        logged_move(people, groups, work, np.int64(groups.head[number]), NOBODY)
    groups.loss[number] = 0.0
    return change


@kernel(inner=True)
def _split(
    people: Individuals, groups: Any, work: Workspace, number: int, rules: ValueRules | None = None
) -> float:
    """The k members nearest to a random one, by hull or by row count, become a group of their own."""
    size, k = groups.size[number], groups.k[0]
    if size < 2 * k or groups.frees[0] == 0 or k > work.log.shape[0] // 2:
        return NOTHING
    units = members(groups, number)
    seed = units[next_random(work.random, size)]
    by_rows = next_random(work.random, np.int64(2)) == 0
    gaps = np.empty(size)
    for p in range(size):
        if by_rows:
            gaps[p] = abs(people.rows[units[p]] - people.rows[seed])
        else:
            gaps[p] = hull_loss(people, units[p], seed) if units[p] != seed else -1.0
    change = -groups.loss[number]
    order, scratch = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    stable_order(gaps, size, order, scratch)
    empty = np.int64(groups.free[groups.frees[0] - 1])
    for place in range(k):
        logged_move(people, groups, work, units[order[place]], empty)
    for part in (number, empty):
        refresh_and_push(people, groups, work, part, rules)
        change += groups.loss[part]
    return change


@kernel(inner=True, counting=False)
def _undo(people: Individuals, groups: Any, work: Workspace, rules: ValueRules | None = None) -> None:
    """Everybody back to where they were, last moves first; the groups that changed are recomputed once."""
    moves = work.logged[0]
    work.clock[0] += 1
    for back in range(moves):
        entry = moves - 1 - back
        unit = np.int64(work.log[entry, 0])
        work.log[entry, 2] = groups.label[unit]
        move(people, groups, unit, np.int64(work.log[entry, 1]))
    for entry in range(moves):
        for column in range(1, 3):
            number = np.int64(work.log[entry, column])
            if number >= 0 and work.stamp[number] != work.clock[0]:
                work.stamp[number] = work.clock[0]
                refresh_group(people, groups, number, rules)
    work.logged[0] = 0


@kernel(counting=False)
def kick(
    people: Individuals,
    groups: Any,
    nearest: np.ndarray,
    work: Workspace,
    tour: np.ndarray,
    first: int,
    limit: int,
    ruin: Ruin | None = None,
    rules: ValueRules | None = None,
) -> Any:
    """Kick along a tour of units until ``limit`` evaluations; returns the next position.

    ruin: scratch, for a loss that prices boxes and where there are no rules.
    Postcondition: the loss is not higher. Where nobody may wait every group is feasible, if it was before.
    """
    position = np.int64(first)
    all_afresh = groups.waiting[0] >= NEVER
    while work.evaluations[0] < limit:
        unit = np.int64(tour[position])
        position = (position + 1) % tour.size
        work.evaluations[0] += 1
        work.logged[0] = 0
        change = NOTHING
        number = np.int64(groups.label[unit])
        draw = np.int64(-1) if all_afresh else next_random(work.random, _DRAWS)
        # Two conditions, or it is not compiled away where there is no scratch.
        if ruin is not None:  # noqa: SIM102
            if number >= 0 and (all_afresh or draw >= _DRAWS - _RUINS):
                change = recreate(people, groups, nearest, work, ruin, unit)
        if number >= 0 and draw == 0:
            change = _dissolve(people, groups, work, number)
        elif number >= 0 and draw == 1:
            change = _split(people, groups, work, number, rules)
        if change == NOTHING and not all_afresh:
            walker = unit
            for _ in range(_SWAPS):
                swapped = _random_swap(people, groups, nearest, work, walker, rules)
                if swapped < NOTHING:
                    change = swapped + (change if change < NOTHING else 0.0)
                near = np.int64(nearest[unit, next_random(work.random, nearest.shape[1])])
                walker = near if near >= 0 else unit
        if change == NOTHING:
            continue
        change += descend(people, groups, nearest, work, _NO_LIMIT, rules)
        if change > EPSILON:
            _undo(people, groups, work, rules)
        while pop(work) >= 0:
            pass
    return position
