"""Two-edge cuts mended where that costs least: the two edges exchanged, or crossed by two more.

Two edges tie each other when nothing else joins a part of the graph to the rest (two_edge_cuts.py says why that may
not stay). *Parting* exchanges the two, and the part stands alone; it loses what the swap gained that made the cut.
*Crossing* swaps a member of a slot inside with a member of one outside, so that four edges join them; by a near record,
at best an equal one, it mostly costs less. What hangs together without any tied edge is a *piece* here. Pieces form
rings, joined by tied edges; a swap whose new edges run between two pieces of one component makes one piece of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.matching.two_edge_cuts import Cuts, cuts_of, edge_labels
from kanonflow.solvers.search.slot_loss import PLACE, admits, least_added, replaced_loss, swap
from kanonflow.solvers.units.distinct_rows import Units

# Equal rows differ in where they stand only: so many of a near unit's are tried.
ROWS_TRIED = 3
# Of the tied edges of a ring, each pair of so many is tried; a longer one gets shorter in the next round.
EDGES_TRIED = 40
# Vertices of a piece whose every slot is tried; of a larger one those at its tied edges are.
SMALL_PIECE = 64
# Crossings can make new cuts where pieces are small, so after these rounds cuts are only parted.
CROSSING_ROUNDS = 6
PARTING_ROUNDS = 4
# By how much a bound may lie above what it bounds, since both are sums of floats.
ROUNDING = 1e-9


@kernel(inner=True, counting=False)
def _root(parent: np.ndarray, vertex: int) -> int:
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]
        vertex = parent[vertex]
    return vertex


@kernel
def _pieces(members: np.ndarray, tied: np.ndarray, whole: np.ndarray) -> tuple:
    """The pieces of a graph without its tied edges, and out of which slots crossings are looked for.

    whole: (2n,), the component of each vertex (slots 0..n-1, then records). Returns (piece, main, tried): int32 (2n,),
    a number for each vertex; bool (2n,), whether its piece is the largest of its component; bool (n,): in small pieces
    every slot, in others those at tied edges, in no main piece any.
    """
    n, k = members.shape
    left_out = np.zeros(n * k, dtype=np.bool_)
    for edge in tied:
        left_out[edge] = True
    piece = np.arange(2 * n).astype(np.int32)
    for slot in range(n):
        for p in range(k):
            if not left_out[slot * k + p]:
                one, other = _root(piece, slot), _root(piece, n + members[slot, p])
                piece[max(one, other)] = min(one, other)
    size = np.zeros(2 * n, dtype=np.int32)
    for vertex in range(2 * n):
        piece[vertex] = _root(piece, vertex)
        size[piece[vertex]] += 1
    largest = np.full(2 * n, -1, dtype=np.int32)
    for vertex in range(2 * n):
        best = largest[whole[vertex]]
        if best < 0 or size[piece[vertex]] > size[best]:
            largest[whole[vertex]] = piece[vertex]
    main = np.empty(2 * n, dtype=np.bool_)
    for vertex in range(2 * n):
        main[vertex] = largest[whole[vertex]] == piece[vertex]
    tried = np.empty(n, dtype=np.bool_)
    for slot in range(n):
        tried[slot] = size[piece[slot]] <= SMALL_PIECE and not main[slot]
    for edge in tied:
        tried[edge // k] = not main[edge // k]
    return piece, main, tried


@kernel(inner=True, counting=False)
def _swap_rise(features: Any, slots: Any, b: int, p: int, d: int, q: int) -> float:
    """What swapping two places of rows costs; inf where it may not be."""
    a, c = slots.members[b, p], slots.members[d, q]
    if b == d or a == c:
        return np.inf
    if not admits(slots, b, p, slots.who[d, q], 1) or not admits(slots, d, q, slots.who[b, p], 1):
        return np.inf
    changed = replaced_loss(features, slots, b, p, c) + replaced_loss(features, slots, d, q, a)
    return changed - slots.loss[b] - slots.loss[d]


@kernel(inner=True, forceinline=True, counting=False)
def _cheapest_crossing(
    rows: Units,
    slots: Any,
    units: Units,
    nearest: np.ndarray,
    piece: np.ndarray,
    whole: np.ndarray,
    f: int,
    rise: np.ndarray,
    places: np.ndarray,
    asked: np.ndarray,
    put: np.ndarray,
) -> None:
    """Note the cheapest crossing out of slot f under its piece's number, if it is cheaper than what is noted there.

    Candidates are rows of the units near the slot's members. Edges that are swapped lie within their pieces.
    asked: int32 (u,), the slot that each unit was a candidate of last; members of a slot are near the same ones.
    put: float64 (k,), to work in: the loss of the slot with a row of the unit in the place of each member.
    """
    n, k = slots.members.shape
    own, component = piece[f], whole[f]
    easiest = slots.spare[f, 0]
    for p in range(1, k):
        easiest = max(easiest, slots.spare[f, p])
    for source in range(k):
        center = units.of_row[slots.members[f, source]]
        for near in range(-1, nearest.shape[1]):
            unit = center if near < 0 else nearest[center, near]
            if unit < 0 or asked[unit] == f:
                continue
            asked[unit] = f
            first = units.first[unit]
            count = units.first[unit + 1] - first
            # Rows of a unit are equal: what they cost here is worked out for the first of them that is in question.
            added = np.nan
            priced = False
            for step in range(min(count, ROWS_TRIED)):
                g = units.rows[first + (f + step) % count]
                if piece[n + g] == own or whole[n + g] != component:
                    continue
                gained = easiest
                for index in range(slots.first_place[g], slots.first_place[g + 1]):
                    place = slots.places[index]
                    gained = max(gained, easiest + slots.spare[place // PLACE, place % PLACE])
                if np.isnan(added):
                    added = least_added(rows.features, slots, f, g)
                if added - gained - ROUNDING >= rise[own]:
                    continue
                if not priced:
                    priced = True
                    for p in range(k):
                        put[p] = replaced_loss(rows.features, slots, f, p, g)
                individual = rows.individual[g]
                for p in range(k):
                    a = slots.members[f, p]
                    if piece[n + a] != own or not admits(slots, f, p, individual, 1):
                        continue
                    here = put[p] - slots.loss[f]
                    for index in range(slots.first_place[g], slots.first_place[g + 1]):
                        place = slots.places[index]
                        h, q = place // PLACE, place % PLACE
                        if piece[h] != piece[n + g] or here - slots.spare[h, q] >= rise[own]:
                            continue
                        changed = put[p] + replaced_loss(rows.features, slots, h, q, a)
                        found = changed - slots.loss[f] - slots.loss[h]
                        if found < rise[own] and admits(slots, h, q, slots.who[f, p], 1):
                            rise[own] = found
                            places[own, 0], places[own, 1], places[own, 2], places[own, 3] = f, p, h, q


@kernel(counting=False)
def _look_across(
    rows: Units,
    slots: Any,
    units: Units,
    nearest: np.ndarray,
    piece: np.ndarray,
    whole: np.ndarray,
    tried: np.ndarray,
    rise: np.ndarray,
    places: np.ndarray,
    asked: np.ndarray,
    put: np.ndarray,
) -> None:
    """Note the cheapest crossing out of each piece; asked, put: to work in."""
    for f in range(tried.size):
        if tried[f]:
            _cheapest_crossing(rows, slots, units, nearest, piece, whole, f, rise, places, asked, put)


def _crossings(
    rows: Units,
    slots: Any,
    units: Units,
    nearest: NDArray[np.int32],
    piece: NDArray[np.int64],
    whole: NDArray[np.int32],
    tried: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The cheapest crossing out of each piece: its rise, float64 (2n,), and places, int64 (2n, 4), by piece."""
    n, k = slots.members.shape
    rise = np.full(2 * n, np.inf)
    places = np.zeros((2 * n, 4), dtype=np.int64)
    if tried.any():
        asked = np.full(units.weight.size, -1, dtype=np.int32)
        _look_across(rows, slots, units, nearest, piece, whole, tried, rise, places, asked, np.empty(k))
    return rise, places


