"""One leaf for each individual: hierarchies in the graph search over individuals, which knows points.

An individual whose rows have several leaves stands for the lowest node above them. Such a node becomes a leaf of its
own, hung directly below itself: a box then reaches as high as the node as soon as it holds anybody else, and two of
those leaves meet no lower than the higher of their nodes. So the price of a slot of two or more individuals is
exactly that of all their rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.leaf_orders import greatest_heights, leaf_numbers


def person_leaves(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    mixed: NDArray[np.bool_],
    heights: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The place of each individual, float64 (p,), NaN for nulls only, and the heights of the leaves there are then.

    low, high: float64 (p,), places of the first and the last leaf of each, NaN for nulls only. mixed: bool (p,), who
    has nulls beside leaves: nothing lies above those but everything. O(p log p + nodes x leaves).
    """
    known = ~np.isnan(low)
    first, last = leaf_numbers(low, heights), leaf_numbers(high, heights)
    cost = np.where(mixed, 1.0, greatest_heights(heights, np.maximum(first, 0), np.maximum(last, 0)))
    nodes = np.flatnonzero(known & (mixed | (first < last)))
    # The first leaf below the node: further left something is higher.
    begin = np.array(
        [np.append(-1, np.flatnonzero(heights[: first[p]] > cost[p]))[-1] + 1 for p in nodes], dtype=np.int64
    )
    leaves = np.arange(heights.size + 1)
    where = np.concatenate([begin, leaves])
    after = np.concatenate([cost[nodes], np.append(heights, 0.0)])
    # Nodes stand before the first leaf below them, higher ones first.
    order = np.lexsort([-after, np.repeat([0, 1], [nodes.size, leaves.size]), where])
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    own = np.full(low.size, np.nan)
    own[known] = place[nodes.size + first[known]]
    own[nodes] = place[: nodes.size]
    return own / max(order.size - 1, 1), after[order][:-1]
