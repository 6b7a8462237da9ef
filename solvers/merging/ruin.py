"""Ruin and recreate: a group is dissolved with near ones, and its cohorts are grouped afresh.

Few cohorts are grouped in the best way there is, by dynamic programming over their subsets. More are joined greedily,
in a random order, and repaired by descent; what then costs more than before is undone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.merging.groups import (
    MOST,
    NOBODY,
    Groups,
    box_ncp,
    empty_box,
    move,
    refresh,
    widen_box,
)
from kanonflow.solvers.merging.moves import descend, logged_move, refresh_and_push
from kanonflow.solvers.merging.near_cohorts import NearCohorts
from kanonflow.solvers.search.workspace import EPSILON, Workspace, pop, push
from kanonflow.solvers.units.bits import bits_cost, next_random
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost

# Cohorts that are grouped in the best way at once; joined greedily are up to MOST.
EXACT = 8
# Near groups that are dissolved with one, at most.
MORE = 3
# So many sums of the dynamic programme take the time of one hull that is priced.
STEPS = 16
_NO_LIMIT = np.int64(np.iinfo(np.int64).max)


class Ruin(NamedTuple):
    """Scratch for the cohorts of dissolved groups.

    units: int64 (MOST,), the cohorts; held: int64 (1,), how many. piece: int64 (MOST,), the new group of each, 0.. .
    box: float64 (r, 1 + 2 dn), words: uint64 (r, W), total: int64 (r, 2), cost: float64 (r,) of a new group, or of a
    subset, whose bits are places in ``units``. best: float64 (r,), cost of the best groups of a subset; choice: int64
    (r,), the one of them that has its last cohort.
    """

    units: NDArray[np.int64]
    held: NDArray[np.int64]
    piece: NDArray[np.int64]
    box: NDArray[np.float64]
    words: NDArray[np.uint64]
    total: NDArray[np.int64]
    cost: NDArray[np.float64]
    best: NDArray[np.float64]
    choice: NDArray[np.int64]


def build_ruin(people: Individuals) -> Ruin:
    """Empty scratch."""
    room = max(1 << EXACT, MOST)
    return Ruin(
        units=np.zeros(MOST, dtype=np.int64),
        held=np.zeros(1, dtype=np.int64),
        piece=np.zeros(MOST, dtype=np.int64),
        box=np.zeros((room, 1 + 2 * people.low.shape[1])),
        words=np.zeros((room, people.words.shape[1]), dtype=np.uint64),
        total=np.zeros((room, 2), dtype=np.int64),
        cost=np.zeros(room),
        best=np.zeros(room),
        choice=np.zeros(room, dtype=np.int64),
    )


@kernel(inner=True)
def _take(groups: Groups, work: Workspace, ruin: Ruin, number: int, most: int) -> bool:
    """Add a group's cohorts to those dissolved, unless it is among them or they were more than ``most``."""
    if work.stamp[number] == work.clock[0] or ruin.held[0] + groups.size[number] > most:
        return False
    work.stamp[number] = work.clock[0]
    unit = np.int64(groups.head[number])
    while unit >= 0:
        ruin.units[ruin.held[0]] = unit
        ruin.held[0] += 1
        unit = np.int64(groups.after[unit])
    return True


@kernel(inner=True)
def _choose(
    groups: Groups, nearest: np.ndarray, work: Workspace, ruin: Ruin, unit: int, more: int, most: int
) -> int:
    """Dissolve, in scratch, the group of a cohort and up to ``more`` near those taken; returns how many groups."""
    work.clock[0] += 1
    ruin.held[0] = 0
    taken = 0
    if _take(groups, work, ruin, np.int64(groups.label[unit]), most):
        taken += 1
        for _ in range(3 * more):
            if taken <= more:
                around = ruin.units[next_random(work.random, ruin.held[0])]
                other = np.int64(nearest[around, next_random(work.random, nearest.shape[1])])
                if other >= 0 and _take(groups, work, ruin, np.int64(groups.label[other]), most):
                    taken += 1
    return taken


