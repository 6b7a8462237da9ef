"""l-greedy: open a class with the first free record of a sorted order, fill it with the cheapest (Liang & Samavi 2020).

Here the order is sorted by attributes of ascending variance, lexicographically, as in the paper; for big windows
the rows are first cut into blocks of a k-d tree, so that a block costs O(block^2 d / k) and the whole O(n block d / k).
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.starts.circulant import circulant_members
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.features import Features
from kanonflow.solvers.units.kd_tree import KdTree
from kanonflow.solvers.units.leaf_orders import range_cost


@numba.njit(cache=True, nogil=True, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def joined_loss(
    features: Features,
    low: np.ndarray,
    high: np.ndarray,
    words: np.ndarray,
    codes: np.ndarray,
    size: int,
    unit: int,
) -> float:
    """How much the open box of ``size`` members grows, in numeric loss in full and in new categorical values."""
    total = 0.0
    for j in range(low.size):
        y = features.numeric[unit, j]
        total += range_cost(features.orders, features.numeric_weight[j], j, min(low[j], y), max(high[j], y))
    for w in range(words.size):
        new = features.words[unit, w] & ~words[w]
        if new:
            total += bits_cost(new, features.bit_weight, w)
    for j in range(codes.shape[1]):
        fresh = True
        for p in range(size):
            if codes[p, j] == features.wide[unit, j]:
                fresh = False
        if fresh:
            total += features.wide_weight[j]
    return total


@numba.njit(cache=True, nogil=True)
def _greedy_classes(units: Units, order: np.ndarray, k: int, members: np.ndarray) -> int:
    """Fill rows of ``members`` (classes, k) with units of ``order``; returns the number of classes filled.

    order: unit of each row, sorted; a class takes no two rows of one individual beyond the unit's limit. Rows that
    remain are marked by what ``order`` holds after the call: used rows become -1.
    """
    features = units.features
    low = np.empty(features.numeric.shape[1])
    high = np.empty(features.numeric.shape[1])
    words = np.empty(features.words.shape[1], dtype=np.uint64)
    codes = np.empty((k, features.wide.shape[1]), dtype=np.int32)
    classes = 0
    left = order.size
    begin = 0
    chosen = np.empty(k, dtype=np.int64)
    while left >= k and classes < members.shape[0]:
        while order[begin] < 0:
            begin += 1
        size = 0
        pick = begin
        while pick >= 0:
            unit = order[pick]
            members[classes, size] = unit
            chosen[size] = pick
            for j in range(low.size):
                y = features.numeric[unit, j]
                low[j] = y if size == 0 else min(low[j], y)
                high[j] = y if size == 0 else max(high[j], y)
            for w in range(words.size):
                words[w] = features.words[unit, w] | (words[w] if size else np.uint64(0))
            for j in range(codes.shape[1]):
                codes[size, j] = features.wide[unit, j]
            order[pick] = -1
            size += 1
            if size == k:
                break
            pick = -1
            best = np.inf
            previous = -1
            for index in range(begin, order.size):
                candidate = order[index]
                if candidate < 0 or candidate == previous:
                    continue
                previous = candidate
                loss = joined_loss(features, low, high, words, codes, size, candidate)
                if loss < best:
                    named = 0
                    for p in range(size):
                        if units.individual[members[classes, p]] == units.individual[candidate]:
                            named += 1
                    if named < units.limit[candidate]:
                        best = loss
                        pick = index
        if size < k:
            # Too few distinct individuals are left for another class.
            for p in range(size):
                order[chosen[p]] = members[classes, p]
            break
        classes += 1
        left -= k
    return classes


def sorted_rows(units: Units, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Rows (units, repeated as often as they have rows) by attributes of ascending variance. O(r d log r)."""
    features = units.features
    columns = [features.numeric[rows, j] for j in range(features.numeric.shape[1])]
    variances = [float(np.var(column)) for column in columns]
    for j in range(features.codes.shape[1]):
        column = features.codes[rows, j]
        share = np.bincount(column) / max(rows.size, 1)
        columns.append(column)
        variances.append(float((1.0 - np.sum(share**2)) * features.code_weight[j] ** 2))
    by_variance = np.argsort(variances, kind="stable")
    return rows[np.lexsort([rows, *[columns[j] for j in by_variance[::-1]]])]


