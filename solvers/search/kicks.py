"""Iterated local search with *local* perturbations ("kicks"): a few swaps of near slots, repair, keep or undo.

S0's perturbation shakes the whole graph; here each kick disturbs two or three swaps around one slot, 2-opt repairs
the touched slots only, and an undo log takes the result back unless it is better. Kicks walk the slots in tour
order, so that what they read stays in the cache.
"""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.search.slot_loss import PLACE, admits, replaced_loss, swap
from kanonflow.solvers.search.slots import Slots
from kanonflow.solvers.search.two_opt import descend
from kanonflow.solvers.search.workspace import EPSILON, Workspace, pop, push
from kanonflow.solvers.units.bits import next_random
from kanonflow.solvers.units.distinct_rows import Units

# As numpy's numbers: for a literal the descent would be compiled once more than for the one that Python calls.
_LOGGING = np.bool_(True)
_NO_LIMIT = np.int64(np.iinfo(np.int64).max)


@kernel(inner=True, counting=False)
def _random_swap(
    units: Units,
    slots: Slots,
    nearest: np.ndarray,
    shard: np.ndarray,
    work: Workspace,
    b: int,
    draws: int,
) -> tuple:
    """The cheapest of ``draws`` random legal swaps of slot b with neighbouring slots.

    Returns the other slot, or -1, and the change of loss.
    """
    k = slots.members.shape[1]
    features = units.features
    best = np.inf
    chosen_p = chosen_d = chosen_q = np.int64(-1)
    found = 0
    evaluations = 0
    for _ in range(4 * draws):
        p = next_random(work.random, k)
        if found == draws or slots.spare[b, p] <= EPSILON:
            continue
        source = next_random(work.random, k)
        near = next_random(work.random, nearest.shape[1])
        c = nearest[slots.members[b, source], near]
        a = slots.members[b, p]
        if c < 0 or c == a:
            continue
        start = slots.first_place[c]
        place = slots.places[start + next_random(work.random, slots.first_place[c + 1] - start)]
        d, q = place // PLACE, place % PLACE
        if d == b or shard[d] != shard[b]:
            continue
        if not admits(slots, b, p, units.individual[c], units.limit[c]):
            continue
        if not admits(slots, d, q, units.individual[a], units.limit[a]):
            continue
        found += 1
        rise = replaced_loss(features, slots, b, p, c) - slots.loss[b]
        rise += replaced_loss(features, slots, d, q, a) - slots.loss[d]
        evaluations += 2
        if rise < best:
            best, chosen_p, chosen_d, chosen_q = rise, p, d, q
    work.evaluations[0] += evaluations
    change = 0.0
    if found > 0:
        change = swap(features, slots, b, chosen_p, chosen_d, chosen_q)
        entry = work.logged[0]
        work.log[entry, 0], work.log[entry, 1] = b, chosen_p
        work.log[entry, 2], work.log[entry, 3] = chosen_d, chosen_q
        work.logged[0] += 1
    return chosen_d, change


@kernel(inner=True, counting=False)
def _undo(units: Units, slots: Slots, work: Workspace) -> None:
    while work.logged[0] > 0:
        work.logged[0] -= 1
        entry = work.logged[0]
        swap(
            units.features,
            slots,
            np.int64(work.log[entry, 0]),
            np.int64(work.log[entry, 1]),
            np.int64(work.log[entry, 2]),
            np.int64(work.log[entry, 3]),
        )


@kernel(counting=False)
def kick(
    units: Units,
    slots: Slots,
    nearest: np.ndarray,
    shard: np.ndarray,
    tour: np.ndarray,
    work: Workspace,
    first: int,
    strength: int,
    draws: int,
    looked_at: int,
    limit: int,
    temperature: float,
) -> tuple:
    """Kick the slots of ``tour`` one after the other, from position ``first``, until ``limit`` evaluations.

    Returns (change of loss, next position). temperature: mean rise of loss that is kept; at 0 the loss never rises.
    Postcondition: every intermediate structure that survives is a legal graph.
    """
    total = 0.0
    position = first
    mean = 0.0
    for slot in tour:
        mean += slots.loss[slot]
    mean /= tour.size
    again = False
    while work.evaluations[0] < limit:
        b = tour[position]
        work.evaluations[0] += 1
        if not again and slots.loss[b] * 1000.0 < mean * next_random(work.random, np.int64(1000)):
            position = (position + 1) % tour.size
            continue
        # Where a kick has helped, the next one does more often than elsewhere.
        again = False
        work.logged[0] = 0
        change = 0.0
        current = b
        for _ in range(strength):
            other, changed = _random_swap(units, slots, nearest, shard, work, current, draws)
            change += changed
            if other >= 0:
                push(work, current)
                push(work, other)
                current = other
        if work.logged[0] == 0:
            position = (position + 1) % tour.size
            continue
        change += descend(units, slots, nearest, shard, work, looked_at, _LOGGING, _NO_LIMIT, change)
        bar = EPSILON
        if temperature > 0.0:
            bar -= temperature * np.log((next_random(work.random, np.int64(1 << 20)) + 1.0) / (1 << 20))
        if change < bar:
            again = change < -EPSILON
            total += change
        else:
            _undo(units, slots, work)
        if not again:
            position = (position + 1) % tour.size
        while pop(work) >= 0:
            pass
    return total, position