@kernel(inner=True)
def _price_subsets(people: Individuals, groups: Groups, ruin: Ruin) -> int:
    """Box, totals and cost of each subset of the dissolved cohorts; infinite where it is not feasible.

    Also infinite where it surely is two feasible ones, which cost no more. Returns the subsets that were priced.
    """
    count, k = ruin.held[0], groups.k[0]
    largest = np.int64(0)
    for place in range(count):
        largest = max(largest, groups.active[ruin.units[place]])
    empty_box(people, ruin.box, ruin.words, np.int64(0))
    ruin.total[0, 0] = ruin.total[0, 1] = 0
    priced = 0
    for place in range(count):
        unit = ruin.units[place]
        top = np.int64(1) << place
        for below in range(top):
            subset = top + below
            ruin.total[subset, 0] = ruin.total[below, 0] + groups.rows[unit]
            ruin.total[subset, 1] = ruin.total[below, 1] + groups.active[unit]
            ruin.cost[subset] = np.inf
            # Taken one by one, k to k + largest - 1 are reached first, and the others are k or more.
            if ruin.total[subset, 1] < 2 * k + largest - 1:
                for column in range(ruin.box.shape[1]):
                    ruin.box[subset, column] = ruin.box[below, column]
                for w in range(ruin.words.shape[1]):
                    ruin.words[subset, w] = ruin.words[below, w]
                widen_box(people, ruin.box, ruin.words, subset, unit)
                priced += 1
                if ruin.total[subset, 1] >= k:
                    ruin.cost[subset] = ruin.total[subset, 0] * box_ncp(people, ruin.box, subset)
    return priced


@kernel
def best_pieces(people: Individuals, groups: Groups, work: Workspace, ruin: Ruin) -> float:
    """The cheapest feasible groups of the dissolved cohorts, into ``ruin.piece``, and their cost.

    best[S] = min over T in S that hold the last cohort of S: cost[T] + best[S - T]. O(3^count + 2^count (d + W)).
    """
    priced = _price_subsets(people, groups, ruin)
    count = ruin.held[0]
    ruin.best[0] = 0.0
    steps = 0
    for place in range(count):
        top = np.int64(1) << place
        for below in range(top):
            best, choice = np.inf, np.int64(0)
            # Every subset of ``below``, the largest first.
            part = np.int64(below)
            more: Any = True
            while more:
                cost = ruin.cost[top + part] + ruin.best[below - part]
                steps += 1
                if cost < best:
                    best, choice = cost, top + part
                more = part > 0
                part = (part - 1) & below
            ruin.best[top + below] = best
            ruin.choice[top + below] = choice
    whole = (np.int64(1) << count) - 1
    cost = ruin.best[whole]
    piece = 0
    while whole > 0:
        for place in range(count):
            if (ruin.choice[whole] >> place) & 1:
                ruin.piece[place] = piece
        whole -= ruin.choice[whole]
        piece += 1
    work.evaluations[0] += priced + steps // STEPS
    return cost


@kernel(inner=True)
def _join_pieces(people: Individuals, groups: Groups, work: Workspace, ruin: Ruin) -> None:
    """Random greedy: of the pieces that are not feasible a random one joins where it grows the cost least."""
    count, k = ruin.held[0], groups.k[0]
    for place in range(count):
        unit = ruin.units[place]
        ruin.piece[place] = place
        empty_box(people, ruin.box, ruin.words, place)
        widen_box(people, ruin.box, ruin.words, place, unit)
        ruin.total[place, 0], ruin.total[place, 1] = groups.rows[unit], groups.active[unit]
        ruin.cost[place] = groups.rows[unit] * box_ncp(people, ruin.box, place)
    priced = 0
    poor = 0
    for place in range(count):
        if ruin.total[place, 1] < k:
            poor += 1
    while poor > 0:
        draw = next_random(work.random, poor)
        piece = NOBODY
        for place in range(count):
            if ruin.total[place, 0] > 0 and ruin.total[place, 1] < k:
                if draw == 0:
                    piece = np.int64(place)
                draw -= 1
        best, partner = np.inf, NOBODY
        for other in range(count):
            if other != piece and ruin.total[other, 0] > 0:
                ncp = -people.first_value[0]
                for j in range(people.numeric_weight.size):
                    low = min(ruin.box[piece, 1 + 2 * j], ruin.box[other, 1 + 2 * j])
                    high = max(ruin.box[piece, 2 + 2 * j], ruin.box[other, 2 + 2 * j])
                    ncp += range_cost(people.orders, people.numeric_weight[j], j, low, high)
                for w in range(ruin.words.shape[1]):
                    ncp += bits_cost(ruin.words[piece, w] | ruin.words[other, w], people.bit_weight, w)
                priced += 1
                growth = (ruin.total[piece, 0] + ruin.total[other, 0]) * ncp - ruin.cost[other]
                if growth < best:
                    best, partner = growth, np.int64(other)
        # Whole groups were dissolved, so that somebody is left to join.
        if ruin.total[partner, 1] < k:
            poor -= 1
        for place in range(count):
            if ruin.piece[place] == piece:
                ruin.piece[place] = partner
                widen_box(people, ruin.box, ruin.words, partner, ruin.units[place])
        ruin.total[partner, 0] += ruin.total[piece, 0]
        ruin.total[partner, 1] += ruin.total[piece, 1]
        ruin.total[piece, 0] = ruin.total[piece, 1] = 0
        ruin.cost[partner] = ruin.total[partner, 0] * box_ncp(people, ruin.box, partner)
        if ruin.total[partner, 1] >= k:
            poor -= 1
    work.evaluations[0] += priced


