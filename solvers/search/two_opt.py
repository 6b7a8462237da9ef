"""2-opt over neighbour lists: the best swap that improves a slot (S0, Algorithm 2, with lists and don't-look bits).

A swap takes a out of slot b and c out of slot d and puts each in the other's place. One of the two slots must gain,
so it is enough to look, for each slot b, at units c near b's members that lower b's own loss.
"""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.search.ejection import best_chain
from kanonflow.solvers.search.slot_loss import PLACE, admits, least_added, replaced_loss, swap
from kanonflow.solvers.search.slots import Slots
from kanonflow.solvers.search.workspace import EPSILON, Workspace, pop, push
from kanonflow.solvers.units.bits import next_random
from kanonflow.solvers.units.distinct_rows import Units


@kernel(counting=False)
def best_swap(
    units: Units,
    slots: Slots,
    nearest: np.ndarray,
    shard: np.ndarray,
    work: Workspace,
    b: int,
    looked_at: int,
) -> float:
    """Gain of the best swap of slot b with a slot of its own shard; ``work.found`` says which. 0 if none.

    looked_at: places of each candidate that are tried (a random run of them when it has more).
    """
    features = units.features
    k = slots.members.shape[1]
    first = second = 0.0
    p1 = d1 = q1 = p2 = d2 = q2 = 0
    gain1 = gain2 = 0.0
    work.clock[0] += 1
    now = work.clock[0]
    best = EPSILON
    own_shard = shard[b]
    evaluations = 0
    for source in range(k):
        center = slots.members[b, source]
        for near in range(-1, nearest.shape[1]):
            if near < 0:
                c = center
                if units.limit[c] < 2:
                    continue
            else:
                c = nearest[center, near]
                # A break here would make numba count references inside the loops.
                if c < 0:
                    continue
            if work.stamp[c] == now:
                continue
            work.stamp[c] = now
            same = 0
            at = -1
            for p in range(k):
                if slots.who[b, p] == units.individual[c]:
                    same += 1
                    at = p
            if same > units.limit[c]:
                continue
            added = least_added(features, slots, b, c) + EPSILON
            evaluations += 1
            start = slots.first_place[c]
            count = slots.first_place[c + 1] - start
            for p in range(k):
                if same == units.limit[c] and p != at:
                    continue
                a = slots.members[b, p]
                if slots.spare[b, p] <= added or a == c:
                    continue
                gain_b = slots.loss[b] - replaced_loss(features, slots, b, p, c)
                evaluations += 1
                if gain_b <= EPSILON:
                    continue
                index = start
                tries = count
                if count > looked_at:
                    tries = looked_at
                    index = start + next_random(work.random, count)
                for _ in range(tries):
                    place = slots.places[index]
                    index += 1
                    if index == start + count:
                        index = start
                    d, q = place // PLACE, place % PLACE
                    if gain_b + slots.spare[d, q] <= best or d == b or shard[d] != own_shard:
                        continue
                    gain = gain_b + slots.loss[d] - replaced_loss(features, slots, d, q, a)
                    evaluations += 1
                    if best <= EPSILON:
                        promise = gain_b + slots.spare[d, q]
                        if promise > second:
                            fresh = promise > first
                            # Plain numbers: an array written here would slow the whole loop down.
                            second = first if fresh else promise
                            p2, d2, q2, gain2 = (p1, d1, q1, gain1) if fresh else (p, d, q, gain_b)
                            if fresh:
                                first, p1, d1, q1, gain1 = promise, p, d, q, gain_b
                    # Legality last: it fails rarely, and few candidates get this far.
                    if gain > best and admits(slots, d, q, units.individual[a], units.limit[a]):
                        best = gain
                        work.found[0], work.found[1], work.found[2] = p, d, q
    work.evaluations[0] += evaluations
    work.openings[0] = int(first > 0.0) + int(second > 0.0)
    work.opening_gain[0], work.opening_gain[1] = gain1, gain2
    work.opening[0, 0], work.opening[0, 1], work.opening[0, 2] = p1, d1, q1
    work.opening[1, 0], work.opening[1, 1], work.opening[1, 2] = p2, d2, q2
    return best if best > EPSILON else 0.0


@kernel(inner=True, forceinline=True, counting=False)
def _apply(
    units: Units, slots: Slots, work: Workspace, b: int, p: int, d: int, q: int, logging: bool
) -> float:
    """Swap, and note it in the undo log; returns the change of loss."""
    if logging:
        entry = work.logged[0]
        work.log[entry, 0], work.log[entry, 1] = b, p
        work.log[entry, 2], work.log[entry, 3] = d, q
        work.logged[0] += 1
    return swap(units.features, slots, b, p, d, q)


@kernel(counting=False)
def descend(
    units: Units,
    slots: Slots,
    nearest: np.ndarray,
    shard: np.ndarray,
    work: Workspace,
    looked_at: int,
    logging: bool,
    limit: int,
    risen: float,
) -> float:
    """Improve until no slot on the list has an improving swap; returns the change of loss (<= 0).

    With ``logging`` every swap goes to the undo log and the descent ends when the log is full. limit: evaluations
    after which the descent pauses, leaving the list as it is.
    """
    change = 0.0
    while work.evaluations[0] < limit:
        b = pop(work)
        if b < 0:
            break
        while True:
            moved = best_swap(units, slots, nearest, shard, work, b, looked_at) > 0.0
            chained = not moved and best_chain(units, slots, nearest, shard, work, b, looked_at) > 0.0
            if not moved and not chained:
                break
            p, d, q = work.found[0], work.found[1], work.found[2]
            last = d
            one, at = np.int64(b), p
            for step in range(2 if chained else 1):
                if step == 1:
                    # The second swap of a chain begins where the first one ended.
                    one, at, d, q = d, q, work.found[3], work.found[4]
                    push(work, d)
                change += _apply(units, slots, work, one, at, d, q, logging)
            push(work, last)
            if logging and (abs(risen + change) <= EPSILON or work.logged[0] + 2 > work.log.shape[0]):
                return change
    return change
