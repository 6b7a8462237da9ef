"""Simulated annealing over neighbour lists."""

from __future__ import annotations

import numba
import numpy as np

from kanonflow.solvers.bits import next_random
from kanonflow.solvers.distinct_rows import Units
from kanonflow.solvers.search.slot_loss import PLACE, admits, replaced_loss, swap
from kanonflow.solvers.search.slots import Slots
from kanonflow.solvers.search.workspace import Workspace


@numba.njit(cache=True, nogil=True)
def anneal(
    units: Units,
    slots: Slots,
    nearest: np.ndarray,
    shard: np.ndarray,
    tour: np.ndarray,
    work: Workspace,
    draws: np.ndarray,
    first: int,
    limit: int,
    temperature: float,
) -> tuple:
    features = units.features
    k = slots.members.shape[1]
    m = nearest.shape[1]
    total = 0.0
    position = first
    evaluations = work.evaluations[0]
    proposals = 0
    accepted = 0
    while evaluations < limit:
        b = tour[position]
        position = (position + 1) % tour.size
        own = shard[b]
        for _ in range(2 * k):
            proposals += 1
            evaluations += 1
            random = next_random(work.random, 1 << 31)
            p = random % k
            random //= k
            source = random % k
            random //= k
            near = random % (m + 1)
            a = slots.members[b, p]
            c = slots.members[b, source]
            if near < m:
                c = nearest[c, near]
                if c < 0:
                    continue
            if c == a:
                continue
            start = slots.first_place[c]
            place = slots.places[start + next_random(work.random, slots.first_place[c + 1] - start)]
            d, q = place // PLACE, place % PLACE
            if d == b or shard[d] != own:
                continue
            bar = -temperature * draws[next_random(work.random, 4096)]
            if slots.spare[b, p] + slots.spare[d, q] <= bar:
                continue
            gain = slots.loss[b] - replaced_loss(features, slots, b, p, c)
            if gain + slots.spare[d, q] <= bar:
                continue
            gain += slots.loss[d] - replaced_loss(features, slots, d, q, a)
            evaluations += 1
            if gain <= bar:
                continue
            if not admits(slots, b, p, units.individual[c], units.limit[c]):
                continue
            if not admits(slots, d, q, units.individual[a], units.limit[a]):
                continue
            total += swap(features, slots, b, p, d, q)
            accepted += 1
    work.evaluations[0] = evaluations
    return total, position, proposals, accepted
