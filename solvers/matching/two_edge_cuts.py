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

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel

# Each round parts every component that has a cut which may be exchanged; a handful always was enough.
MOST_ROUNDS = 20
_LABEL_SEED = 0x2CD7


@kernel(inner=True)
def _adjacency(members: np.ndarray) -> tuple:
    """Edges at each vertex (slots 0..n-1, then records): where each vertex's run starts, and the edge numbers."""
    n, k = members.shape
    first = np.zeros(2 * n + 1, dtype=np.int64)
    for slot in range(n):
        first[slot + 1] += k
        for p in range(k):
            first[n + members[slot, p] + 1] += 1
    for vertex in range(2 * n):
        first[vertex + 1] += first[vertex]
    cursor = first[:-1].copy()
    edges = np.empty(2 * n * k, dtype=np.int64)
    for slot in range(n):
        for p in range(k):
            for vertex in (slot, n + members[slot, p]):
                edges[cursor[vertex]] = slot * k + p
                cursor[vertex] += 1
    return first, edges


@kernel
def _cut_labels(members: np.ndarray, random: np.ndarray) -> np.ndarray:
    """A label for each edge, uint64 (n k,); random: uint64 (n k,), labels of the edges outside the forest."""
    n, k = members.shape
    first, edges = _adjacency(members)
    label = random.copy()
    tree = np.zeros(n * k, dtype=np.bool_)
    parent = np.full(2 * n, -1, dtype=np.int64)
    through = np.full(2 * n, -1, dtype=np.int64)
    seen = np.zeros(2 * n, dtype=np.bool_)
    order = np.empty(2 * n, dtype=np.int64)
    reached = 0
    for root in range(2 * n):
        if seen[root]:
            continue
        seen[root] = True
        order[reached] = root
        head = reached
        reached += 1
        while head < reached:
            vertex = order[head]
            head += 1
            for index in range(first[vertex], first[vertex + 1]):
                edge = edges[index]
                slot, record = edge // k, n + members[edge // k, edge % k]
                other = record if vertex == slot else slot
                if not seen[other]:
                    seen[other] = True
                    tree[edge] = True
                    parent[other] = vertex
                    through[other] = edge
                    order[reached] = other
                    reached += 1
    passing = np.zeros(2 * n, dtype=np.uint64)
    for edge in range(n * k):
        if not tree[edge]:
            passing[edge // k] ^= label[edge]
            passing[n + members[edge // k, edge % k]] ^= label[edge]
    for index in range(2 * n - 1, -1, -1):
        vertex = order[index]
        if parent[vertex] >= 0:
            label[through[vertex]] = passing[vertex]
            passing[parent[vertex]] ^= passing[vertex]
    return label


@kernel(inner=True)
def _may_take(members: np.ndarray, who: np.ndarray, slot: int, position: int, record: int) -> bool:
    fits = True
    for p in range(members.shape[1]):
        if p != position and who[members[slot, p]] == who[record]:
            fits = False
    return fits


@kernel(inner=True)
def _by_way_of(
    members: np.ndarray, who: np.ndarray, first: np.ndarray, edges: np.ndarray, b: int, p: int, d: int, q: int
) -> bool:
    """Part a cut whose record a (of b) stands in d already: a goes to f, e from f to d, c from d to b.

    (e in f) is an edge two steps from d on d's side, where a may stand in f and e in d. Whether one was found.
    """
    n, k = members.shape
    a, c = members[b, p], members[d, q]
    if not _may_take(members, who, b, p, c):
        return False
    for t in range(k):
        middle = members[d, t]
        if t == q or middle == a:
            continue
        for index in range(first[n + middle], first[n + middle + 1]):
            f = edges[index] // k
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
def _part(
    members: np.ndarray, who: np.ndarray, first: np.ndarray, edges: np.ndarray, one: int, other: int
) -> bool:
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
    if _by_way_of(members, who, first, edges, b, p, d, q):
        return True
    return _by_way_of(members, who, first, edges, d, q, b, p)


@kernel
def _exchange(members: np.ndarray, who: np.ndarray, order: np.ndarray, label: np.ndarray) -> int:
    """Exchange one pair of each run of equal labels, the first that may be; returns how many were."""
    first, edges = _adjacency(members)
    exchanged = 0
    begin = 0
    while begin < order.size:
        end = begin + 1
        while end < order.size and label[order[end]] == label[order[begin]]:
            end += 1
        done = False
        for i in range(begin, end - 1):
            for j in range(i + 1, end):
                if not done and _part(members, who, first, edges, order[i], order[j]):
                    exchanged += 1
                    done = True
        begin = end
    return exchanged


def edge_labels(edges: int) -> NDArray[np.uint64]:
    """Labels for that many edges outside a forest, the same in each call; O(edges)."""
    generator = np.random.Generator(np.random.PCG64(_LABEL_SEED))
    return generator.integers(1, 2**64 - 1, edges, dtype=np.uint64)


def cut_labels(members: NDArray[np.int32], random: NDArray[np.uint64] | None = None) -> NDArray[np.uint64]:
    """A label for each edge; equal ones form a cut. random: ``edge_labels``, where they are at hand. O(n k)."""
    return _cut_labels(members, edge_labels(members.size) if random is None else random)


def two_edge_cuts(members: NDArray[np.int32]) -> NDArray[np.int64]:
    """Edges (slot * k + position) that form a cut with another one, int64, cut by cut. O(n k log(n k))."""
    return tied_edges(cut_labels(members))


def tied_edges(label: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Edges whose label another one has, in the order of labels, those of one label by number. O(e log e)."""
    every = np.sort(label)
    shared = np.unique(every[1:][every[1:] == every[:-1]])
    if shared.size == 0:
        return np.empty(0, dtype=np.int64)
    # Few of many edges are tied, and only these are put in order.
    place = np.minimum(np.searchsorted(shared, label), shared.size - 1)
    tied = np.flatnonzero(shared[place] == label)
    return tied[np.argsort(place[tied], kind="stable")]


def without_two_edge_cuts(
    members: NDArray[np.int32], individuals: NDArray[np.int64] | None
) -> tuple[NDArray[np.int32], int]:
    """The graph with its two-edge cuts exchanged away, int32 (n, k), and how many edges are still in one.

    individuals: int64 (n,) of the records; slots keep distinct ones. Edges remain in a cut only where no exchange is
    legal (k = 2 leaves rings, in which every edge is tied to every other one).

    Precondition and postcondition: a k-regular simple graph whose slots hold distinct individuals.
    Why: one known true match must not reveal another. O(rounds n k log(n k)).
    """
    changed = members.copy()
    who = np.arange(members.shape[0]) if individuals is None else individuals
    random = edge_labels(members.size)
    for _ in range(MOST_ROUNDS):
        label = cut_labels(changed, random)
        cuts = tied_edges(label)
        if cuts.size == 0 or _exchange(changed, who, cuts, label) == 0:
            return changed, int(cuts.size)
    return changed, int(two_edge_cuts(changed).size)
