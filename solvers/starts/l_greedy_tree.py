"""l-greedy over a whole window: the cheapest free record is found by branch and bound on a k-d tree.

l-greedy (Liang & Samavi 2020) looks at every free record for each member of each class, O(n^2 d / k). Here a node of
the tree is passed over when no record below it can be cheaper than the best found so far, so the same classes (up to
ties) come in about O(n log n) visits: for Adult's 30,162 rows in 0.04 s, where the scan takes 4.6 s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.starts.l_greedy import completed_classes, joined_loss, sorted_rows
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.features import Features
from kanonflow.solvers.units.kd_tree import KdTree
from kanonflow.solvers.units.leaf_orders import range_cost

_HASH = np.int64(63)


class FreeTree(NamedTuple):
    """What is free below each node.

    parent: int64 (nodes,), -1 at the root. leaf: int64 (u,), of each unit. free: int64 (nodes,), units below with rows
    left. rows: int32 (u,), rows left. values: uint64 (nodes, dc), values present of each categorical attribute, code
    modulo 64: two sets that share no bit share no value.
    """

    parent: NDArray[np.int64]
    leaf: NDArray[np.int64]
    free: NDArray[np.int64]
    rows: NDArray[np.int32]
    values: NDArray[np.uint64]


@kernel
def _fill_free(features: Features, tree: KdTree, free: FreeTree) -> None:
    # Children come after their parents, so that one pass backwards adds them up.
    for node in range(tree.start.size - 1, -1, -1):
        if tree.left[node] < 0:
            for index in range(tree.start[node], tree.stop[node]):
                unit = tree.order[index]
                free.leaf[unit] = node
                free.free[node] += free.rows[unit] > 0
                for j in range(features.codes.shape[1]):
                    free.values[node, j] |= np.uint64(1) << np.uint64(features.codes[unit, j] & _HASH)
            continue
        for child in (tree.left[node], tree.right[node]):
            free.parent[child] = node
            free.free[node] += free.free[child]
            for j in range(features.codes.shape[1]):
                free.values[node, j] |= free.values[child, j]


def free_tree(units: Units, tree: KdTree, rows: NDArray[np.int32]) -> FreeTree:
    """All of ``rows`` int32 (u,), rows of each unit, are free. O(u log u)."""
    nodes = tree.start.size
    free = FreeTree(
        parent=np.full(nodes, -1, dtype=np.int64),
        leaf=np.zeros(rows.size, dtype=np.int64),
        free=np.zeros(nodes, dtype=np.int64),
        rows=rows.copy(),
        values=np.zeros((nodes, units.features.codes.shape[1]), dtype=np.uint64),
    )
    _fill_free(units.features, tree, free)
    return free


@kernel(inner=True, forceinline=True)
def _least_joined(
    features: Features,
    tree: KdTree,
    free: FreeTree,
    low: np.ndarray,
    high: np.ndarray,
    values: np.ndarray,
    node: int,
) -> float:
    """No unit below the node has a smaller ``joined_loss`` with the open box."""
    total = 0.0
    for j in range(low.size):
        least = min(low[j], tree.high[node, j])
        most = max(high[j], tree.low[node, j])
        total += range_cost(features.orders, features.numeric_weight[j], j, least, most)
    for j in range(values.size):
        if values[j] & free.values[node, j] == np.uint64(0):
            total += features.code_weight[j]
    return total


@kernel(inner=True)
def _cheapest(
    units: Units,
    tree: KdTree,
    free: FreeTree,
    low: np.ndarray,
    high: np.ndarray,
    words: np.ndarray,
    codes: np.ndarray,
    values: np.ndarray,
    taken: np.ndarray,
    size: int,
    stack: np.ndarray,
    bounds: np.ndarray,
) -> int:
    """The free unit whose row joins the open class of ``taken[:size]`` most cheaply; -1 when none may."""
    features = units.features
    best = np.inf
    found = -1
    stack[0] = 0
    bounds[0] = 0.0
    depth = 1 if free.free[0] > 0 else 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if bounds[depth] >= best:
            continue
        if tree.left[node] >= 0:
            near, far = tree.left[node], tree.right[node]
            near_bound = far_bound = np.inf
            if free.free[near] > 0:
                near_bound = _least_joined(features, tree, free, low, high, values, near)
            if free.free[far] > 0:
                far_bound = _least_joined(features, tree, free, low, high, values, far)
            if far_bound < near_bound:
                near, far = far, near
                near_bound, far_bound = far_bound, near_bound
            if far_bound < best:
                stack[depth] = far
                bounds[depth] = far_bound
                depth += 1
            if near_bound < best:
                stack[depth] = near
                bounds[depth] = near_bound
                depth += 1
            continue
        for index in range(tree.start[node], tree.stop[node]):
            unit = tree.order[index]
            if free.rows[unit] == 0:
                continue
            loss = joined_loss(features, low, high, words, codes, size, unit)
            if loss >= best:
                continue
            named = 0
            for p in range(size):
                if units.individual[taken[p]] == units.individual[unit]:
                    named += 1
            if named < units.limit[unit]:
                best = loss
                found = unit
    return found


@kernel(inner=True)
def _take(tree: KdTree, free: FreeTree, unit: int, rows: int) -> None:
    """Take ``rows`` rows of a unit (a negative number gives them back)."""
    before = free.rows[unit]
    free.rows[unit] -= rows
    change = int(free.rows[unit] > 0) - int(before > 0)
    node = free.leaf[unit]
    while change != 0 and node >= 0:
        free.free[node] += change
        node = free.parent[node]


@kernel
def _classes(
    units: Units, tree: KdTree, free: FreeTree, order: np.ndarray, k: int, members: np.ndarray
) -> int:
    """Fill rows of ``members`` (classes, k) with units; returns how many. ``order``: units in sorted order."""
    features = units.features
    low = np.empty(features.numeric.shape[1])
    high = np.empty(features.numeric.shape[1])
    words = np.empty(features.words.shape[1], dtype=np.uint64)
    codes = np.empty((k, features.wide.shape[1]), dtype=np.int32)
    values = np.empty(features.codes.shape[1], dtype=np.uint64)
    stack = np.empty(tree.start.size + 1, dtype=np.int64)
    bounds = np.empty(tree.start.size + 1)
    classes = 0
    begin = 0
    while classes < members.shape[0]:
        while free.rows[order[begin]] == 0:
            begin += 1
        unit = order[begin]
        for size in range(k):
            if size > 0:
                unit = _cheapest(
                    units, tree, free, low, high, words, codes, values, members[classes], size, stack, bounds
                )
            if unit < 0:
                for p in range(size):
                    _take(tree, free, np.int64(members[classes, p]), np.int64(-1))
                return classes
            members[classes, size] = unit
            _take(tree, free, np.int64(unit), np.int64(1))
            for j in range(low.size):
                y = features.numeric[unit, j]
                low[j] = y if size == 0 else min(low[j], y)
                high[j] = y if size == 0 else max(high[j], y)
            for w in range(words.size):
                words[w] = features.words[unit, w] | (words[w] if size else np.uint64(0))
            for j in range(codes.shape[1]):
                codes[size, j] = features.wide[unit, j]
            for j in range(values.size):
                bit = np.uint64(1) << np.uint64(features.codes[unit, j] & _HASH)
                values[j] = bit | (values[j] if size else np.uint64(0))
        classes += 1
    return classes


def greedy_classes(
    units: Units, tree: KdTree, order: NDArray[np.int32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Classes of exactly k rows, int32 (classes, k) of units, and the rows left over, int32 of units.

    order: int32, units in the order in which they open classes, each at least once. Each class takes k - 1 times the
    free row that its box grows least by. About O(n log n) visits.
    """
    free = free_tree(units, tree, units.weight)
    members = np.empty((int(units.weight.sum()) // k, k), dtype=np.int32)
    filled = _classes(units, tree, free, order, k, members)
    return members[:filled], np.repeat(np.arange(units.weight.size), free.rows).astype(np.int32)


def l_greedy_members(units: Units, tree: KdTree, k: int, *, distinct: bool) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k): l-greedy over the whole window, attributes by ascending variance.

    Source: Liang & Samavi 2020. Raises InfeasibleError when no class may take a row that is left over.
    """
    every = np.repeat(np.arange(units.weight.size), units.weight).astype(np.int32)
    filled, left = greedy_classes(units, tree, sorted_rows(units, every), k)
    return completed_classes(units, filled, left, k, distinct=distinct)
