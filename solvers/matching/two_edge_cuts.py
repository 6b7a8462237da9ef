"""Graphs without two-edge cuts, so that no known match settles another one.

Where only two edges join a part of the graph to the rest, every perfect matching holds both of them or neither: a part
has as many slots as records. Each edge keeps its 1/k, but whoever knows that one is the true match knows the other.
A search that exchanges a pair of members between two complete components makes such cuts, at k = 3 many.

Such edges (a in b, c in d) are exchanged for (c in b, a in d), which parts the graph into two components in which
nothing is tied; the loss may rise a little. All two-edge cuts are found at once: give each edge outside a spanning
forest a random 64-bit label and each tree edge the exclusive or of the labels of the edges whose cycles it lies on;
two edges form a cut exactly when their labels are equal (but for chances of 2^-64).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel

# Each round parts every component that has a cut which may be exchanged; a handful always was enough.
MOST_ROUNDS = 20
_LABEL_SEED = 0x2CD7


class Cuts(NamedTuple):
    """label: uint64 (n k,), of each edge; equal ones form a cut. tied: int64 (t,), edges whose label another one has,
    in the order of labels, those of one label by number. component: int32 (2n,), of each vertex (slots 0..n-1, then
    records) the first one of its component."""

    label: NDArray[np.uint64]
    tied: NDArray[np.int64]
    component: NDArray[np.int32]


@kernel(inner=True)
def _at_records(members: np.ndarray) -> tuple:
    """Edges at each record and their slots, in the order of slots, int32 (n, k) each."""
    n, k = members.shape
    edges = np.empty((n, k), dtype=np.int32)
    # A division by k would cost as much as the rest of a step.
    slots = np.empty((n, k), dtype=np.int32)
    filled = np.zeros(n, dtype=np.int32)
    for slot in range(n):
        for p in range(k):
            record = members[slot, p]
            edges[record, filled[record]] = slot * k + p
            slots[record, filled[record]] = slot
            filled[record] += 1
    return edges, slots


@kernel
def _cut_labels(members: np.ndarray, random: np.ndarray) -> tuple:
    """Label and component of ``Cuts``; random: uint64 (n k,), labels of the edges outside the forest."""
    n, k = members.shape
    edges, slots = _at_records(members)
    label = random.copy()
    # The edge of the forest by which a vertex was reached; the last one's label is what its others' come to.
    through = np.full(2 * n, -1, dtype=np.int32)
    component = np.full(2 * n, -1, dtype=np.int32)
    order = np.empty(2 * n, dtype=np.int32)
    reached = 0
    for root in range(n):
        if component[root] >= 0:
            continue
        component[root] = root
        order[reached] = root
        head = reached
        reached += 1
        while head < reached:
            vertex = order[head]
            head += 1
            for p in range(k):
                if vertex < n:
                    edge = vertex * k + p
                    other = n + members[vertex, p]
                else:
                    edge = edges[vertex - n, p]
                    other = slots[vertex - n, p]
                if component[other] < 0:
                    component[other] = root
                    label[edge] = 0
                    through[other] = edge
                    order[reached] = other
                    reached += 1
    for index in range(2 * n - 1, -1, -1):
        vertex = order[index]
        if through[vertex] >= 0:
            passing = np.uint64(0)
            for p in range(k):
                passing ^= label[vertex * k + p if vertex < n else edges[vertex - n, p]]
            label[through[vertex]] = passing
    return label, component


@kernel
def _perhaps_tied(label: np.ndarray) -> np.ndarray:
    """Edges whose label may be another one's too, int64: all that are, and few others, in the order of their numbers.

    Labels are random, so a cell for each of their first bits, of which an eighth is taken, tells most of them apart.
    """
    bits = 3
    while (1 << bits) < 8 * label.size:
        bits += 1
    shift = np.uint64(64 - bits)
    met = np.zeros(1 << bits, dtype=np.uint8)
    for edge in range(label.size):
        cell = label[edge] >> shift
        met[cell] = min(met[cell] + 1, 2)
    found = np.empty(label.size, dtype=np.int64)
    count = 0
    for edge in range(label.size):
        if met[label[edge] >> shift] > 1:
            found[count] = edge
            count += 1
    return found[:count]


@kernel(inner=True)
def _may_take(members: np.ndarray, who: np.ndarray, slot: int, position: int, record: int) -> bool:
    fits = True
    for p in range(members.shape[1]):
        if p != position and who[members[slot, p]] == who[record]:
            fits = False
    return fits


@kernel(inner=True)
def _by_way_of(
    members: np.ndarray, who: np.ndarray, slots: np.ndarray, b: int, p: int, d: int, q: int
) -> bool:
    """Part a cut whose record a (of b) stands in d already: a goes to f, e from f to d, c from d to b.

    (e in f) is an edge two steps from d on d's side, where a may stand in f and e in d. Whether one was found.
    """
    k = members.shape[1]
    a, c = members[b, p], members[d, q]
    if not _may_take(members, who, b, p, c):
        return False
    for t in range(k):
        middle = members[d, t]
        if t == q or middle == a:
            continue
        for index in range(k):
            f = slots[middle, index]
            if f in (b, d):
                continue
            for r in range(k):
                e = members[f, r]
                if e in (a, c, middle):
                    continue
                if _may_take(members, who, f, r, a) and _may_take(members, who, d, q, e):
                    members[b, p], members[f, r], members[d, q] = c, a, e
                    return True
    return False


@kernel(inner=True)
def _part(members: np.ndarray, who: np.ndarray, slots: np.ndarray, one: int, other: int) -> bool:
    """Exchange two edges that form a cut, directly or by way of a third; whether it could be done."""
    k = members.shape[1]
    b, p = one // k, one % k
    d, q = other // k, other % k
    a, c = members[b, p], members[d, q]
    if b == d or a == c:
        return False
    if _may_take(members, who, b, p, c) and _may_take(members, who, d, q, a):
        members[b, p], members[d, q] = c, a
        return True
    if _by_way_of(members, who, slots, b, p, d, q):
        return True
    return _by_way_of(members, who, slots, d, q, b, p)


@kernel
def _exchange(members: np.ndarray, who: np.ndarray, order: np.ndarray, label: np.ndarray) -> int:
    """Exchange one pair of each run of equal labels, the first that may be; returns how many were."""
    _, slots = _at_records(members)
    exchanged = 0
    begin = 0
    while begin < order.size:
        end = begin + 1
        while end < order.size and label[order[end]] == label[order[begin]]:
            end += 1
        done = False
        for i in range(begin, end - 1):
            for j in range(i + 1, end):
                if not done and _part(members, who, slots, order[i], order[j]):
                    exchanged += 1
                    done = True
        begin = end
    return exchanged


def edge_labels(edges: int) -> NDArray[np.uint64]:
    """Labels for that many edges outside a forest, the same in each call; O(edges)."""
    generator = np.random.Generator(np.random.PCG64(_LABEL_SEED))
    return generator.integers(1, 2**64 - 1, edges, dtype=np.uint64)


def cuts_of(members: NDArray[np.int32], random: NDArray[np.uint64] | None = None) -> Cuts:
    """The two-edge cuts of a k-regular graph. random: ``edge_labels``, where they are at hand. O(n k + t log t)."""
    label, component = _cut_labels(members, edge_labels(members.size) if random is None else random)
    return Cuts(label, tied_edges(label), component)


def two_edge_cuts(members: NDArray[np.int32]) -> NDArray[np.int64]:
    """Edges (slot * k + position) that form a cut with another one, int64, cut by cut. O(n k + t log t)."""
    return cuts_of(members).tied


def tied_edges(label: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Edges whose label another one has, in the order of labels, those of one label by number.

    O(e + t log t) for t edges that are tied, where labels are random.
    """
    some = _perhaps_tied(label)
    order = some[np.argsort(label[some], kind="stable")]
    own = label[order]
    again = own[1:] == own[:-1]
    tied = np.zeros(order.size, dtype=np.bool_)
    tied[1:] = again
    tied[:-1] |= again
    return order[tied]


def without_two_edge_cuts(
    members: NDArray[np.int32], individuals: NDArray[np.int64] | None, cuts: Cuts | None = None
) -> tuple[NDArray[np.int32], int]:
    """The graph with its two-edge cuts exchanged away, int32 (n, k), and how many edges are still in one.

    individuals: int64 (n,) of the records; slots keep distinct ones. cuts: those of the graph, where they are known.
    Edges remain in a cut only where no exchange is legal (k = 2 leaves rings, in which every edge is tied to every
    other one).

    Precondition and postcondition: a k-regular simple graph whose slots hold distinct individuals.
    Why: one known true match must not reveal another. O(rounds n k).
    """
    changed = members.copy()
    who = np.arange(members.shape[0]) if individuals is None else individuals
    random = edge_labels(members.size)
    cuts = cuts_of(changed, random) if cuts is None else cuts
    for _ in range(MOST_ROUNDS):
        if cuts.tied.size == 0 or _exchange(changed, who, cuts.tied, cuts.label) == 0:
            break
        cuts = cuts_of(changed, random)
    return changed, int(cuts.tied.size)
