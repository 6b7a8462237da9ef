"""A k-d tree over units of mixed attributes: exact neighbours, a tour, and cheap starts come from it.

A node is split along the attribute whose values differ most on average between two of its units (numeric: the
mean absolute deviation; hierarchy: the mean cost of two; categorical: ``(1 - sum p^2)`` times the price of a second
value), at the cut nearest to
half of its rows that both sides can bear.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.features import Features
from kanonflow.solvers.units.leaf_orders import holds_leaves, unsorted_leaf_spread
from kanonflow.solvers.units.stable_order import Scratch, build_scratch, stable_order

# Units of a leaf where nothing asks for more: so few stay in the order in which they come.
LEAF = 12


class KdTree(NamedTuple):
    """order: int64 (u,), units in tree order (a tour along which neighbours are near).

    start, stop: int64 (nodes,), the range of ``order`` below each node; left, right: int64, -1 at a leaf.
    low, high: float64 (nodes, dn), hull; words: uint64 (nodes, W), values present.
    """

    order: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    words: NDArray[np.uint64]


class _Cutting(NamedTuple):
    """Scratch of a tree's construction, beside that of sorting.

    counts: int64, as long as the largest domain; held: int64 (u,), rows of each individual; ascending: float64 (u,).
    spreads: float64 (d,); ranked: int64 (d,).
    """

    counts: NDArray[np.int64]
    held: NDArray[np.int64]
    ascending: NDArray[np.float64]
    spreads: NDArray[np.float64]
    ranked: NDArray[np.int64]


@kernel(inner=True)
def _spreads(features: Features, order: np.ndarray, begin: int, end: int, work: _Cutting) -> None:
    """Expected difference of two units of ``order[begin:end]`` in each attribute."""
    dn = features.numeric.shape[1]
    size = end - begin
    for j in range(dn):
        if holds_leaves(features.orders, j):
            values = np.empty(size)
            for position in range(size):
                values[position] = features.numeric[order[begin + position], j]
            work.spreads[j] = unsorted_leaf_spread(features.orders, features.numeric_weight[j], j, values)
            continue
        mean = 0.0
        for position in range(begin, end):
            mean += features.numeric[order[position], j]
        mean /= size
        deviation = 0.0
        for position in range(begin, end):
            deviation += abs(features.numeric[order[position], j] - mean)
        work.spreads[j] = 1.4 * deviation / size
    for j in range(features.codes.shape[1]):
        same = 0.0
        for position in range(begin, end):
            work.counts[features.codes[order[position], j]] += 1
        for position in range(begin, end):
            same += work.counts[features.codes[order[position], j]]
        for position in range(begin, end):
            work.counts[features.codes[order[position], j]] = 0
        work.spreads[dn + j] = (1.0 - same / (float(size) * float(size))) * features.code_weight[j]


@kernel(inner=True)
def _largest_share(
    units: np.ndarray, begin: int, end: int, weight: np.ndarray, individual: np.ndarray, held: np.ndarray
) -> int:
    """Most rows that one individual has among ``units[begin:end]``; held is scratch over individuals."""
    most = 0
    for position in range(begin, end):
        who = individual[units[position]]
        held[who] += weight[units[position]]
        most = max(most, held[who])
    for position in range(begin, end):
        held[individual[units[position]]] = 0
    return most


@kernel(inner=True)
def _find_cut(
    values: np.ndarray,
    units: np.ndarray,
    count: int,
    weight: np.ndarray,
    individual: np.ndarray,
    held: np.ndarray,
    k: int,
    distinct: bool,
    between_values: bool,
) -> int:
    """The cut of the sorted units nearest to half of their rows that leaves k rows and k individuals each side.

    Returns the number of units left of it, 0 when there is none.
    """
    total = 0
    for position in range(count):
        total += weight[units[position]]
    # numba compiles a callee for a literal, and once more for the variable that it becomes.
    best: Any = np.int64(0)
    best_gap = total
    left = 0
    for position in range(1, count):
        left += weight[units[position - 1]]
        if between_values and values[position] == values[position - 1]:
            continue
        gap = abs(2 * left - total)
        if gap < best_gap and left >= k and total - left >= k:
            best = position
            best_gap = gap
    if best == 0 or not distinct:
        return best
    lefts = _largest_share(units, np.int64(0), best, weight, individual, held)
    rights = _largest_share(units, best, count, weight, individual, held)
    left = 0
    for position in range(best):
        left += weight[units[position]]
    return best if lefts * k <= left and rights * k <= total - left else 0


@kernel(inner=True)
def _hull(features: Features, tree: KdTree, node: int) -> None:
    """Hull and values of the units below a node."""
    for j in range(tree.low.shape[1]):
        tree.low[node, j] = np.inf
        tree.high[node, j] = -np.inf
    for w in range(tree.words.shape[1]):
        tree.words[node, w] = np.uint64(0)
    for position in range(tree.start[node], tree.stop[node]):
        unit = tree.order[position]
        for j in range(tree.low.shape[1]):
            tree.low[node, j] = min(tree.low[node, j], features.numeric[unit, j])
            tree.high[node, j] = max(tree.high[node, j], features.numeric[unit, j])
        for w in range(tree.words.shape[1]):
            tree.words[node, w] |= features.words[unit, w]


@kernel(inner=True)
def _rank(spreads: np.ndarray, ranked: np.ndarray) -> None:
    """The attributes by descending spread, equal ones as they come, by insertion: there are few."""
    for j in range(spreads.size):
        place = j
        while place > 0 and spreads[ranked[place - 1]] < spreads[j]:
            ranked[place] = ranked[place - 1]
            place -= 1
        ranked[place] = j


@kernel(inner=True)
def _sort_along(features: Features, j: int, work: _Cutting, sorting: Scratch, count: int) -> None:
    """The units of scratch by attribute j: their numbers into ``merged``, its values into ``ascending``."""
    dn = features.numeric.shape[1]
    for position in range(count):
        unit = sorting.units[position]
        sorting.values[position] = features.numeric[unit, j] if j < dn else features.codes[unit, j - dn]
    stable_order(sorting.values, count, sorting.order, sorting.merged)
    for position in range(count):
        sorting.merged[position] = sorting.units[sorting.order[position]]
        work.ascending[position] = sorting.values[sorting.order[position]]


@kernel
def _build(
    features: Features,
    weight: np.ndarray,
    individual: np.ndarray,
    k: int,
    distinct: bool,
    leaf: int,
    tree: KdTree,
    work: _Cutting,
    sorting: Scratch,
) -> int:
    """Fill a tree from its root; returns the number of nodes."""
    d = features.numeric.shape[1] + features.codes.shape[1]
    tree.stop[0] = weight.size
    nodes: Any = np.int64(1)
    node: Any = np.int64(0)
    while node < nodes:
        begin, end = tree.start[node], tree.stop[node]
        _hull(features, tree, node)
        count = end - begin
        if count > leaf:
            _spreads(features, tree.order, begin, end, work)
            _rank(work.spreads, work.ranked)
            for position in range(count):
                sorting.units[position] = tree.order[begin + position]
            cut = 0
            for attempt in range(2 * d):
                # Second round: equal values may be cut apart, so that big groups of equals still split.
                j = work.ranked[attempt % d]
                if work.spreads[j] <= 0.0 and attempt < d:
                    continue
                _sort_along(features, j, work, sorting, count)
                cut = _find_cut(
                    work.ascending,
                    sorting.merged,
                    count,
                    weight,
                    individual,
                    work.held,
                    k,
                    distinct,
                    attempt < d,
                )
                if cut > 0:
                    for position in range(count):
                        tree.order[begin + position] = sorting.merged[position]
                    break
            if cut > 0:
                tree.left[node] = nodes
                tree.right[node] = nodes + 1
                tree.start[nodes] = begin
                tree.stop[nodes] = begin + cut
                tree.start[nodes + 1] = begin + cut
                tree.stop[nodes + 1] = end
                nodes += 2
        node += 1
    return nodes


def build_tree(
    features: Features,
    weight: NDArray[np.int32],
    individual: NDArray[np.int64],
    *,
    k: int = 1,
    distinct: bool = False,
    leaf: int = LEAF,
) -> KdTree:
    """A k-d tree over u units with ``leaf`` units a leaf, or as few as the constraints allow.

    Every leaf holds at least k rows; with ``distinct`` no individual holds more than a k-th of a leaf's rows,
    which is what a k-regular graph with distinct individuals inside the leaf needs. individual: codes below u.
    O(u log^2 u) for balanced splits.
    """
    u, dn = weight.size, features.numeric.shape[1]
    room, d = 2 * u + 1, dn + features.codes.shape[1]
    # Made here: numba takes seconds to compile what makes arrays, and assigns them to each other.
    tree = KdTree(
        order=np.arange(u),
        start=np.zeros(room, dtype=np.int64),
        stop=np.zeros(room, dtype=np.int64),
        left=np.full(room, -1, dtype=np.int64),
        right=np.full(room, -1, dtype=np.int64),
        low=np.zeros((room, dn)),
        high=np.zeros((room, dn)),
        words=np.zeros((room, features.words.shape[1]), dtype=np.uint64),
    )
    work = _Cutting(
        counts=np.zeros(int(features.codes.max(initial=0)) + 1, dtype=np.int64),
        held=np.zeros(u, dtype=np.int64),
        ascending=np.zeros(u),
        spreads=np.zeros(d),
        ranked=np.zeros(d, dtype=np.int64),
    )
    nodes = _build(features, weight, individual, k, distinct, leaf, tree, work, build_scratch(u))
    fields: tuple[Any, ...] = tree[1:]
    return KdTree(tree.order, *(field[:nodes] for field in fields))


def leaf_ranges(tree: KdTree) -> NDArray[np.int64]:
    """Start and stop in ``tree.order`` of each leaf, in tree order, int64 (leaves, 2)."""
    leaves = np.flatnonzero(tree.left < 0)
    leaves = leaves[np.argsort(tree.start[leaves], kind="stable")]
    return np.stack([tree.start[leaves], tree.stop[leaves]], axis=1)


def slot_tour(members: NDArray[np.int32], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Slots int32 (n, k) of units by the middle one of their members in ``order``, int64 (u,); int64 (n,)."""
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    middle = np.sort(rank[members], axis=1)[:, members.shape[1] // 2]
    return np.argsort(middle, kind="stable")