@numba.njit(cache=True, nogil=True)
def _cheapest_class(units: Units, classes: np.ndarray, sizes: np.ndarray, unit: int) -> int:
    """The class whose box grows least by a row of ``unit`` and that may take it; -1 if none may."""
    features = units.features
    best = np.inf
    found = -1
    for number in range(sizes.size):
        size = sizes[number]
        if size == classes.shape[1]:
            continue
        named = 0
        for p in range(size):
            if units.individual[classes[number, p]] == units.individual[unit]:
                named += 1
        # A circulant of s rows bears floor(s / k) rows of one individual; k..2k-1 rows bear one.
        if named >= units.limit[unit]:
            continue
        growth = 0.0
        for j in range(features.numeric.shape[1]):
            low = high = features.numeric[classes[number, 0], j]
            for p in range(1, size):
                low = min(low, features.numeric[classes[number, p], j])
                high = max(high, features.numeric[classes[number, p], j])
            y = features.numeric[unit, j]
            weight = features.numeric_weight[j]
            grown = range_cost(features.orders, weight, j, min(low, y), max(high, y))
            growth += grown - range_cost(features.orders, weight, j, low, high)
        for w in range(features.words.shape[1]):
            words = np.uint64(0)
            for p in range(size):
                words |= features.words[classes[number, p], w]
            growth += bits_cost(features.words[unit, w] & ~words, features.bit_weight, w)
        for j in range(features.wide.shape[1]):
            fresh = True
            for p in range(size):
                if features.wide[classes[number, p], j] == features.wide[unit, j]:
                    fresh = False
            if fresh:
                growth += features.wide_weight[j]
        if growth < best:
            best = growth
            found = number
    return found


def l_greedy_classes(
    units: Units, rows: NDArray[np.int32], k: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Classes of exactly k of the given rows, int32 (classes, k) of units, and the rows left over.

    O(r^2 d / k) for r rows. Source: Liang & Samavi 2020, l-greedy.
    """
    order = sorted_rows(units, rows)
    members = np.empty((order.size // k, k), dtype=np.int32)
    filled = _greedy_classes(units, order, k, members)
    return members[:filled], order[order >= 0]


def l_greedy_members(
    units: Units, tree: KdTree, k: int, *, distinct: bool, block_rows: int = 1500
) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k): l-greedy inside blocks of about ``block_rows`` rows of a k-d tour.

    What a block leaves over goes on to the next; what the last one leaves joins the class that grows least.
    Raises InfeasibleError when no class may take a row (an individual stands in all of them). O(n block d / k).
    """
    tour = np.repeat(tree.order, units.weight[tree.order]).astype(np.int32)
    blocks = max(1, round(tour.size / max(block_rows, 2 * k)))
    parts: list[NDArray[np.int32]] = []
    left = np.empty(0, dtype=np.int32)
    for block in np.array_split(tour, blocks):
        filled, left = l_greedy_classes(units, np.concatenate([left, block]), k)
        parts.append(filled)
    return completed_classes(units, np.concatenate(parts), left, k, distinct=distinct)


def completed_classes(
    units: Units, filled: NDArray[np.int32], left: NDArray[np.int32], k: int, *, distinct: bool
) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k), of classes of k whose left-over rows join the class that grows least.

    Raises InfeasibleError when no class may take a row. O(classes k d) for each row left over.
    """
    classes = np.full((filled.shape[0], 2 * k - 1), -1, dtype=np.int32)
    classes[:, :k] = filled
    sizes = np.full(filled.shape[0], k, dtype=np.int64)
    for unit in left:
        found = int(_cheapest_class(units, classes, sizes, unit))
        if found < 0:
            raise InfeasibleError("l-greedy leaves a row over that no class may take")
        classes[found, sizes[found]] = unit
        sizes[found] += 1
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return circulant_members(units, classes[classes >= 0], starts, k, distinct=distinct)
