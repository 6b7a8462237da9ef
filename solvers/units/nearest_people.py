"""A tree over individuals, and with it exactly the nearest of each under ``pair_class_loss``.

A node knows what all people below it have in common and what they have together: the least and the greatest low and
high end of their hulls, the values that everybody and that anybody has, and the fewest and the most rows. From that
follows the least that a class of somebody and anyone below costs, so whole branches are left out (branch and bound, as
in ``neighbours.py``, where units are points of one row count).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.individuals import Individuals, keep_nearest, pair_class_loss
from kanonflow.solvers.units.leaf_orders import range_cost
from kanonflow.solvers.units.stable_order import Scratch, build_scratch, stable_order

LEAF = 8


class PeopleTree(NamedTuple):
    """A balanced binary tree; leaves are runs of ``order``.

    order: int64 (u,). start, stop: int64 (nodes,), the range of ``order`` below each node; left: int64 (nodes,), -1 at
    a leaf, the right child is the next one. low, high: float64 (nodes, dn, 2), least and greatest end of a hull.
    shared, present: uint64 (nodes, W), values of everybody and of anybody. least_values: float64 (nodes,), the lowest
    price of all values of one. rows: int64 (nodes, 2), fewest and most.
    """

    order: NDArray[np.int64]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    left: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    shared: NDArray[np.uint64]
    present: NDArray[np.uint64]
    least_values: NDArray[np.float64]
    rows: NDArray[np.int64]


@kernel
def _price_values(people: Individuals, prices: np.ndarray) -> None:
    """The price of all values of each individual, into float64 (u,)."""
    for unit in range(prices.size):
        total = 0.0
        for w in range(people.words.shape[1]):
            total += bits_cost(people.words[unit, w], people.bit_weight, w)
        prices[unit] = total


@kernel(inner=True)
def _describe(people: Individuals, values: np.ndarray, tree: PeopleTree, node: int) -> None:
    """What is known of a node, from everybody below it. values: price of all values of each individual."""
    tree.low[node, :, 0] = tree.high[node, :, 0] = np.inf
    tree.low[node, :, 1] = tree.high[node, :, 1] = -np.inf
    tree.shared[node] = ~np.uint64(0)
    tree.present[node] = np.uint64(0)
    tree.least_values[node] = np.inf
    tree.rows[node, 0], tree.rows[node, 1] = np.iinfo(np.int64).max, 0
    for index in range(tree.start[node], tree.stop[node]):
        unit = tree.order[index]
        for j in range(people.low.shape[1]):
            tree.low[node, j, 0] = min(tree.low[node, j, 0], people.low[unit, j])
            tree.low[node, j, 1] = max(tree.low[node, j, 1], people.low[unit, j])
            tree.high[node, j, 0] = min(tree.high[node, j, 0], people.high[unit, j])
            tree.high[node, j, 1] = max(tree.high[node, j, 1], people.high[unit, j])
        for w in range(people.words.shape[1]):
            tree.shared[node, w] &= people.words[unit, w]
            tree.present[node, w] |= people.words[unit, w]
        tree.least_values[node] = min(tree.least_values[node], values[unit])
        tree.rows[node, 0] = min(tree.rows[node, 0], people.rows[unit])
        tree.rows[node, 1] = max(tree.rows[node, 1], people.rows[unit])


@kernel(inner=True)
def _widest(units: np.ndarray, count: int, keys: np.ndarray, key: np.ndarray) -> None:
    """``key``: the column in which these people differ most on average, of middles, price of values, and row counts.

    Row counts differ by what a class of two of them leaves waiting: 1 - 2 min / sum is near |ln a - ln b| / 2.
    keys: float64 (u, columns), the same for all nodes.
    """
    most = -1.0
    for j in range(keys.shape[1]):
        mean = 0.0
        for index in range(count):
            mean += keys[units[index], j]
        mean /= count
        spread = 0.0
        for index in range(count):
            spread += abs(keys[units[index], j] - mean)
        if spread > most:
            most = spread
            for index in range(count):
                key[index] = keys[units[index], j]


@kernel
def _grow(people: Individuals, keys: np.ndarray, values: np.ndarray, tree: PeopleTree, work: Scratch) -> int:
    """Fill the tree from its root, halving at the median; returns the number of nodes."""
    tree.stop[0] = tree.order.size
    # As variables: a callee would be compiled for the literal, too.
    nodes: Any = np.int64(1)
    node: Any = np.int64(0)
    while node < nodes:
        begin, end = tree.start[node], tree.stop[node]
        _describe(people, values, tree, node)
        count = end - begin
        if count > LEAF:
            for index in range(count):
                work.units[index] = tree.order[begin + index]
            _widest(work.units, count, keys, work.values)
            stable_order(work.values, count, work.order, work.merged)
            for index in range(count):
                tree.order[begin + index] = work.units[work.order[index]]
            middle = (begin + end) // 2
            tree.left[node] = nodes
            tree.start[nodes], tree.stop[nodes] = begin, middle
            tree.start[nodes + 1], tree.stop[nodes + 1] = middle, end
            nodes += 2
        node += 1
    return nodes


def build_people_tree(people: Individuals, order: NDArray[np.int64]) -> PeopleTree:
    """A tree over all individuals. order: int64 (u,), a tour along which near ones follow each other.

    A node is halved where its people differ most: in the middles of their hulls, in row counts, or along the tour,
    which stands for the values that are no numbers. O(u log^2 u).
    """
    u, dn = people.low.shape
    keys = np.empty((u, dn + 2))
    keys[:, :dn] = (people.low + people.high) / 2
    keys[:, dn] = np.log(people.rows) / 2
    # A quarter of the tour counts as much as a class of two whose row counts are 1 and 2.
    keys[order, dn + 1] = np.arange(u) * (1.4 / max(u, 1))
    room = 4 * (u // LEAF + 1) + 1
    width = people.words.shape[1]
    tree = PeopleTree(
        order=order.astype(np.int64),
        start=np.zeros(room, dtype=np.int64),
        stop=np.zeros(room, dtype=np.int64),
        left=np.full(room, -1, dtype=np.int64),
        low=np.empty((room, dn, 2)),
        high=np.empty((room, dn, 2)),
        shared=np.empty((room, width), dtype=np.uint64),
        present=np.empty((room, width), dtype=np.uint64),
        least_values=np.empty(room),
        rows=np.empty((room, 2), dtype=np.int64),
    )
    values = np.empty(u)
    _price_values(people, values)
    _grow(people, keys, values, tree, build_scratch(u))
    return tree


@kernel
def least_pair_loss(people: Individuals, tree: PeopleTree, node: int, unit: int) -> float:
    """No class of this individual and somebody below the node loses less a row. O(d + W).

    The hull of both reaches at least to the nearest of the others' ends. Its values cost at least those of the
    individual and what everybody below has besides, and at least the cheapest values below and what of the
    individual's nobody has there. Of the row counts below the nearest one leaves the fewest rows waiting.
    """
    hull = -people.first_value[0]
    for j in range(people.numeric_weight.size):
        low = min(people.low[unit, j], tree.low[node, j, 1])
        high = max(people.high[unit, j], tree.high[node, j, 0])
        hull += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    own = 0.0
    fewest = tree.least_values[node]
    for w in range(people.words.shape[1]):
        word = people.words[unit, w]
        own += bits_cost(word | tree.shared[node, w], people.bit_weight, w)
        fewest += bits_cost(word & ~tree.present[node, w], people.bit_weight, w)
    hull += max(own, fewest)
    rows = people.rows[unit]
    other = min(max(rows, tree.rows[node, 0]), tree.rows[node, 1])
    together = rows + other
    kept = 2 * min(rows, other)
    return (kept * hull + together - kept) / together


@kernel
def _query(people: Individuals, tree: PeopleTree, most: int, nearest: np.ndarray, looked: np.ndarray) -> None:
    """Fill all rows, nearer child first; ``looked[0]`` counts pairs looked at, ``most`` ends the look of one."""
    m = nearest.shape[1]
    distance = np.empty(m)
    stack = np.empty(128, dtype=np.int64)
    bounds = np.empty(128)
    for position in range(tree.order.size):
        unit = tree.order[position]
        until = looked[0] + most
        distance[:] = np.inf
        stack[0], bounds[0] = 0, -np.inf
        depth = 1
        while depth > 0 and looked[0] < until:
            depth -= 1
            node = stack[depth]
            # Sums in another order may differ in the last digits: what is as near as the last is looked at.
            if bounds[depth] >= distance[m - 1] + 1e-12:
                continue
            near = tree.left[node]
            if near >= 0:
                far = near + 1
                near_bound = least_pair_loss(people, tree, near, unit)
                far_bound = least_pair_loss(people, tree, far, unit)
                if far_bound < near_bound or (far_bound == near_bound and position >= tree.start[far]):
                    near, far = far, near
                    near_bound, far_bound = far_bound, near_bound
                stack[depth], bounds[depth] = far, far_bound
                stack[depth + 1], bounds[depth + 1] = near, near_bound
                depth += 2
                continue
            for index in range(tree.start[node], tree.stop[node]):
                other = tree.order[index]
                if other == unit:
                    continue
                looked[0] += 1
                keep_nearest(nearest, distance, unit, other, pair_class_loss(people, unit, other))


def nearest_people(
    people: Individuals, order: NDArray[np.int64], m: int, *, most: int = 10_000
) -> tuple[NDArray[np.int32], int]:
    """The m nearest others by ``pair_class_loss``, nearest first, int32 (u, m), -1 for none; and pairs looked at.

    order: int64 (u,), a tour; it decides how the tree is cut, and which of equally near ones are found.
    most: pairs looked at for one individual, a leaf more at most; then the nearest of these are taken, which come from
    the most promising branches. Exact with no more than ``most`` people, and beyond where fewer pairs settle it: with
    hulls as wide as the domain no branch is ever left out. O(u log^2 u) for the tree and O(u most (d + W)) at worst, a
    tenth of it and less where people cluster.
    """
    nearest = np.full((order.size, m), -1, dtype=np.int32)
    looked = np.zeros(1, dtype=np.int64)
    _query(people, build_people_tree(people, order), most, nearest, looked)
    return nearest, int(looked[0])