@kernel(inner=True)
def _rebuild(people: Individuals, groups: Groups, work: Workspace, ruin: Ruin) -> float:
    """Put the dissolved cohorts into groups as ``ruin.piece`` says, logged; returns the change of cost."""
    count = ruin.held[0]
    change = 0.0
    for place in range(count):
        number = np.int64(groups.label[ruin.units[place]])
        change -= groups.loss[number]
        # Each group once.
        groups.loss[number] = 0.0
    for piece in range(count):
        target = NOBODY
        for place in range(count):
            if ruin.piece[place] == piece:
                if target < 0:
                    target = np.int64(groups.free[groups.frees[0] - 1])
                logged_move(groups, work, ruin.units[place], target)
        if target >= 0:
            refresh_and_push(people, groups, work, target)
            change += groups.loss[target]
    return change


@kernel(inner=True)
def _undo(people: Individuals, groups: Groups, work: Workspace) -> None:
    """Everybody back to where they were, last moves first; the groups that changed are recomputed once."""
    moves = work.logged[0]
    work.clock[0] += 1
    for back in range(moves):
        entry = moves - 1 - back
        unit = np.int64(work.log[entry, 0])
        work.log[entry, 2] = groups.label[unit]
        move(groups, unit, np.int64(work.log[entry, 1]))
    for entry in range(moves):
        for column in range(1, 3):
            number = np.int64(work.log[entry, column])
            if work.stamp[number] != work.clock[0]:
                work.stamp[number] = work.clock[0]
                groups.loss[number] = 0.0
                if groups.size[number] > 0:
                    refresh(people, groups, number)
                    work.evaluations[0] += groups.size[number]
    work.logged[0] = 0


@kernel(inner=True)
def _regroup(people: Individuals, groups: Groups, nearest: np.ndarray, work: Workspace, ruin: Ruin) -> None:
    """Group the dissolved cohorts in the best way, if it costs less than theirs now, and descend from there."""
    old = 0.0
    work.clock[0] += 1
    for place in range(ruin.held[0]):
        number = np.int64(groups.label[ruin.units[place]])
        if work.stamp[number] != work.clock[0]:
            work.stamp[number] = work.clock[0]
            old += groups.loss[number]
    if best_pieces(people, groups, work, ruin) < old * (1.0 - EPSILON):
        _rebuild(people, groups, work, ruin)
        descend(people, groups, nearest, work, _NO_LIMIT)


@kernel(inner=True)
def _recreate(people: Individuals, groups: Groups, nearest: np.ndarray, work: Workspace, ruin: Ruin) -> None:
    """Join the dissolved cohorts at random and descend; undone if that costs more than before."""
    _join_pieces(people, groups, work, ruin)
    change = _rebuild(people, groups, work, ruin)
    change += descend(people, groups, nearest, work, _NO_LIMIT)
    if change > EPSILON:
        _undo(people, groups, work)


@kernel
def search(
    people: Individuals, groups: Groups, near: NearCohorts, work: Workspace, ruin: Ruin, limit: int
) -> None:
    """Descend, then ruin and recreate along the tour of cohorts until ``limit`` evaluations, a kick more at most.

    Postcondition: the cost is not higher and every group is feasible.
    """
    for unit in near.tour:
        push(work, unit)
    while work.evaluations[0] < limit and work.bounds[0] != work.bounds[1]:
        work.logged[0] = 0
        descend(people, groups, near.nearest, work, limit)
    position = 0
    while work.evaluations[0] < limit:
        unit = near.tour[position]
        position = (position + 1) % near.tour.size
        work.evaluations[0] += 1
        work.logged[0] = 0
        few = next_random(work.random, np.int64(2)) == 0
        more = np.int64(MORE) if few else 1 + next_random(work.random, np.int64(MORE))
        if _choose(groups, near.nearest, work, ruin, unit, more, np.int64(EXACT if few else MOST)) < 2:
            continue
        if few:
            _regroup(people, groups, near.nearest, work, ruin)
        else:
            _recreate(people, groups, near.nearest, work, ruin)
        while pop(work) >= 0:
            pass
