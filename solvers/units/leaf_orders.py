"""Hierarchies as kernels read them: leaves on a line, and what the range between two of them costs.

Number the leaves of a tree in depth-first order: the lowest common ancestor (LCA) of a set of leaves is that of its
first and its last one. So a hierarchy is an attribute with a low and a high end, like a number, and only the price of
a range differs: not ``high - low`` but the NCP of the LCA (leaves below / all leaves, S4 eq. 2). That is the largest of
the *heights* in the range, the NCPs of the LCAs of neighbouring leaves, so that it takes two looks at a table of
largest heights over runs of 1, 2, 4, ... (Bender & Farach-Colton 2000, "The LCA problem revisited", 2.3).

``range_cost`` is compiled by the *type* of its first argument: None, a table without hierarchies, gives the
``min(high - low, weight)`` of numbers and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba.core.types import NoneType  # type: ignore[attr-defined]
from numba.extending import overload
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.bits import highest_bit
from kanonflow.solvers.units.numbering import numbered

# What is kept in Table.heights: of each numeric column the heights of its leaves, None for numbers.
Heights = Sequence[NDArray[np.float64] | None]


class LeafOrders(NamedTuple):
    """The hierarchies among dn attributes with ends.

    size: int64 (dn,), leaves that occur, and one more for nulls; 0 for numbers. scale: float64 (dn,), leaves to a unit
    of the coordinate, 0 for numbers. first: int64 (dn,), at least 1, where an attribute's table begins in highest:
    float64, in rows of ``size``: entry r of row l is the largest weighted height of 2^l neighbours from leaf r on.
    """

    size: NDArray[np.int64]
    scale: NDArray[np.float64]
    first: NDArray[np.int64]
    highest: NDArray[np.float64]


def range_cost(orders: LeafOrders | None, weight: float, j: int, low: float, high: float) -> float:
    """Weighted NCP of a box that reaches from ``low`` to ``high`` in attribute j; inside kernels only. O(1).

    low, high: weighted coordinates. A range without members (low above high) costs a hierarchy nothing.
    """
    raise TypeError("called from compiled kernels only")


@overload(range_cost, jit_options={"nogil": True, "forceinline": True, "_nrt": False})
def _range_cost(orders, weight, j, low, high):  # type: ignore[no-untyped-def]
    if isinstance(orders, NoneType):

        def of_numbers(orders, weight, j, low, high):  # type: ignore[no-untyped-def]
            return min(high - low, weight)

        return of_numbers

    # Without branches: with one, numba counts array references in the innermost loops, at twenty times the cost. A
    # range of one leaf reads some entry and pays nothing for it; the infinite ends of an empty one are cut off.
    def of_leaves(orders, weight, j, low, high):  # type: ignore[no-untyped-def]
        a = np.int64(min(low, weight) * orders.scale[j] + 0.5)
        b = np.int64(max(high, 0.0) * orders.scale[j] + 0.5)
        level = highest_bit(np.uint64(max(b - a, np.int64(1))))
        row = np.uint64(orders.first[j] + level * orders.size[j])
        last = row + np.uint64(b) - (np.uint64(1) << np.uint64(level))
        height = max(orders.highest[row + np.uint64(a)], orders.highest[last])
        width = min(max(high - low, 0.0), weight)
        return int(b > a) * height + int(orders.size[j] == 0) * width

    return of_leaves


def holds_leaves(orders: LeafOrders | None, j: int) -> bool:
    """Whether attribute j is a hierarchy; inside kernels only."""
    raise TypeError("called from compiled kernels only")


@overload(holds_leaves, jit_options={"nogil": True, "forceinline": True, "_nrt": False})
def _holds_leaves(orders, j):  # type: ignore[no-untyped-def]
    if isinstance(orders, NoneType):
        return lambda orders, j: False
    return lambda orders, j: orders.size[j] > 0


@kernel
def leaf_spread(orders: LeafOrders | None, weight: float, j: int, values: np.ndarray) -> float:
    """Mean cost of the range of two of the values, float64 (m,) sorted ascending, each with each; O(m).

    Each value stands after runs of earlier ones, and ``stack`` holds those runs by the largest height up to it.
    """
    stack = np.empty(values.size)
    runs = np.empty(values.size, dtype=np.int64)
    depth = 0
    to_here = 0.0
    total = 0.0
    for position in range(1, values.size):
        height = range_cost(orders, weight, j, values[position - 1], values[position])
        run = 1
        to_here += height
        while depth > 0 and stack[depth - 1] <= height:
            depth -= 1
            run += runs[depth]
            to_here += (height - stack[depth]) * runs[depth]
        stack[depth], runs[depth] = height, run
        depth += 1
        total += to_here
    return 2.0 * total / (float(values.size) * values.size)


def unsorted_leaf_spread(orders: LeafOrders | None, weight: float, j: int, values: np.ndarray) -> float:
    """``leaf_spread`` of values in any order; inside kernels only. O(m log m)."""
    raise TypeError("called from compiled kernels only")


@overload(unsorted_leaf_spread, jit_options={"nogil": True})
def _unsorted_leaf_spread(orders, weight, j, values):  # type: ignore[no-untyped-def]
    # Without hierarchies nobody calls it, and sorting takes seconds to compile.
    if isinstance(orders, NoneType):
        return lambda orders, weight, j, values: 0.0
    return lambda orders, weight, j, values: leaf_spread(orders, weight, j, np.sort(values))


def leaf_numbers(column: NDArray[np.float64], heights: NDArray[np.float64]) -> NDArray[np.int64]:
    """The leaf of each value of a column of ``Table.numeric``, int64 (n,), -1 for a null."""
    null = np.isnan(column)
    known = np.where(null, 0.0, column)
    return np.where(null, -1, np.rint(known * heights.size).astype(np.int64))


def greatest_heights(
    heights: NDArray[np.float64], first: NDArray[np.int64], last: NDArray[np.int64]
) -> NDArray[np.float64]:
    """NCP of the lowest node above the leaves from first to last, float64 (m,); 0 for one leaf. O(m leaves)."""
    # Of each pair of ends reduceat takes the heights from the first up to before the second; what it takes between
    # the pairs is dropped.
    ends = np.stack([first, np.maximum(last, first + 1)], axis=1).ravel()
    between = np.maximum.reduceat(np.append(heights, [0.0, 0.0]), ends)[::2]
    return np.where(first < last, between, 0.0)


def _largest_heights(heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row l, entry r: the largest of ``heights[r : r + 2^l]``, float64 (levels, leaves); 0 beyond the end."""
    size = heights.size + 1
    rows = [np.append(heights, 0.0)]
    reach = 1
    while 2 * reach <= heights.size:
        row = np.zeros(size)
        count = heights.size - 2 * reach + 1
        row[:count] = np.maximum(rows[-1][:count], rows[-1][reach : reach + count])
        rows.append(row)
        reach *= 2
    return np.stack(rows)


