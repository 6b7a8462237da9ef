"""l-greedy: open a class with the first free record of a sorted order, fill it with the cheapest (Liang & Samavi 2020).

The parts that other starts share: the order (by attributes of ascending variance, lexicographically, as in the paper),
what a record adds to an open box, and where the records go that fill no further class. The search for the cheapest
record is in l_greedy_tree.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.starts.circulant import circulant_members
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.features import Features
from kanonflow.solvers.units.leaf_orders import range_cost


@kernel(inner=True, forceinline=True)
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


@kernel
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
