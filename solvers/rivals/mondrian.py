"""Mondrian: cut the widest attribute at its median while both sides keep k (LeFevre et al. 2006), strict or relaxed.

Strict: values up to the median go left, the others right, so that equal values stay together. Relaxed: the sorted units
are cut in the middle, so that those with the median's value may go either way. The width of a range is its weighted
NCP. An attribute that cannot be cut gives way to the next widest.

Categories have no order of their own, and the paper leaves it open. Here the units that are cut give it: of the values
below one node of a hierarchy (of all values, without one) that of most units comes first, of equally many that with the
unit of the least numbers. So neither codes nor the order of siblings in a hierarchy decide what is put together, and a
value of more than half of the units can be cut off the rest (decision 132).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import holds_leaves, range_cost


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


@kernel(inner=True)
def _by_frequency(
    people: Individuals, standing: np.ndarray, j: int, units: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """The units' positions, int64 (m,), with the categories of attribute j in the order of the cut.

    values: float64 (m,), ascending, of ``units``. standing: int64 (u,), which of equally frequent values comes first:
    that with the unit of the least.
    """
    starts = np.empty(units.size + 1, dtype=np.int64)
    least = np.empty(units.size)
    # What it costs to hold a value and the one before it: the largest of a node's stand between its children.
    gaps = np.ones(units.size)
    runs = 0
    for position in range(units.size):
        if position == 0 or values[position] > values[position - 1]:
            if runs > 0 and j < people.numeric_weight.size:
                weight = people.numeric_weight[j]
                gaps[runs] = range_cost(people.orders, weight, j, values[position - 1], values[position])
            starts[runs] = position
            least[runs] = standing[units[position]]
            runs += 1
        else:
            least[runs - 1] = min(least[runs - 1], standing[units[position]])
    starts[runs] = units.size
    ranked = np.empty(units.size, dtype=np.int64)
    filled = 0
    nodes = np.empty((runs + 1, 2), dtype=np.int64)
    nodes[0, 0], nodes[0, 1] = 0, runs
    waiting = 1
    edges = np.empty(runs + 1, dtype=np.int64)
    first = np.empty(runs)
    while waiting:
        waiting -= 1
        begin, end = nodes[waiting, 0], nodes[waiting, 1]
        if end - begin == 1:
            for position in range(starts[begin], starts[end]):
                ranked[filled] = position
                filled += 1
            continue
        top = gaps[begin + 1 : end].max()
        children = 0
        for run in range(begin, end):
            if run == begin or gaps[run] == top:
                edges[children] = run
                first[children] = least[run]
                children += 1
            else:
                first[children - 1] = min(first[children - 1], least[run])
        edges[children] = end
        by_standing = np.argsort(first[:children], kind="mergesort")
        fewer = np.empty(children)
        for place in range(children):
            child = by_standing[place]
            fewer[place] = starts[edges[child]] - starts[edges[child + 1]]
        # The last of them is put down first, so that the first is taken up next.
        for place in np.argsort(fewer, kind="mergesort")[::-1]:
            child = by_standing[place]
            nodes[waiting, 0], nodes[waiting, 1] = edges[child], edges[child + 1]
            waiting += 1
    return ranked


@kernel
def _mondrian(
    people: Individuals,
    who: np.ndarray,
    standing: np.ndarray,
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
                categories = j >= dn or holds_leaves(people.orders, j)
                for position in range(units.size):
                    unit = units[position]
                    if j >= dn:
                        values[position] = codes[unit, j - dn]
                    elif categories:
                        values[position] = people.low[unit, j]
                    else:
                        values[position] = (people.low[unit, j] + people.high[unit, j]) / 2
                ranked = np.argsort(values, kind="mergesort")
                candidate, values = units[ranked], values[ranked]
                if categories:
                    ranked = _by_frequency(people, standing, j, candidate, values)
                    candidate, values = candidate[ranked], values[ranked]
                cut = units.size // 2
                if not relaxed:
                    median = values[(units.size - 1) // 2]
                    # It stands in the middle, so those of its value go on from there, if they do.
                    while cut < units.size and values[cut] == median:
                        cut += 1
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
    several values is cut by the middle of its range, by its first code and by the first leaf in the order of its
    hierarchy (so there, and only there, the order of siblings counts). Raises InfeasibleError when not even all units
    together are a class. O(u d log^2 u). Source: LeFevre et al. 2006.
    """
    u = people.rows.size
    distinct = u > 0 and int(np.bincount(who).max()) > 1
    if u < k or (distinct and int(np.bincount(who).max()) * k > u):
        raise InfeasibleError(f"not even all rows together are a class with k={k}")
    labels = np.full(u, -1, dtype=np.int32)
    domain = int(codes.max(initial=0)) + 1
    numbers = people.low if people.orders is None else people.low[:, people.orders.size == 0]
    standing = np.empty(u, dtype=np.int64)
    standing[np.lexsort((np.arange(u), *numbers.T[::-1]))] = np.arange(u)
    _mondrian(people, who, standing, codes, code_price, domain, k, relaxed, distinct, labels)
    return labels