@kernel(inner=True, counting=False)
def _cheapest_parting(features: Any, slots: Any, edges: np.ndarray) -> tuple:
    """The cheapest exchange of two of a ring's tied edges: (rise, b, p, d, q); rise inf where none may be."""
    k = slots.members.shape[1]
    best = (np.inf, 0, 0, 0, 0)
    tried = min(edges.size, EDGES_TRIED)
    for i in range(tried - 1):
        for j in range(i + 1, tried):
            b, p, d, q = edges[i] // k, edges[i] % k, edges[j] // k, edges[j] % k
            found = _swap_rise(features, slots, b, p, d, q)
            if found < best[0]:
                best = (found, b, p, d, q)
    return best


@kernel
def _mend_rings(
    rows: Units,
    slots: Any,
    order: np.ndarray,
    label: np.ndarray,
    piece: np.ndarray,
    main: np.ndarray,
    rise: np.ndarray,
    places: np.ndarray,
) -> int:
    """Mend each ring by its cheapest mend, unless a mend before has touched it; returns how many were made.

    order: tied edges, ring by ring. main: whether a vertex's piece is the largest of its component; many rings begin
    and end in it, so there slots are told apart, elsewhere pieces.
    """
    n, k = slots.members.shape
    touched = np.zeros(2 * n, dtype=np.bool_)
    used = np.zeros(n, dtype=np.bool_)
    mended = 0
    begin = 0
    while begin < order.size:
        end = begin + 1
        while end < order.size and label[order[end]] == label[order[begin]]:
            end += 1
        free = True
        for edge in order[begin:end]:
            slot, record = edge // k, n + slots.members[edge // k, edge % k]
            free = free and not (used[slot] or touched[piece[slot]] or touched[piece[record]])
        if free:
            least, b, p, d, q = _cheapest_parting(rows.features, slots, order[begin:end])
            for edge in order[begin:end]:
                for vertex in (edge // k, n + slots.members[edge // k, edge % k]):
                    own = piece[vertex]
                    h = places[own, 2]
                    if rise[own] < least and not (used[h] or touched[piece[h]] or used[places[own, 0]]):
                        least, b, p, d, q = rise[own], places[own, 0], places[own, 1], h, places[own, 3]
            if least < np.inf:
                used[b] = used[d] = True
                for vertex in (b, n + slots.members[b, p], d, n + slots.members[d, q]):
                    touched[piece[vertex]] = not main[vertex]
                swap(rows.features, slots, b, p, d, q)
                mended += 1
        begin = end
    return mended


def mend_cuts(
    rows: Units, slots: Any, units: Units, nearest: NDArray[np.int32], cuts: Cuts | None = None
) -> Cuts:
    """Lower the number of two-edge cuts in place, each by its cheapest mend; the cuts that are left.

    rows: every row a unit of its own. slots: the state over them, of any loss. units: the distinct rows; nearest: int32
    (u, m), units near each, -1 where there are no more. cuts: those of the state, where they are known. Slots keep
    distinct individuals. O(rounds (n k + k^3 m slots of small pieces)).
    """
    random = edge_labels(slots.members.size)
    cuts = cuts_of(slots.members, random) if cuts is None else cuts
    for turn in range(CROSSING_ROUNDS + PARTING_ROUNDS):
        if cuts.tied.size == 0:
            break
        piece, main, tried = _pieces(slots.members, cuts.tied, cuts.component)
        tried &= turn < CROSSING_ROUNDS
        found = _crossings(rows, slots, units, nearest, piece, cuts.component, tried)
        if _mend_rings(rows, slots, cuts.tied, cuts.label, piece, main, *found) == 0:
            break
        cuts = cuts_of(slots.members, random)
    return cuts