def build_orders(
    numeric: NDArray[np.float64], all_heights: Heights, weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], LeafOrders]:
    """Weighted coordinates of the hierarchies among the columns (numbers stay as they are), and their orders.

    numeric: float64 (u, dn), as ``Table.numeric``; weights: float64 (dn,), normalized. Only leaves that occur are
    numbered, so that the tables are as small as the window; a null comes after them, and with anything else costs the
    whole weight. O(u dn log u + leaves log leaves).
    """
    coordinates = numeric.copy()
    size = np.zeros(weights.size, dtype=np.int64)
    scale = np.zeros(weights.size)
    first = np.ones(weights.size, dtype=np.int64)
    # A range of one leaf may read the entry before its table, and one without members the entry behind it.
    tables = [np.zeros(1)]
    filled = 1
    for j, heights in enumerate(all_heights):
        if heights is None:
            continue
        numbers = leaf_numbers(numeric[:, j], heights)
        places, leaf, _ = numbered(numbers + 1)
        occurring = numbers[places]
        between = np.empty(0)
        known = occurring[occurring >= 0]
        if known.size > 1:
            between = np.maximum.reduceat(heights[: known[-1]], known[:-1])
        if known.size < occurring.size:
            # The null sorts before the leaves and is put behind them.
            leaf = np.where(leaf == 0, known.size, leaf - 1)
            between = np.append(between, np.ones(min(known.size, 1)))
        table = _largest_heights(between * weights[j])
        size[j], first[j] = table.shape[1], filled
        scale[j] = max(table.shape[1] - 1, 1) / weights[j]
        coordinates[:, j] = leaf / scale[j]
        tables.append(table.ravel())
        filled += table.size
    return coordinates, LeafOrders(size, scale, first, np.concatenate([*tables, np.zeros(1)]))
