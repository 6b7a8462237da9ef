"""Ejection chains of three slots: (a in b, c in d, e in f) becomes (c in b, e in d, a in f).

Tried where 2-opt is stuck. The swaps that helped slot b most but could not be closed by putting a into d are kept;
for each of them a unit e near d takes c's place, and a goes where e was. A chain is two swaps one after the other,
so applying, logging and undoing it need nothing new.
"""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.search.slot_loss import PLACE, admits, replaced_loss
from kanonflow.solvers.search.slots import Slots
from kanonflow.solvers.search.workspace import EPSILON, Workspace
from kanonflow.solvers.units.bits import next_random
from kanonflow.solvers.units.distinct_rows import Units


@kernel(counting=False)
def best_chain(
    units: Units,
    slots: Slots,
    nearest: np.ndarray,
    shard: np.ndarray,
    work: Workspace,
    b: int,
    looked_at: int,
) -> float:
    """Gain of the best chain from the remembered openings of slot b; ``work.found`` holds its two swaps. 0 if none."""
    features = units.features
    k = slots.members.shape[1]
    best = EPSILON
    evaluations = 0
    for number in range(work.openings[0]):
        p, d, q = work.opening[number, 0], work.opening[number, 1], work.opening[number, 2]
        gain_b = work.opening_gain[number]
        a = slots.members[b, p]
        c = slots.members[d, q]
        work.clock[0] += 1
        now = work.clock[0]
        for source in range(k):
            if source == q:
                continue
            center = slots.members[d, source]
            for near in range(-1, nearest.shape[1]):
                e = center if near < 0 else nearest[center, near]
                if e < 0:
                    continue
                if (near < 0 and units.limit[e] < 2) or work.stamp[e] == now:
                    continue
                work.stamp[e] = now
                if e in (a, c):
                    continue
                gain = gain_b + slots.loss[d] - replaced_loss(features, slots, d, q, e)
                evaluations += 1
                if gain <= EPSILON or not admits(slots, d, q, units.individual[e], units.limit[e]):
                    continue
                start = slots.first_place[e]
                count = slots.first_place[e + 1] - start
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
                    f, r = place // PLACE, place % PLACE
                    if gain + slots.spare[f, r] <= best or f in (b, d) or shard[f] != shard[b]:
                        continue
                    closed = gain + slots.loss[f] - replaced_loss(features, slots, f, r, a)
                    evaluations += 1
                    if closed > best and admits(slots, f, r, units.individual[a], units.limit[a]):
                        best = closed
                        work.found[0], work.found[1], work.found[2] = p, d, q
                        work.found[3], work.found[4] = f, r
    work.evaluations[0] += evaluations
    return best if best > EPSILON else 0.0
