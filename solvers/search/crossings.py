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
from kanonflow.solvers.matching.two_edge_cuts import cut_labels, edge_labels, tied_edges, two_edge_cuts
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


@kernel(inner=True)
def _root(parent: np.ndarray, vertex: int) -> int:
    while parent[vertex] != vertex:
        parent[vertex] = parent[parent[vertex]]
        vertex = parent[vertex]
    return vertex


@kernel
def _hanging_together(members: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """A number for each vertex (slots 0..n-1, then records), equal where edges that are not left out join them."""
    n, k = members.shape
    parent = np.arange(2 * n)
    for slot in range(n):
        for p in range(k):
            if not left_out[slot * k + p]:
                one, other = _root(parent, slot), _root(parent, n + members[slot, p])
                parent[max(one, other)] = min(one, other)
    for vertex in range(2 * n):
        parent[vertex] = _root(parent, vertex)
    return parent


@kernel(inner=True)
def _swap_rise(features: Any, slots: Any, b: int, p: int, d: int, q: int) -> float:
    """What swapping two places of rows costs; inf where it may not be."""
    a, c = slots.members[b, p], slots.members[d, q]
    if b == d or a == c:
        return np.inf
    if not admits(slots, b, p, slots.who[d, q], 1) or not admits(slots, d, q, slots.who[b, p], 1):
        return np.inf
    changed = replaced_loss(features, slots, b, p, c) + replaced_loss(features, slots, d, q, a)
    return changed - slots.loss[b] - slots.loss[d]


@kernel
def _sizes(piece: np.ndarray, whole: np.ndarray) -> tuple:
    """Vertices of each piece by its number; of each vertex, whether its piece is the largest of its component."""
    size = np.zeros(piece.size, dtype=np.int64)
    for vertex in range(piece.size):
        size[piece[vertex]] += 1
    largest = np.full(piece.size, -1, dtype=np.int64)
    for vertex in range(piece.size):
        best = largest[whole[vertex]]
        if best < 0 or size[piece[vertex]] > size[best]:
            largest[whole[vertex]] = piece[vertex]
    return size, largest[whole] == piece


@kernel
def _slots_tried(members: np.ndarray, tied: np.ndarray, size: np.ndarray, main: np.ndarray) -> np.ndarray:
    """Whether crossings out of a slot are looked for: in no largest piece of a component (main)."""
    n, k = members.shape
    tried = (size <= SMALL_PIECE) & ~main[:n]
    for edge in tied:
        tried[edge // k] = not main[edge // k]
    return tried


@kernel(inner=True)
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
) -> None:
    """Note the cheapest crossing out of slot f under its piece's number, if it is cheaper than what is noted there.

    Candidates are rows of the units near the slot's members. Edges that are swapped lie within their pieces.
    asked: int32 (u,), the slot that each unit was a candidate of last; members of a slot are near the same ones.
    """
    n, k = slots.members.shape
    own = piece[f]
    easiest = slots.spare[f].max()
    for source in range(k):
        center = units.of_row[slots.members[f, source]]
        for near in range(-1, nearest.shape[1]):
            unit = center if near < 0 else nearest[center, near]
            if unit < 0 or asked[unit] == f:
                continue
            asked[unit] = f
            count = units.first[unit + 1] - units.first[unit]
            for step in range(min(count, ROWS_TRIED)):
                g = units.rows[units.first[unit] + (f + step) % count]
                if piece[n + g] == own or whole[n + g] != whole[f]:
                    continue
                gained = easiest
                for index in range(slots.first_place[g], slots.first_place[g + 1]):
                    gained = max(
                        gained,
                        easiest + slots.spare[slots.places[index] // PLACE, slots.places[index] % PLACE],
                    )
                if least_added(rows.features, slots, f, g) - gained - ROUNDING >= rise[own]:
                    continue
                for p in range(k):
                    if piece[n + slots.members[f, p]] != own:
                        continue
                    here = replaced_loss(rows.features, slots, f, p, g) - slots.loss[f]
                    for index in range(slots.first_place[g], slots.first_place[g + 1]):
                        h, q = slots.places[index] // PLACE, slots.places[index] % PLACE
                        if piece[h] != piece[n + g] or here - slots.spare[h, q] >= rise[own]:
                            continue
                        found = _swap_rise(rows.features, slots, f, p, h, q)
                        if found < rise[own]:
                            rise[own] = found
                            places[own, 0], places[own, 1], places[own, 2], places[own, 3] = f, p, h, q


@kernel
def _crossings(
    rows: Units,
    slots: Any,
    units: Units,
    nearest: np.ndarray,
    piece: np.ndarray,
    whole: np.ndarray,
    tried: np.ndarray,
) -> tuple:
    """The cheapest crossing out of each piece: its rise, float64 (2n,), and places, int64 (2n, 4), by piece."""
    n = slots.members.shape[0]
    rise = np.full(2 * n, np.inf)
    places = np.zeros((2 * n, 4), dtype=np.int64)
    asked = np.full(units.weight.size, -1, dtype=np.int32)
    for f in range(n):
        if tried[f]:
            _cheapest_crossing(rows, slots, units, nearest, piece, whole, f, rise, places, asked)
    return rise, places


@kernel(inner=True)
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


def mend_cuts(rows: Units, slots: Any, units: Units, nearest: NDArray[np.int32]) -> int:
    """Lower the number of two-edge cuts in place, each by its cheapest mend; the edges that are still in one.

    rows: every row a unit of its own. slots: the state over them, of any loss. units: the distinct rows; nearest: int32
    (u, m), units near each, -1 where there are no more. Slots keep distinct individuals.
    O(rounds (n k log(n k) + k^3 m slots of small pieces)).
    """
    random = edge_labels(slots.members.size)
    for turn in range(CROSSING_ROUNDS + PARTING_ROUNDS):
        label = cut_labels(slots.members, random)
        tied = tied_edges(label)
        if tied.size == 0:
            return 0
        left_out = np.zeros(slots.members.size, dtype=np.bool_)
        whole = _hanging_together(slots.members, left_out)
        left_out[tied] = True
        piece = _hanging_together(slots.members, left_out)
        size, main = _sizes(piece, whole)
        tried = _slots_tried(slots.members, tied, size[piece[: slots.loss.size]], main) & (
            turn < CROSSING_ROUNDS
        )
        found = _crossings(rows, slots, units, nearest, piece, whole, tried)
        if _mend_rings(rows, slots, tied, label, piece, main, *found) == 0:
            return int(tied.size)
    return int(two_edge_cuts(slots.members).size)
