"""Mondrian: cut the widest attribute at its median while both sides keep k (LeFevre et al. 2006), strict or relaxed.

Strict: values up to the median go left, the others right, so that equal values stay together. Relaxed: the sorted units
are cut in the middle, so that those with the median's value may go either way. Categorical attributes are ordered by
code; the width of a range is its weighted NCP. An attribute that cannot be cut gives way to the next widest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost


@kernel(inner=True)
def _widths(
    people: Individuals,
    codes: np.ndarray,
    code_price: np.ndarray,
    units: np.ndarray,
    last_seen: np.ndarray,
    mark: int,
    widths: np.ndarray,
) -> None:
    """NCP of the units' hull in each attribute; last_seen: int64 (dc, values), scratch."""
    dn = people.numeric_weight.size
    for j in range(dn):
        low, high = np.inf, -np.inf
        for unit in units:
            low = min(low, people.low[unit, j])
            high = max(high, people.high[unit, j])
        widths[j] = range_cost(people.orders, people.numeric_weight[j], j, low, high)
    for j in range(codes.shape[1]):
        distinct = 0
        for unit in units:
            if last_seen[j, codes[unit, j]] != mark:
                last_seen[j, codes[unit, j]] = mark
                distinct += 1
        widths[dn + j] = (distinct - 1) * code_price[j]


@kernel(inner=True)
def _may_stand(who: np.ndarray, units: np.ndarray, k: int, distinct: bool, held: np.ndarray) -> bool:
    """Whether units can be a class: k of them, and of nobody more than a k-th. held: int64 zeros, scratch."""
    if units.size < k or not distinct:
        return units.size >= k
    most = 0
    for unit in units:
        held[who[unit]] += 1
        most = max(most, held[who[unit]])
    for unit in units:
        held[who[unit]] = 0
    return most * k <= units.size


@kernel
def _mondrian(
    people: Individuals,
    who: np.ndarray,
    codes: np.ndarray,
    code_price: np.ndarray,
    domain: int,
    k: int,
    relaxed: bool,
    distinct: bool,
    labels: np.ndarray,
) -> int:
    u = labels.size
    dn = people.numeric_weight.size
    d = dn + codes.shape[1]
    order = np.arange(u)
    stack = np.empty((u + 1, 2), dtype=np.int64)
    stack[0, 0], stack[0, 1] = 0, u
    waiting = 1
    last_seen = np.full((codes.shape[1], domain), -1, dtype=np.int64)
    held = np.zeros(u, dtype=np.int64)
    widths = np.empty(d)
    classes = 0
    visited = 0
    while waiting:
        waiting -= 1
        begin, end = stack[waiting, 0], stack[waiting, 1]
        units = order[begin:end]
        cut = 0
        if units.size >= 2 * k:
            _widths(people, codes, code_price, units, last_seen, visited, widths)
            visited += 1
            for j in np.argsort(-widths, kind="mergesort"):
                if widths[j] <= 0.0 and not relaxed:
                    continue
                values = np.empty(units.size)
                for position in range(units.size):
                    unit = units[position]
                    if j < dn:
                        values[position] = (people.low[unit, j] + people.high[unit, j]) / 2
                    else:
                        values[position] = codes[unit, j - dn]
                ranked = np.argsort(values, kind="mergesort")
                cut = units.size // 2
                if not relaxed:
                    median = values[ranked[(units.size - 1) // 2]]
                    while cut < units.size and values[ranked[cut]] <= median:
                        cut += 1
                candidate = units[ranked]
                if _may_stand(who, candidate[:cut], k, distinct, held) and _may_stand(
                    who, candidate[cut:], k, distinct, held
                ):
                    order[begin:end] = candidate
                    break
                cut = 0
        if cut > 0:
            # The left side is taken next, so that classes are numbered from left to right.
            stack[waiting, 0], stack[waiting, 1] = begin + cut, end
            stack[waiting + 1, 0], stack[waiting + 1, 1] = begin, begin + cut
            waiting += 2
        else:
            for unit in units:
                labels[unit] = classes
            classes += 1
    return classes


def mondrian_labels(
    people: Individuals,
    who: NDArray[np.int64],
    codes: NDArray[np.int32],
    code_price: NDArray[np.float64],
    k: int,
    *,
    relaxed: bool,
) -> NDArray[np.int32]:
    """Closed classes of at least k, int32 (u,).

    codes: int32 (u, dc), one categorical code of each unit. code_price: float64 (dc,), the price of a value beyond the
    first. who: int64 (u,), the individual of each unit; nobody gets more than a k-th of a class. An individual with
    several values is cut by the middle of its range and by its first code. Raises InfeasibleError when not even all
    units together are a class. O(u d log^2 u). Source: LeFevre et al. 2006.
    """
    u = people.rows.size
    distinct = u > 0 and int(np.bincount(who).max()) > 1
    if u < k or (distinct and int(np.bincount(who).max()) * k > u):
        raise InfeasibleError(f"not even all rows together are a class with k={k}")
    labels = np.full(u, -1, dtype=np.int32)
    domain = int(codes.max(initial=0)) + 1
    _mondrian(people, who, codes, code_price, domain, k, relaxed, distinct, labels)
    return labels
