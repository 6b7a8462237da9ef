"""The units of closed classes: individuals, each with the hull and the number of its rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.features import WORD_BITS, Features, build_features, value_prices
from kanonflow.solvers.units.leaf_orders import LeafOrders, range_cost
from kanonflow.solvers.units.numbering import numbered


class Individuals(NamedTuple):
    """u individuals of n rows.

    low, high: float64 (u, dn), weighted coordinates of the hull of an individual's rows.
    words: uint64 (u, W), its categorical values; touched: int32 (u, t), the words where it has any, then -1.
    numeric_weight: float64 (dn,). bit_weight: float64 (W, 64), price of each value; first_value: float64 (1,),
    price of one value of every attribute, which each box has for free.
    rows: int64 (u,), row counts. of_row: int64 (n,), the individual of each row, numbered as in the sorted distinct
    ``Table.individuals``. orders: the hierarchies among the numeric attributes, None when there are none.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    words: NDArray[np.uint64]
    touched: NDArray[np.int32]
    numeric_weight: NDArray[np.float64]
    bit_weight: NDArray[np.float64]
    first_value: NDArray[np.float64]
    rows: NDArray[np.int64]
    of_row: NDArray[np.int64]
    orders: LeafOrders | None = None


@kernel
def _hulls(
    numeric: np.ndarray,
    row_words: np.ndarray,
    of_row: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    words: np.ndarray,
) -> None:
    for row in range(of_row.size):
        who = of_row[row]
        for j in range(numeric.shape[1]):
            low[who, j] = min(low[who, j], numeric[row, j])
            high[who, j] = max(high[who, j], numeric[row, j])
        for w in range(row_words.shape[1]):
            words[who, w] |= row_words[row, w]


def touched_words(words: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Indices of the non-zero words of each row, int32 (u, t), -1 after the last."""
    who, where = np.nonzero(words)
    counts = np.bincount(who, minlength=words.shape[0])
    touched = np.full((words.shape[0], int(counts.max(initial=0))), -1, dtype=np.int32)
    touched[who, np.arange(who.size) - np.repeat(np.cumsum(counts) - counts, counts)] = where
    return touched


def gather_individuals(table: Table) -> Individuals:
    """Individuals of a table; each row is its own when the table names none. O(n d)."""
    everything = np.arange(table.records)
    features = build_features(table, everything, narrow_limit=np.iinfo(np.int64).max)
    low = high = features.numeric
    words, of_row, rows = features.words, everything, np.ones(table.records, dtype=np.int64)
    if table.individuals is not None:
        _, of_row, rows = numbered(table.individuals)
        low = np.full((rows.size, low.shape[1]), np.inf)
        high = np.full(low.shape, -np.inf)
        words = np.zeros((rows.size, words.shape[1]), dtype=np.uint64)
        _hulls(features.numeric, features.words, of_row, low, high, words)
    return Individuals(
        low=low,
        high=high,
        words=words,
        touched=touched_words(words),
        numeric_weight=features.numeric_weight,
        bit_weight=features.bit_weight,
        first_value=np.array([features.code_weight.sum()]),
        rows=rows,
        of_row=of_row,
        orders=features.orders,
    )


def point_features(table: Table, people: Individuals) -> Features:
    """What ``build_features`` makes of the rows of individuals who have one each, in their order; most is there."""
    first = numbered(people.of_row).first
    if table.cardinality.max(initial=0) > WORD_BITS:
        return build_features(table, first)
    return Features(
        numeric=people.low,
        numeric_weight=people.numeric_weight,
        words=people.words,
        bit_weight=people.bit_weight,
        wide=np.empty((first.size, 0), dtype=np.int32),
        wide_weight=np.empty(0),
        codes=np.ascontiguousarray(table.categorical[first], dtype=np.int32),
        code_weight=value_prices(table),
        orders=people.orders,
    )


def part_of_people(people: Individuals, chosen: NDArray[np.int64]) -> Individuals:
    """Some of the individuals, as a table of their own."""
    return people._replace(
        low=people.low[chosen],
        high=people.high[chosen],
        words=people.words[chosen],
        touched=people.touched[chosen],
        rows=people.rows[chosen],
    )


@kernel(counting=False)
def hull_loss(people: Individuals, a: int, b: int) -> float:
    """NCP of the hull of two individuals' rows."""
    total = -people.first_value[0]
    for j in range(people.numeric_weight.size):
        low, high = min(people.low[a, j], people.low[b, j]), max(people.high[a, j], people.high[b, j])
        total += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    for index in range(people.touched.shape[1]):
        w = people.touched[a, index]
        if w >= 0:
            total += bits_cost(people.words[a, w], people.bit_weight, w)
    for index in range(people.touched.shape[1]):
        w = people.touched[b, index]
        if w >= 0:
            total += bits_cost(people.words[b, w] & ~people.words[a, w], people.bit_weight, w)
    return total


@kernel(counting=False)
def pair_class_loss(people: Individuals, a: int, b: int) -> float:
    """Loss per row of a class of two: as many rows of each as the other has share the hull, the others wait."""
    fewer = min(people.rows[a], people.rows[b])
    together = people.rows[a] + people.rows[b]
    return (2 * fewer * hull_loss(people, a, b) + together - 2 * fewer) / together


@kernel(inner=True, forceinline=True, counting=False)
def keep_nearest(nearest: np.ndarray, distance: np.ndarray, unit: int, other: int, gap: float) -> None:
    """Put somebody into the sorted list of a unit's m nearest, unless all m are as near.

    nearest: int32 (u, m), the list of ``unit`` is changed; distance: float64 (m,), of those in it, infinite at the end.
    """
    slot = distance.size - 1
    if gap >= distance[slot]:
        return
    while slot > 0 and distance[slot - 1] > gap:
        distance[slot] = distance[slot - 1]
        nearest[unit, slot] = nearest[unit, slot - 1]
        slot -= 1
    distance[slot] = gap
    nearest[unit, slot] = other
