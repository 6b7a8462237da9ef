"""Ruin and recreate: a group is dissolved with near ones, and its units are grouped afresh.

Few units are grouped in the best way there is, by dynamic programming over their subsets. More are joined greedily,
in a random order, and repaired by descent; what then costs more than before is undone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.partition_search.group_loss import NOBODY, SPARE
from kanonflow.solvers.partition_search.groups import (
    Groups,
    both_ncp,
    box_ncp,
    empty_box,
    group_cost,
    widen_box,
)
from kanonflow.solvers.partition_search.moves import logged_move, refresh_and_push
from kanonflow.solvers.search.workspace import EPSILON, Workspace
from kanonflow.solvers.units.bits import next_random
from kanonflow.solvers.units.individuals import Individuals

# Units that are grouped in the best way at once; joined greedily are up to MOST.
EXACT = 8
MOST = SPARE
# Near groups that are dissolved with one, at most.
MORE = 3
# So many sums of the dynamic programme take the time of one hull that is priced.
STEPS = 16


class Ruin(NamedTuple):
    """Scratch for the units of dissolved groups.

    units: int64 (MOST,), the units; held: int64 (1,), how many. piece: int64 (MOST,), the new group of each, 0.. .
    box: float64 (r, 1 + 2 dn), words: uint64 (r, W), cost: float64 (r,) of a new group, or of a subset, whose bits are
    places in ``units``. total: int64 (r, 4), its rows, active people, units, and fewest rows of one. best: float64
    (r,), cost of the best groups of a subset; choice: int64 (r,), the one of them that has its last unit.
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
        total=np.zeros((room, 4), dtype=np.int64),
        cost=np.zeros(room),
        best=np.zeros(room),
        choice=np.zeros(room, dtype=np.int64),
    )


@kernel(inner=True, counting=False)
def _take(groups: Groups, work: Workspace, ruin: Ruin, number: int, most: int) -> bool:
    """Add a group's units to those dissolved, unless it is among them or they were more than ``most``."""
    if work.stamp[number] == work.clock[0] or ruin.held[0] + groups.size[number] > most:
        return False
    work.stamp[number] = work.clock[0]
    unit = np.int64(groups.head[number])
    while unit >= 0:
        ruin.units[ruin.held[0]] = unit
        ruin.held[0] += 1
        unit = np.int64(groups.after[unit])
    return True


@kernel(inner=True, counting=False)
def _choose(
    groups: Groups, nearest: np.ndarray, work: Workspace, ruin: Ruin, unit: int, more: int, most: int
) -> int:
    """Dissolve, in scratch, the group of a unit and up to ``more`` near those taken; returns how many groups."""
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


@kernel(inner=True, counting=False)
def _price_subsets(people: Individuals, groups: Groups, ruin: Ruin) -> int:
    """Box, totals and cost of each subset of the dissolved units; infinite where it is not feasible.

    Also infinite where it surely is two feasible ones, which cost no more. Returns the subsets that were priced.
    """
    count, k = ruin.held[0], groups.k[0]
    largest = np.int64(0)
    for place in range(count):
        largest = max(largest, groups.active[ruin.units[place]])
    empty_box(people, ruin.box, ruin.words, np.int64(0))
    ruin.total[0, :3] = 0
    ruin.total[0, 3] = np.iinfo(np.int64).max
    priced = 0
    for place in range(count):
        unit = ruin.units[place]
        top = np.int64(1) << place
        for below in range(top):
            subset = top + below
            rows = ruin.total[below, 0] + people.rows[unit]
            size = ruin.total[below, 2] + 1
            fewest = min(ruin.total[below, 3], people.rows[unit])
            ruin.total[subset, 0], ruin.total[subset, 2], ruin.total[subset, 3] = rows, size, fewest
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
                ruin.cost[subset] = rows * groups.waiting[0]
                if ruin.total[subset, 1] >= k:
                    ncp = box_ncp(people, ruin.box, subset)
                    ruin.cost[subset] = group_cost(groups, size, rows, fewest, ncp)
    return priced


@kernel(counting=False)
def best_pieces(people: Individuals, groups: Groups, work: Workspace, ruin: Ruin) -> float:
    """The cheapest feasible groups of the dissolved units, into ``ruin.piece``, and their cost.

    best[S] = min over T in S that hold the last unit of S: cost[T] + best[S - T]. O(3^count + 2^count (d + W)).
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


@kernel(inner=True, counting=False)
def _join_pieces(people: Individuals, groups: Groups, work: Workspace, ruin: Ruin) -> None:
    """Random greedy: of the pieces that are not feasible a random one joins where it grows the cost least."""
    count, k = ruin.held[0], groups.k[0]
    for place in range(count):
        unit = ruin.units[place]
        ruin.piece[place] = place
        empty_box(people, ruin.box, ruin.words, place)
        widen_box(people, ruin.box, ruin.words, place, unit)
        ruin.total[place, 0], ruin.total[place, 1] = people.rows[unit], groups.active[unit]
        ruin.cost[place] = people.rows[unit] * box_ncp(people, ruin.box, place)
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
                ncp = both_ncp(people, ruin.box, ruin.words, piece, other)
                priced += 1
                growth = (ruin.total[piece, 0] + ruin.total[other, 0]) * ncp - ruin.cost[other]
                if growth < best:
                    best, partner = growth, np.int64(other)
        if partner < 0:
            # All together are too few: they are one group that waits.
            break
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


@kernel(inner=True, counting=False)
def _rebuild(people: Individuals, groups: Groups, work: Workspace, ruin: Ruin) -> float:
    """Put the dissolved units into groups as ``ruin.piece`` says, logged; returns the change of cost."""
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
                logged_move(people, groups, work, ruin.units[place], target)
        if target >= 0:
            refresh_and_push(people, groups, work, target)
            change += groups.loss[target]
    return change


@kernel(inner=True, counting=False)
def recreate(
    people: Individuals, groups: Groups, nearest: np.ndarray, work: Workspace, ruin: Ruin, unit: int
) -> float:  # fmt: skip
    """Dissolve the group of a unit and some near ones, and group their units afresh; returns the change of loss.

    Half of the times in the best way there is, where two groups can be of so few units. Infinite: nothing was done.
    """
    least = 2 * groups.k[0] if groups.even else 2
    if least > MOST:
        return np.inf
    few = next_random(work.random, np.int64(2)) == 0 and least <= EXACT
    more = np.int64(MORE) if few else 1 + next_random(work.random, np.int64(MORE))
    taken = _choose(groups, nearest, work, ruin, unit, more, np.int64(EXACT if few else MOST))
    if taken < 2 or groups.frees[0] < ruin.held[0]:
        return np.inf
    if not few:
        _join_pieces(people, groups, work, ruin)
    elif best_pieces(people, groups, work, ruin) >= _dissolved_loss(groups, work, ruin) * (1.0 - EPSILON):
        return np.inf
    return _rebuild(people, groups, work, ruin)


@kernel(inner=True, counting=False)
def _dissolved_loss(groups: Groups, work: Workspace, ruin: Ruin) -> float:
    """What the groups of the dissolved units cost now."""
    loss = 0.0
    work.clock[0] += 1
    for place in range(ruin.held[0]):
        number = np.int64(groups.label[ruin.units[place]])
        if work.stamp[number] != work.clock[0]:
            work.stamp[number] = work.clock[0]
            loss += groups.loss[number]
    return loss
