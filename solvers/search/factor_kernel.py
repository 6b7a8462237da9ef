"""Assignment moves."""

from __future__ import annotations

import numba
import numpy as np

from kanonflow.solvers.bits import next_random
from kanonflow.solvers.distinct_rows import Units
from kanonflow.solvers.search.slot_loss import PLACE, admits, replaced_loss, swap
from kanonflow.solvers.search.slots import Slots
from kanonflow.solvers.search.workspace import EPSILON, Workspace


@numba.njit(cache=True, nogil=True)
def assign(cost: np.ndarray, g: int, u: np.ndarray, v: np.ndarray, row_of: np.ndarray, col_of: np.ndarray,
           least: np.ndarray, way: np.ndarray, used: np.ndarray) -> bool:
    """Minimum-cost assignment; row_of[j] = row of column j. Returns whether it is not the identity."""
    moved = False
    for j in range(g):
        v[j] = 0.0
        row_of[j] = -1
    for i in range(g):
        best = cost[i, i]
        for j in range(g):
            if cost[i, j] < best:
                best = cost[i, j]
        u[i] = best
        col_of[i] = -1
        if best == cost[i, i]:
            row_of[i] = i
            col_of[i] = i
        else:
            moved = True
    if not moved:
        return False
    for i in range(g):
        if col_of[i] >= 0:
            continue
        for j in range(g):
            least[j] = np.inf
            used[j] = False
            way[j] = -1
        row = i
        column = -1
        while True:
            delta = np.inf
            following = -1
            for j in range(g):
                if used[j]:
                    continue
                reduced = cost[row, j] - u[row] - v[j]
                if reduced < least[j]:
                    least[j] = reduced
                    way[j] = column
                if least[j] < delta:
                    delta = least[j]
                    following = j
            u[i] += delta
            for j in range(g):
                if used[j]:
                    u[row_of[j]] += delta
                    v[j] -= delta
                else:
                    least[j] -= delta
            column = following
            used[column] = True
            row = row_of[column]
            if row < 0:
                break
        while column >= 0:
            before = way[column]
            row_of[column] = row_of[before] if before >= 0 else i
            column = before
    for j in range(g):
        col_of[row_of[j]] = j
    moved = False
    for i in range(g):
        if col_of[i] != i:
            moved = True
    return moved


@numba.njit(cache=True, nogil=True)
def groups(units: Units, slots: Slots, nearest: np.ndarray, shard: np.ndarray, tour: np.ndarray, work: Workspace,
           draws: np.ndarray, first: int, limit: int, g: int, temperature: float, counts: np.ndarray) -> tuple:
    features = units.features
    k = slots.members.shape[1]
    m = nearest.shape[1]
    total = 0.0
    position = first
    slot_at = np.empty(g, dtype=np.int64)
    place_at = np.empty(g, dtype=np.int64)
    unit_at = np.empty(g, dtype=np.int64)
    cost = np.empty((g, g))
    u = np.empty(g)
    v = np.empty(g)
    least = np.empty(g)
    row_of = np.empty(g, dtype=np.int64)
    col_of = np.empty(g, dtype=np.int64)
    way = np.empty(g, dtype=np.int64)
    used = np.empty(g, dtype=np.bool_)
    while work.evaluations[0] < limit:
        b = tour[position]
        position = (position + 1) % tour.size
        own = shard[b]
        size = 1
        slot_at[0] = b
        place_at[0] = next_random(work.random, k)
        for _ in range(3 * g):
            if size == g:
                break
            random = next_random(work.random, 1 << 31)
            center = slot_at[random % size]
            random //= size
            c = slots.members[center, random % k]
            random //= k
            near = random % (m + 1)
            if near < m:
                c = nearest[c, near]
                if c < 0:
                    continue
            start = slots.first_place[c]
            place = slots.places[start + next_random(work.random, slots.first_place[c + 1] - start)]
            d, q = place // PLACE, place % PLACE
            if shard[d] != own or slots.spare[d, q] <= EPSILON:
                continue
            fresh = True
            for t in range(size):
                if slot_at[t] == d:
                    fresh = False
            if fresh:
                slot_at[size] = d
                place_at[size] = q
                size += 1
        if size < 3:
            work.evaluations[0] += 1
            continue
        counts[0] += 1
        for i in range(size):
            unit_at[i] = slots.members[slot_at[i], place_at[i]]
        for i in range(size):
            s, p = slot_at[i], place_at[i]
            for j in range(size):
                c = unit_at[j]
                if i == j or c == unit_at[i]:
                    cost[i, j] = temperature * draws[next_random(work.random, 4096)] if i == j else 0.0
                elif not admits(slots, s, p, units.individual[c], units.limit[c]):
                    cost[i, j] = 1e6
                else:
                    cost[i, j] = replaced_loss(features, slots, s, p, c) - slots.loss[s]
        work.evaluations[0] += size * size - size
        if not assign(cost, size, u, v, row_of, col_of, least, way, used):
            continue
        gain = 0.0
        for i in range(size):
            gain -= cost[i, col_of[i]] - cost[i, i]
        if gain <= EPSILON:
            continue
        counts[1] += 1
        # carry out as swaps: slot i shall hold unit_at[col_of[i]]
        for i in range(size):
            # where is the wanted unit now: row_of as the place holder of column
            j = col_of[i]
            at = i
            for t in range(i, size):
                if way[t] == -99:
                    at = t
            used[i] = False
        for i in range(size):
            row_of[i] = i  # which original column stands in slot i now
        for i in range(size):
            want = col_of[i]
            at = i
            for t in range(i, size):
                if row_of[t] == want:
                    at = t
            if at != i:
                total += swap(features, slots, slot_at[i], place_at[i], slot_at[at], place_at[at])
                row_of[at] = row_of[i]
                row_of[i] = want
    return total, position
