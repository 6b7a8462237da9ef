"""A k-d tree over units of mixed attributes: exact neighbours, a tour, and cheap starts come from it.

A node is split along the attribute whose values differ most on average between two of its units (numeric: the
mean absolute deviation; hierarchy: the mean cost of two; categorical: ``(1 - sum p^2)`` times the price of a second
value), at the cut nearest to
half of its rows that both sides can bear.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.units.features import Features
from kanonflow.solvers.units.leaf_orders import holds_leaves, leaf_spread


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


@numba.njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _spreads(features: Features, units: np.ndarray, counts: np.ndarray, spreads: np.ndarray) -> None:
    """Expected difference of two units in each attribute; counts is scratch as long as the largest domain."""
    dn = features.numeric.shape[1]
    for j in range(dn):
        if holds_leaves(features.orders, j):
            values = np.empty(units.size)
            for position in range(units.size):
                values[position] = features.numeric[units[position], j]
            spreads[j] = leaf_spread(features.orders, features.numeric_weight[j], j, np.sort(values))
            continue
        mean = 0.0
        for unit in units:
            mean += features.numeric[unit, j]
        mean /= units.size
        deviation = 0.0
        for unit in units:
            deviation += abs(features.numeric[unit, j] - mean)
        spreads[j] = 1.4 * deviation / units.size
    for j in range(features.codes.shape[1]):
        same = 0.0
        for unit in units:
            counts[features.codes[unit, j]] += 1
        for unit in units:
            same += counts[features.codes[unit, j]]
        for unit in units:
            counts[features.codes[unit, j]] = 0
        size = float(units.size)
        spreads[dn + j] = (1.0 - same / (size * size)) * features.code_weight[j]


@numba.njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _largest_share(units: np.ndarray, weight: np.ndarray, individual: np.ndarray, held: np.ndarray) -> int:
    """Most rows that one individual has among the units; held is scratch over individuals."""
    most = 0
    for unit in units:
        held[individual[unit]] += weight[unit]
        most = max(most, held[individual[unit]])
    for unit in units:
        held[individual[unit]] = 0
    return most


@numba.njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _find_cut(
    values: np.ndarray,
    units: np.ndarray,
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
    for unit in units:
        total += weight[unit]
    best = 0
    best_gap = total
    left = 0
    for position in range(1, units.size):
        left += weight[units[position - 1]]
        if between_values and values[position] == values[position - 1]:
            continue
        gap = abs(2 * left - total)
        if gap < best_gap and left >= k and total - left >= k:
            best = position
            best_gap = gap
    if best == 0 or not distinct:
        return best
    lefts = _largest_share(units[:best], weight, individual, held)
    rights = _largest_share(units[best:], weight, individual, held)
    left = 0
    for unit in units[:best]:
        left += weight[unit]
    return best if lefts * k <= left and rights * k <= total - left else 0


@numba.njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _hull(
    features: Features, units: np.ndarray, low: np.ndarray, high: np.ndarray, words: np.ndarray
) -> None:
    low[:] = np.inf
    high[:] = -np.inf
    words[:] = np.uint64(0)
    for unit in units:
        for j in range(low.size):
            low[j] = min(low[j], features.numeric[unit, j])
            high[j] = max(high[j], features.numeric[unit, j])
        for w in range(words.size):
            words[w] |= features.words[unit, w]


@numba.njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def _rank(spreads: np.ndarray, ranked: np.ndarray) -> None:
    """The attributes by descending spread, equal ones as they come, by insertion: there are few."""
    for j in range(spreads.size):
        place = j
        while place > 0 and spreads[ranked[place - 1]] < spreads[j]:
            ranked[place] = ranked[place - 1]
            place -= 1
        ranked[place] = j


@numba.njit(cache=True, nogil=True)
def _build(
    features: Features,
    weight: np.ndarray,
    individual: np.ndarray,
    domain: int,
    k: int,
    distinct: bool,
    leaf: int,
) -> tuple:
    u = weight.size
    dn = features.numeric.shape[1]
    d = dn + features.codes.shape[1]
    room = 2 * u + 1
    order = np.arange(u)
    start = np.zeros(room, dtype=np.int64)
    stop = np.zeros(room, dtype=np.int64)
    left = np.full(room, -1, dtype=np.int64)
    right = np.full(room, -1, dtype=np.int64)
    low = np.zeros((room, dn))
    high = np.zeros((room, dn))
    words = np.zeros((room, features.words.shape[1]), dtype=np.uint64)
    counts = np.zeros(domain, dtype=np.int64)
    held = np.zeros(u, dtype=np.int64)
    spreads = np.zeros(d)
    ranked = np.zeros(d, dtype=np.int64)
    stop[0] = u
    nodes = 1
    node = 0
    while node < nodes:
        units = order[start[node] : stop[node]]
        _hull(features, units, low[node], high[node], words[node])
        if units.size > leaf:
            _spreads(features, units, counts, spreads)
            _rank(spreads, ranked)
            cut = 0
            for attempt in range(2 * d):
                # Second round: equal values may be cut apart, so that big groups of equals still split.
                j = ranked[attempt % d]
                if spreads[j] <= 0.0 and attempt < d:
                    continue
                values = np.empty(units.size)
                for position in range(units.size):
                    unit = units[position]
                    values[position] = features.numeric[unit, j] if j < dn else features.codes[unit, j - dn]
                sorting = np.argsort(values, kind="mergesort")
                # Entry by entry: numba takes seconds to compile an assignment of one array to another.
                candidate = np.empty(units.size, dtype=np.int64)
                ascending = np.empty(units.size)
                for position in range(units.size):
                    candidate[position] = units[sorting[position]]
                    ascending[position] = values[sorting[position]]
                cut = _find_cut(ascending, candidate, weight, individual, held, k, distinct, attempt < d)
                if cut > 0:
                    for position in range(units.size):
                        order[start[node] + position] = candidate[position]
                    break
            if cut > 0:
                left[node] = nodes
                right[node] = nodes + 1
                start[nodes] = start[node]
                stop[nodes] = start[node] + cut
                start[nodes + 1] = start[node] + cut
                stop[nodes + 1] = stop[node]
                nodes += 2
        node += 1
    return (
        order,
        start[:nodes],
        stop[:nodes],
        left[:nodes],
        right[:nodes],
        low[:nodes],
        high[:nodes],
        words[:nodes],
    )


def build_tree(
    features: Features,
    weight: NDArray[np.int32],
    individual: NDArray[np.int64],
    *,
    k: int = 1,
    distinct: bool = False,
    leaf: int = 12,
) -> KdTree:
    """A k-d tree over u units with ``leaf`` units a leaf, or as few as the constraints allow.

    Every leaf holds at least k rows; with ``distinct`` no individual holds more than a k-th of a leaf's rows,
    which is what a k-regular graph with distinct individuals inside the leaf needs. individual: codes below u.
    O(u log^2 u) for balanced splits.
    """
    domain = int(features.codes.max(initial=0)) + 1
    return KdTree(*_build(features, weight, individual, domain, k, distinct, leaf))


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
