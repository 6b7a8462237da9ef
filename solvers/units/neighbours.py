"""Exact nearest units under pair-NCP: the loss of the smallest box that holds both."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.features import Features
from kanonflow.solvers.units.kd_tree import KdTree
from kanonflow.solvers.units.leaf_orders import range_cost


@kernel
def pair_loss(features: Features, a: int, b: int) -> float:
    """Loss of the box of two units."""
    total = 0.0
    for j in range(features.numeric_weight.size):
        x, y = features.numeric[a, j], features.numeric[b, j]
        total += range_cost(features.orders, features.numeric_weight[j], j, min(x, y), max(x, y))
    for w in range(features.words.shape[1]):
        total += bits_cost(features.words[a, w] & ~features.words[b, w], features.bit_weight, w)
    for j in range(features.wide_weight.size):
        if features.wide[a, j] != features.wide[b, j]:
            total += features.wide_weight[j]
    return total


@kernel(inner=True)
def node_bound(features: Features, tree: KdTree, node: int, unit: int) -> float:
    """No unit below the node is nearer than this."""
    total = 0.0
    for j in range(features.numeric_weight.size):
        x = features.numeric[unit, j]
        low, high = tree.low[node, j], tree.high[node, j]
        if x < low or x > high:
            weight = features.numeric_weight[j]
            total += range_cost(features.orders, weight, j, min(x, high), max(x, low))
    for w in range(features.words.shape[1]):
        total += bits_cost(features.words[unit, w] & ~tree.words[node, w], features.bit_weight, w)
    return total


@kernel
def _query(
    features: Features,
    tree: KdTree,
    individual: np.ndarray,
    first: int,
    last: int,
    nearest: np.ndarray,
    distance: np.ndarray,
) -> None:
    """Fill the rows of tree positions first..last-1; a depth-first walk that visits the nearer child first."""
    m = nearest.shape[1]
    stack = np.empty(tree.start.size, dtype=np.int64)
    bounds = np.empty(tree.start.size)
    for position in range(first, last):
        unit = tree.order[position]
        found = 0
        worst = np.inf
        stack[0] = 0
        bounds[0] = 0.0
        depth = 1
        while depth > 0:
            depth -= 1
            if found == m and bounds[depth] >= worst:
                continue
            node = stack[depth]
            if tree.left[node] >= 0:
                near, far = tree.left[node], tree.right[node]
                near_bound = node_bound(features, tree, near, unit)
                far_bound = node_bound(features, tree, far, unit)
                inside = tree.start[near] <= position < tree.stop[near]
                if far_bound < near_bound or (far_bound == near_bound and not inside):
                    near, far = far, near
                    near_bound, far_bound = far_bound, near_bound
                stack[depth] = far
                bounds[depth] = far_bound
                stack[depth + 1] = near
                bounds[depth + 1] = near_bound
                depth += 2
                continue
            for index in range(tree.start[node], tree.stop[node]):
                other = tree.order[index]
                if individual[other] == individual[unit]:
                    continue
                gap = pair_loss(features, unit, other)
                if found == m and gap >= worst:
                    continue
                slot = found if found < m else m - 1
                if found < m:
                    found += 1
                while slot > 0 and distance[unit, slot - 1] > gap:
                    distance[unit, slot] = distance[unit, slot - 1]
                    nearest[unit, slot] = nearest[unit, slot - 1]
                    slot -= 1
                distance[unit, slot] = gap
                nearest[unit, slot] = other
                worst = distance[unit, found - 1]


def nearest_units(
    features: Features,
    tree: KdTree,
    individual: NDArray[np.int64],
    m: int,
    *,
    first: int = 0,
    last: int | None = None,
    into: tuple[NDArray[np.int32], NDArray[np.float64]] | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The m nearest units of other individuals, nearest first: int32 (u, m) and their pair losses.

    Missing ones (fewer than m others) are -1 at infinity. ``first``/``last`` restrict the call to a range of tree
    positions, so that a thread pool can fill one pair of arrays. Exact; O(u log u) visits when units cluster.
    """
    u = tree.order.size
    if into is None:
        into = np.full((u, m), -1, dtype=np.int32), np.full((u, m), np.inf)
    _query(features, tree, individual, first, u if last is None else last, *into)
    return into
