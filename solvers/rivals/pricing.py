"""Exact pricing: the slot of least reduced cost among those whose member of largest dual is a given unit.

A slot S, a multiset of k units, has the reduced cost ``c(S) - sum of y over S``: its loss less its members' duals y.
Units are ranked by their duals, largest first; the anchor of a slot is its member of best rank. Depth-first branch
and bound: a node is a set of members and the units that may join them, sorted by the loss of the box with each of
them; a branch takes the *furthest* of the members still to come, so that the box grows at once and only units that
stand before it in the order remain. A branch to unit p costs at least ``c(box + p) - y(members) - y_p - (the largest
duals of those before p)``; at the last member this is exact. A branch that reaches the bar is not followed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.rivals.shared_costs import (
    Shares,
    build_shares,
    cheapest_join,
    clear_shares,
    join_with,
    share_values,
)
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.features import Features
from kanonflow.solvers.units.neighbours import pair_loss

# A slot counts as cheaper than another one only by more than this.
TOLERANCE = 1e-10
# Slots that one walk hands back: its last, and best, ones.
SLOTS_PER_ANCHOR = 3
# First share of an anchor's dual by which the bar is lowered when the nodes do not suffice; doubled each time.
FIRST_SHARE = 0.01
# Members still missing from which a node is worth the rounds of shared_costs.
LEAST_TO_SHARE = 3
SHARE_ROUNDS = 15
ROOT_ROUNDS = 60


class Nodes(NamedTuple):
    """Scratch of one depth-first walk, one row a depth.

    unit: int32 (k + 1, room), candidates; box: float64 (k + 1, room), loss of the box with each; least: float64, a
    bound of each branch. filled, cursor: int64 (k + 1,). taken: int32 (k,), members. low, high: float64 (k + 1, dn);
    words: uint64 (k + 1, W); categorical, dual: float64 (k + 1,), of the members. top: float64 (k,).
    """

    unit: NDArray[np.int32]
    box: NDArray[np.float64]
    least: NDArray[np.float64]
    filled: NDArray[np.int64]
    cursor: NDArray[np.int64]
    taken: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    words: NDArray[np.uint64]
    categorical: NDArray[np.float64]
    dual: NDArray[np.float64]
    top: NDArray[np.float64]
    shares: Shares


def build_nodes(features: Features, units: int, k: int) -> Nodes:
    """Scratch for slots of k units."""
    room = units + k
    dn, width = features.numeric.shape[1], features.words.shape[1]
    return Nodes(
        unit=np.empty((k + 1, room), dtype=np.int32),
        box=np.empty((k + 1, room)),
        least=np.empty((k + 1, room)),
        filled=np.zeros(k + 1, dtype=np.int64),
        cursor=np.zeros(k + 1, dtype=np.int64),
        taken=np.empty(k, dtype=np.int32),
        low=np.empty((k + 1, dn)),
        high=np.empty((k + 1, dn)),
        words=np.zeros((k + 1, width), dtype=np.uint64),
        categorical=np.zeros(k + 1),
        dual=np.zeros(k + 1),
        top=np.empty(k),
        shares=build_shares(features, room, k),
    )


@kernel(inner=True, forceinline=True)
def joined_loss(features: Features, nodes: Nodes, depth: int, unit: int) -> float:
    """Loss of the box of the first ``depth`` members and a unit."""
    total = nodes.categorical[depth]
    for j in range(features.numeric_weight.size):
        x = features.numeric[unit, j]
        total += min(max(nodes.high[depth, j], x) - min(nodes.low[depth, j], x), features.numeric_weight[j])
    for w in range(features.words.shape[1]):
        total += bits_cost(features.words[unit, w] & ~nodes.words[depth, w], features.bit_weight, w)
    for j in range(features.wide_weight.size):
        fresh = True
        for p in range(depth):
            if features.wide[nodes.taken[p], j] == features.wide[unit, j]:
                fresh = False
        if fresh:
            total += features.wide_weight[j]
    return total


@kernel(inner=True, forceinline=True)
def take_member(features: Features, nodes: Nodes, depth: int, unit: int, dual: float) -> None:
    """Make a unit the member number ``depth``: the box of the next depth."""
    categorical = nodes.categorical[depth] if depth > 0 else 0.0
    for j in range(features.numeric_weight.size):
        x = features.numeric[unit, j]
        nodes.low[depth + 1, j] = min(nodes.low[depth, j], x) if depth > 0 else x
        nodes.high[depth + 1, j] = max(nodes.high[depth, j], x) if depth > 0 else x
    for w in range(features.words.shape[1]):
        if depth > 0:
            new = features.words[unit, w] & ~nodes.words[depth, w]
            categorical += bits_cost(new, features.bit_weight, w)
            nodes.words[depth + 1, w] = nodes.words[depth, w] | new
        else:
            nodes.words[1, w] = features.words[unit, w]
    for j in range(features.wide_weight.size):
        fresh = depth > 0
        for p in range(depth):
            if features.wide[nodes.taken[p], j] == features.wide[unit, j]:
                fresh = False
        if fresh:
            categorical += features.wide_weight[j]
    nodes.taken[depth] = unit
    nodes.categorical[depth + 1] = categorical
    nodes.dual[depth + 1] = (nodes.dual[depth] if depth > 0 else 0.0) + dual


@kernel(inner=True, forceinline=True)
def _sort(nodes: Nodes, depth: int) -> None:
    """Candidates of a depth by box loss, then by unit, so that copies of one stand together (shell sort)."""
    count = nodes.filled[depth]
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            box, unit = nodes.box[depth, i], nodes.unit[depth, i]
            at = i
            while at >= gap and (
                nodes.box[depth, at - gap] > box
                or (nodes.box[depth, at - gap] == box and nodes.unit[depth, at - gap] > unit)
            ):
                nodes.box[depth, at] = nodes.box[depth, at - gap]
                nodes.unit[depth, at] = nodes.unit[depth, at - gap]
                at -= gap
            nodes.box[depth, at], nodes.unit[depth, at] = box, unit
        gap //= 3


@kernel(inner=True, forceinline=True)
def _raise_top(nodes: Nodes, size: int, dual: float, total: float) -> float:
    """Let a dual into the ``size`` largest, kept in descending order; returns their new sum."""
    if size > 0 and dual > nodes.top[size - 1]:
        if nodes.top[size - 1] > -np.inf:
            total -= nodes.top[size - 1]
        at = size - 1
        while at > 0 and nodes.top[at - 1] < dual:
            nodes.top[at] = nodes.top[at - 1]
            at -= 1
        nodes.top[at] = dual
        total += dual
    return total


@kernel(inner=True, forceinline=True)
def _bound_branches(nodes: Nodes, dual: np.ndarray, depth: int, k: int) -> None:
    """Sort the candidates and bound each branch (module docstring); infinite where too few stand before it."""
    _sort(nodes, depth)
    others = k - depth - 1
    for p in range(others):
        nodes.top[p] = -np.inf
    total = 0.0
    for p in range(nodes.filled[depth]):
        own = dual[nodes.unit[depth, p]]
        if p < others:
            nodes.least[depth, p] = np.inf
        else:
            nodes.least[depth, p] = nodes.box[depth, p] - nodes.dual[depth] - own - total
        total = _raise_top(nodes, others, own, total)
    nodes.cursor[depth] = 0


@kernel(inner=True, forceinline=True)
def _fill_child(
    units: Units, nodes: Nodes, dual: np.ndarray, depth: int, last: int, k: int, bar: float
) -> None:
    """Candidates of ``depth`` from those before ``last`` of the depth above."""
    others = k - depth - 1
    for p in range(others):
        nodes.top[p] = -np.inf
    total = 0.0
    for p in range(last):
        total = _raise_top(nodes, others, dual[nodes.unit[depth - 1, p]], total)
    who = units.individual[nodes.taken[depth - 1]]
    alone = units.limit[nodes.taken[depth - 1]] == 1
    # Every box from here on holds the member taken last.
    least_dual = nodes.box[depth - 1, last] - nodes.dual[depth] - total - bar
    count = 0
    for p in range(last):
        unit = nodes.unit[depth - 1, p]
        if dual[unit] <= least_dual or (alone and units.individual[unit] == who):
            continue
        box = joined_loss(units.features, nodes, depth, unit)
        if box - nodes.dual[depth] - dual[unit] - total < bar:
            nodes.unit[depth, count], nodes.box[depth, count] = unit, box
            count += 1
    nodes.filled[depth] = count if count > others else 0


@kernel(inner=True, forceinline=True)
def _thin_out(
    units: Units, nodes: Nodes, dual: np.ndarray, depth: int, k: int, bar: float, rounds: int
) -> None:
    """Drop candidates that no slot below the bar can hold, by sharing what they add (shared_costs)."""
    features = units.features
    filled = nodes.filled[depth]
    loss = nodes.categorical[depth]
    one_side = False
    for j in range(features.numeric_weight.size):
        loss += min(nodes.high[depth, j] - nodes.low[depth, j], features.numeric_weight[j])
        # A null's coordinate is beyond the weight, which no number's is.
        one_side = one_side or nodes.high[depth, j] > features.numeric_weight[j]
        for p in range(filled):
            one_side = one_side or features.numeric[nodes.unit[depth, p], j] > features.numeric_weight[j]
    clear_shares(nodes.shares)
    for p in range(filled):
        unit = nodes.unit[depth, p]
        alone = share_values(
            features, nodes.shares, p, unit, nodes.low, nodes.high, nodes.words, depth, one_side
        )
        # Values of wide attributes: each of the r pays for an r-th of them.
        nodes.shares.paid[p] = max(0.0, nodes.box[depth, p] - loss - alone) / (k - depth)
    r = k - depth
    enough = bar - loss + nodes.dual[depth]
    if cheapest_join(nodes.shares, dual, nodes.unit, depth, filled, r, enough, rounds) >= enough:
        nodes.filled[depth] = 0
        return
    kept = 0
    for p in range(filled):
        if join_with(nodes.shares, p, r) < enough:
            nodes.unit[depth, kept], nodes.box[depth, kept] = nodes.unit[depth, p], nodes.box[depth, p]
            kept += 1
    nodes.filled[depth] = kept if kept >= r else 0


@kernel(inner=True)
def _fill_root(
    units: Units, nodes: Nodes, dual: np.ndarray, order: np.ndarray, place: int, k: int, bar: float
) -> None:
    """Candidates of the anchor ``order[place]``: copies of it, and units of lower rank that a cheap slot may hold."""
    anchor = order[place]
    take_member(units.features, nodes, 0, anchor, dual[anchor])
    others = k - 2
    count = 0
    for _ in range(min(units.limit[anchor], k) - 1):
        nodes.unit[1, count], nodes.box[1, count] = anchor, 0.0
        count += 1
    for index in range(place + 1, order.size):
        unit = order[index]
        if units.individual[unit] == units.individual[anchor]:
            continue
        loss = pair_loss(units.features, anchor, unit)
        # Nobody of lower rank has more than the anchor's dual.
        if loss - dual[unit] - (k - 1) * dual[anchor] < bar:
            for _ in range(min(units.limit[unit], k - 1)):
                nodes.unit[1, count], nodes.box[1, count] = unit, loss
                count += 1
    before = -1
    while before != count:
        before = count
        for p in range(others):
            nodes.top[p] = -np.inf
        total = 0.0
        for p in range(count):
            total = _raise_top(nodes, others, dual[nodes.unit[1, p]], total)
        count = 0
        for p in range(before):
            unit = nodes.unit[1, p]
            if nodes.box[1, p] - dual[anchor] - dual[unit] - total < bar:
                nodes.unit[1, count], nodes.box[1, count] = unit, nodes.box[1, p]
                count += 1
    nodes.filled[1] = count if count > others else 0


@kernel(inner=True)
def _walk(
    units: Units,
    nodes: Nodes,
    dual: np.ndarray,
    order: np.ndarray,
    place: int,
    k: int,
    bar: float,
    most_nodes: int,
    found: np.ndarray,
) -> tuple:
    """Search the slots anchored at ``order[place]`` for reduced costs below ``bar``.

    Returns (no slot of this anchor has less, slots found, nodes). found: int32 (rows, k), a ring that takes the slots
    that lowered the bar. The first is ``bar`` itself when the walk came to its end and found nothing.
    """
    best = bar
    left_out = np.inf
    written = 0
    visited = 1
    _fill_root(units, nodes, dual, order, place, k, bar)
    if k - 1 >= LEAST_TO_SHARE and nodes.filled[1] > 0:
        _thin_out(units, nodes, dual, 1, k, bar, ROOT_ROUNDS)
    _bound_branches(nodes, dual, 1, k)
    depth = 1
    while depth > 0:
        p = nodes.cursor[depth]
        if p >= nodes.filled[depth]:
            depth -= 1
            continue
        nodes.cursor[depth] += 1
        unit = nodes.unit[depth, p]
        # The last copy of a unit stands for all of them.
        twin = p + 1 < nodes.filled[depth] and nodes.unit[depth, p + 1] == unit
        if twin or nodes.least[depth, p] >= best - TOLERANCE:
            continue
        if depth == k - 1:
            best = nodes.least[depth, p]
            row = written % found.shape[0]
            for t in range(depth):
                found[row, t] = nodes.taken[t]
            found[row, depth] = unit
            written += 1
            continue
        if visited >= most_nodes:
            left_out = min(left_out, nodes.least[depth, p])
            continue
        visited += 1
        take_member(units.features, nodes, depth, unit, dual[unit])
        depth += 1
        _fill_child(units, nodes, dual, depth, p, k, best)
        if k - depth >= LEAST_TO_SHARE and nodes.filled[depth] > 0:
            _thin_out(units, nodes, dual, depth, k, best, SHARE_ROUNDS)
        _bound_branches(nodes, dual, depth, k)
    return min(best, left_out), written, visited


@kernel
def price_anchors(
    units: Units,
    nodes: Nodes,
    dual: np.ndarray,
    order: np.ndarray,
    first: int,
    last: int,
    k: int,
    most_nodes: int,
    slots: np.ndarray,
) -> tuple:
    """Lower the duals of the anchors ``order[last - 1]`` down to ``order[first]``, in place, until no slot of theirs
    costs less than its members' duals.

    order: int64 (u,), units by the duals that the pass began with, largest first; those from ``last`` on are done.
    most_nodes: of one walk. If it does not suffice, walks with lower bars follow: the least bar that can be proved
    within the nodes is the shift. slots: int32 (rows, k), takes slots of negative reduced cost, up to its end.

    Returns (slots written, nodes visited, anchors that ran out of nodes). Why: see BoundProof.
    """
    written = 0
    visited = 0
    unfinished = 0
    found = np.empty((SLOTS_PER_ANCHOR, k), dtype=np.int32)
    for place in range(last - 1, first - 1, -1):
        anchor = order[place]
        least, improved, walked = _walk(units, nodes, dual, order, place, k, 0.0, most_nodes, found)
        visited += walked
        for row in range(min(improved, SLOTS_PER_ANCHOR)):
            if written < slots.shape[0]:
                for t in range(k):
                    slots[written, t] = found[row, t]
                written += 1
        if walked >= most_nodes and most_nodes > 1:
            unfinished += 1
            step = FIRST_SHARE * abs(dual[anchor])
            while step < -least:
                proved, _, walked = _walk(units, nodes, dual, order, place, k, -step, most_nodes, found)
                visited += walked
                least = max(least, proved)
                step *= 2.0
        dual[anchor] += least
    return written, visited, unfinished
