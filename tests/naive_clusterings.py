"""Slow, obvious twins of the clusterings (solvers/rivals): lists, and every loss from its rows.

Tables without individuals: each row is one unit. A class is a list of rows. ``pick``: the random choices, as drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tests import naive
from tests.naive import box_loss

# Two losses this near are a tie: kernels add the same terms in another order.
TIE = 1e-9


def first_least(candidates: list[int], loss: Callable[[int], float]) -> int:
    """The first candidate whose loss is smallest, but for rounding."""
    least = min(loss(candidate) for candidate in candidates)
    return next(candidate for candidate in candidates if loss(candidate) <= least + TIE)


def joined_where_cheapest(table, classes: list[list[int]], left: list[int]) -> list[list[int]]:
    """Each row that is left joins the class whose rows lose least more by it."""

    def growth(rows: list[int], row: int) -> float:
        return (len(rows) + 1) * box_loss(table, [*rows, row]) - len(rows) * box_loss(table, rows)

    for row in left:
        number = first_least(list(range(len(classes))), lambda c, row=row: growth(classes[c], row))
        classes[number].append(row)
    return classes


def k_member(table, k: int, first: int) -> list[list[int]]:
    """Byun et al. 2007, as ALGORITHMS has it."""
    free = list(range(table.records))
    classes: list[list[int]] = []
    seed = first
    while len(free) >= k:
        if classes:
            seed = first_least(free, lambda row, last=seed: -box_loss(table, [last, row]))
        rows = [seed]
        free.remove(seed)
        while len(rows) < k:
            rows.append(first_least(free, lambda row, rows=rows: box_loss(table, [*rows, row])))
            free.remove(rows[-1])
        classes.append(rows)
    return joined_where_cheapest(table, classes, free)


def seeded(table, k: int, pick: Callable[[int], int], *, spread: bool) -> list[list[int]]:
    """IKA (spread) or NCP clustering: a centroid and its k - 1 nearest; leftovers to the nearest centroid."""
    free = list(range(table.records))
    classes: list[list[int]] = []

    def distance(one: int, other: int) -> float:
        return box_loss(table, [one, other])

    while len(free) >= k:
        if spread and classes:
            centroid = first_least(free, lambda row: -min(distance(row, rows[0]) for rows in classes))
        else:
            centroid = free[pick(len(free))]
        rows = [centroid]
        free.remove(centroid)
        while len(rows) < k:
            rows.append(first_least(free, lambda row, centroid=centroid: distance(centroid, row)))
            free.remove(rows[-1])
        classes.append(rows)
    centroids = [rows[0] for rows in classes]
    for row in free:
        number = first_least(list(range(len(centroids))), lambda c, row=row: distance(centroids[c], row))
        classes[number].append(row)
    return classes


def value_distance(table, row: int, rows: list[int]) -> float:
    """From the mean of some rows: numbers, at most the weight; values by the share of rows that lack them.

    In a hierarchy the mean over the rows of what the node above both costs.
    """
    weights = (table.weights / table.weights.sum()).tolist()
    dn = table.numeric.shape[1]
    total = 0.0
    for j in range(dn):
        if table.heights and table.heights[j] is not None:
            met = [naive.ncp(table, [row, other])[j] for other in rows]
            total += weights[j] * sum(met) / len(met)
            continue
        # A null sits three domains away, as in features.
        value, *others = (
            3.0 if math.isnan(table.numeric[r, j]) else float(table.numeric[r, j]) for r in [row, *rows]
        )
        total += weights[j] * min(abs(value - sum(others) / len(others)), 1.0)
    for j in range(table.categorical.shape[1]):
        have = sum(table.categorical[other, j] == table.categorical[row, j] for other in rows)
        price = weights[dn + j] / max(int(table.cardinality[j]) - 1, 1)
        total += price * (1 - have / len(rows))
    return total


def oka(table, k: int, shuffled: Callable[[list[int]], list[int]]) -> list[list[int]]:
    """Lin & Wei 2008: one pass over random seeds, then classes shed down to k and absorb."""
    order = shuffled(list(range(table.records)))
    count = table.records // k
    classes = [[row] for row in order[:count]]
    for row in order[count:]:
        number = first_least(list(range(count)), lambda c, row=row: value_distance(table, row, classes[c]))
        classes[number].append(row)
    centres = [list(rows) for rows in classes]
    outside = []
    for number, rows in enumerate(classes):
        while len(rows) > k:
            ranked = sorted(rows, reverse=True)
            furthest = first_least(
                ranked, lambda row, number=number: -value_distance(table, row, centres[number])
            )
            rows.remove(furthest)
            outside.append(furthest)
    for row in shuffled(sorted(outside)):
        needy = [c for c in range(count) if len(classes[c]) < k] or list(range(count))
        number = first_least(needy, lambda c, row=row: value_distance(table, row, centres[c]))
        classes[number].append(row)
    return classes


def mondrian(table, rows: list[int], k: int, *, relaxed: bool) -> list[list[int]]:
    """LeFevre et al. 2006, by recursion; numbers ascend, nulls last; categories stand by frequency among ``rows``."""
    weights = (table.weights / table.weights.sum()).tolist()
    dn = table.numeric.shape[1]

    def heights(j: int):
        return table.heights[j] if j < dn and table.heights else None

    def values(j: int, row: int) -> float:
        if j >= dn:
            return float(table.categorical[row, j - dn])
        return math.inf if math.isnan(table.numeric[row, j]) else float(table.numeric[row, j])

    def width(j: int) -> float:
        if j >= dn:
            price = weights[j] / max(int(table.cardinality[j - dn]) - 1, 1)
            return (len({values(j, row) for row in rows}) - 1) * price
        return weights[j] * naive.ncp(table, rows)[j]

    def numbers_then_place(row: int) -> tuple[float, ...]:
        return (*(values(j, row) for j in range(dn) if heights(j) is None), float(row))

    def meet(j: int, group: list[int]) -> float:
        """Of a hierarchy the NCP of the node above some rows; without one any two values meet at the root."""
        if heights(j) is not None:
            return naive.ncp(table, group)[j]
        return float(len({values(j, row) for row in group}) > 1)

    def by_frequency(j: int, below: list[int]) -> list[int]:
        if meet(j, below) == 0.0:
            return below
        children: list[list[int]] = []
        for row in below:
            for child in children:
                if meet(j, [child[0], row]) < meet(j, below):
                    child.append(row)
                    break
            else:
                children.append([row])
        children.sort(key=lambda child: (-len(child), min(map(numbers_then_place, child))))
        return [row for child in children for row in by_frequency(j, child)]

    if len(rows) >= 2 * k:
        left = list(range(table.attributes))
        while left:
            j = first_least(left, lambda attribute: -width(attribute))
            left.remove(j)
            ranked = sorted(rows, key=lambda row, j=j: values(j, row))
            if j >= dn or heights(j) is not None:
                ranked = by_frequency(j, rows)
            median = values(j, ranked[(len(rows) - 1) // 2])
            cut = len(rows) // 2
            if not relaxed:
                cut = max(place for place, row in enumerate(ranked) if values(j, row) == median) + 1
            if (relaxed or width(j) > 0) and min(cut, len(rows) - cut) >= k:
                sides = ranked[:cut], ranked[cut:]
                return [part for side in sides for part in mondrian(table, side, k, relaxed=relaxed)]
    return [rows]
