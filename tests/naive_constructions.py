"""Slow, literal twins of the heterogeneous constructions (solvers/rivals: greedy, sort_greedy, hungarian)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.distinct_rows import Units
from tests import naive
from tests.mixed_tables import unit_rows

Matching = dict[int, int]
# (price of source i on slot j, or infinity; n) -> the slot of each source, None if there is no assignment
Round = Callable[[Callable[[int, int], float], int], Matching | None]


def sorted_sources(table: Table, units: Units) -> list[int]:
    """The unit of each row, by its values: the attribute of fewest values first, a null after all numbers."""
    rows = unit_rows(units)
    columns = [
        [math.inf if math.isnan(value) else value for value in column[rows].tolist()]
        for column in table.numeric.T
    ]
    columns += [column[rows].tolist() for column in table.categorical.T]
    columns.sort(key=lambda column: len(set(column)))
    order = sorted(range(len(rows)), key=lambda unit: ([column[unit] for column in columns], unit))
    return [unit for unit in order for _ in range(units.weight[unit])]


def build(table: Table, units: Units, k: int, one_round: Round) -> list[list[int]] | None:
    """The identity, then k - 1 rounds; each slot as a list of units. None if a round finds no assignment."""
    rows = unit_rows(units)
    sources = sorted_sources(table, units)
    slots = [[unit] for unit in sources]
    for _ in range(k - 1):
        before = [naive.box_loss(table, [rows[unit] for unit in slot]) for slot in slots]

        def price(i: int, j: int, before: list[float] = before) -> float:
            joined = [*slots[j], sources[i]]
            if not naive.may_stand_together(units, joined):
                return math.inf
            return naive.box_loss(table, [rows[unit] for unit in joined]) - before[j]

        matching = one_round(price, len(slots))
        if matching is None:
            return None
        for source, slot in matching.items():
            slots[slot].append(sources[source])
    return slots


def greedy_round(price: Callable[[int, int], float], n: int) -> Matching | None:
    """S2, Algorithm 1."""
    matching: Matching = {}
    for i in range(n):
        free = [j for j in range(n) if j not in matching.values() and price(i, j) < math.inf]
        if free:
            matching[i] = min(free, key=lambda j: (price(i, j), j))
        elif not _repair(price, n, matching, i, list(range(i - 1, -1, -1))):
            return None
    return matching


def sort_greedy_round(price: Callable[[int, int], float], n: int) -> Matching | None:
    """S2, Algorithm 2: all edges, sorted."""
    edges = sorted((price(i, j), i, j) for i in range(n) for j in range(n))
    matching: Matching = {}
    for weight, i, j in edges:
        if weight < math.inf and i not in matching and j not in matching.values():
            matching[i] = j
    for i in range(n):
        if i not in matching:
            near = [other for step in range(1, n) for other in (i - step, i + step) if 0 <= other < n]
            if not _repair(price, n, matching, i, near):
                return None
    return matching


def _repair(
    price: Callable[[int, int], float], n: int, matching: Matching, i: int, others: list[int]
) -> bool:
    """The first other source whose slot i may take and that may take a free one; else an augmenting path."""
    for other in others:
        if other not in matching or price(i, matching[other]) == math.inf:
            continue
        free = [m for m in range(n) if m not in matching.values() and price(other, m) < math.inf]
        if free:
            matching[i] = matching[other]
            matching[other] = min(free, key=lambda m: (price(other, m), m))
            return True
    return _augment(price, n, matching, i)


def _augment(price: Callable[[int, int], float], n: int, matching: Matching, i: int) -> bool:
    """Breadth first: paths of exchanges, kept whole, until one ends at a free slot."""
    paths: list[list[tuple[int, int]]] = [[]]
    ends = [i]
    seen: set[int] = set()
    while paths:
        path, source = paths.pop(0), ends.pop(0)
        for j in range(n):
            if j in seen or matching.get(source) == j or price(source, j) == math.inf:
                continue
            seen.add(j)
            longer = [*path, (source, j)]
            holder = [other for other, slot in matching.items() if slot == j]
            if not holder:
                matching.update(dict(longer))
                return True
            paths.append(longer)
            ends.append(holder[0])
    return False


def least_assignment(price: Callable[[int, int], float], n: int) -> float:
    """Cost of the best assignment of n sources to n slots, by trying all of them."""
    return min(sum(price(i, j) for i, j in enumerate(slots)) for slots in itertools.permutations(range(n)))


def exact_table(seed: int, n: int, *, people: int | None = None, kinds: int | None = None) -> Table:
    """A mixed table whose losses are dyadic fractions, so that sums in any order are equal and ties are ties."""
    rng = np.random.default_rng(seed)
    count = n if kinds is None else kinds
    cardinality = np.array([(3, 5), (5, 65), (2, 129)][seed % 3])
    chosen = np.arange(n) if kinds is None else rng.integers(0, kinds, n)
    numbers = rng.integers(0, 9, (count, 2)) / 8
    numbers[rng.random((count, 2)) < 0.1] = np.nan
    codes = np.stack([rng.integers(0, min(size, 5), count) for size in cardinality], axis=1)
    owners = None
    if people is not None:
        owners = rng.permutation(np.arange(n) % people).astype(np.int64)
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [1.0, 4.0, 1.0, 2.0]][seed % 2])
    return Table(numbers[chosen], codes[chosen].astype(np.int32), cardinality, weights, owners)
