"""Hulls of classes while a clustering builds them: what a class costs with one more individual, and altogether.

Loss of a class of size s, in rows: ``kept h + rows - kept`` with h the NCP of the hull of all its rows and
``kept = s min(rows of a member)``; the rows that are not kept wait, at 1 each. Where each row is its own individual
that is ``s h``, so that the loss of all classes over all rows is GCP.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost


class ClassHulls(NamedTuple):
    """c classes.

    low, high: float64 (c, dn), weighted coordinates; words: uint64 (c, W), values present. price: float64 (c,), what
    the values beyond the first of each attribute cost. counts: int64 (c, 3): members, rows of all members, rows of the
    member of fewest.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    words: NDArray[np.uint64]
    price: NDArray[np.float64]
    counts: NDArray[np.int64]


def empty_hulls(people: Individuals, classes: int) -> ClassHulls:
    """Hulls of classes without members."""
    dn, width = people.low.shape[1], people.words.shape[1]
    hulls = ClassHulls(
        low=np.empty((classes, dn)),
        high=np.empty((classes, dn)),
        words=np.empty((classes, width), dtype=np.uint64),
        price=np.empty(classes),
        counts=np.empty((classes, 3), dtype=np.int64),
    )
    clear_hulls(people, hulls)
    return hulls


@kernel
def clear_hulls(people: Individuals, hulls: ClassHulls) -> None:
    """Take every member out of every class."""
    hulls.low[:] = np.inf
    hulls.high[:] = -np.inf
    hulls.words[:] = np.uint64(0)
    hulls.price[:] = -people.first_value[0]
    hulls.counts[:, :2] = 0
    hulls.counts[:, 2] = np.iinfo(np.int64).max


@kernel(inner=True, forceinline=True)
def joined_ncp(people: Individuals, hulls: ClassHulls, number: int, unit: int) -> float:
    """NCP of a class's hull with ``unit`` in it. O(dn + values of the unit)."""
    loss = hulls.price[number]
    for j in range(people.numeric_weight.size):
        low = min(hulls.low[number, j], people.low[unit, j])
        high = max(hulls.high[number, j], people.high[unit, j])
        loss += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    for index in range(people.touched.shape[1]):
        w = people.touched[unit, index]
        if w >= 0:
            loss += bits_cost(people.words[unit, w] & ~hulls.words[number, w], people.bit_weight, w)
    return loss


@kernel(inner=True, forceinline=True)
def joined_share(people: Individuals, hulls: ClassHulls, number: int, unit: int) -> float:
    """Share of the rows of a class and ``unit`` that are kept when the unit joins, in (0, 1]."""
    fewest = min(hulls.counts[number, 2], people.rows[unit])
    return (hulls.counts[number, 0] + 1) * fewest / (hulls.counts[number, 1] + people.rows[unit])


@kernel(inner=True)
def add_to_hull(people: Individuals, hulls: ClassHulls, number: int, unit: int) -> None:
    """Make ``unit`` a member. O(dn + W)."""
    for j in range(people.numeric_weight.size):
        hulls.low[number, j] = min(hulls.low[number, j], people.low[unit, j])
        hulls.high[number, j] = max(hulls.high[number, j], people.high[unit, j])
    for w in range(hulls.words.shape[1]):
        new = people.words[unit, w] & ~hulls.words[number, w]
        hulls.price[number] += bits_cost(new, people.bit_weight, w)
        hulls.words[number, w] |= new
    hulls.counts[number, 0] += 1
    hulls.counts[number, 1] += people.rows[unit]
    hulls.counts[number, 2] = min(hulls.counts[number, 2], people.rows[unit])


@kernel(inner=True)
def hull_ncp(people: Individuals, hulls: ClassHulls, number: int) -> float:
    """NCP of the hull of a class that has members."""
    loss = hulls.price[number]
    for j in range(people.numeric_weight.size):
        weight = people.numeric_weight[j]
        loss += range_cost(people.orders, weight, j, hulls.low[number, j], hulls.high[number, j])
    return loss


@kernel(inner=True)
def class_rows_lost(people: Individuals, hulls: ClassHulls, number: int) -> float:
    """Loss of a class in rows, as the module has it; 0 without members."""
    size, rows = hulls.counts[number, 0], hulls.counts[number, 1]
    if size == 0:
        return 0.0
    kept = size * hulls.counts[number, 2]
    return kept * hull_ncp(people, hulls, number) + rows - kept


@kernel
def _fill(people: Individuals, hulls: ClassHulls, labels: np.ndarray) -> None:
    for unit in range(labels.size):
        if labels[unit] >= 0:
            add_to_hull(people, hulls, labels[unit], unit)


def hulls_of(people: Individuals, labels: NDArray[np.int32]) -> ClassHulls:
    """The hulls of labels int32 (u,), -1 outside. O(u (dn + W))."""
    hulls = empty_hulls(people, int(labels.max(initial=-1)) + 1)
    _fill(people, hulls, labels)
    return hulls


@kernel
def _all_lost(people: Individuals, hulls: ClassHulls) -> float:
    total = 0.0
    for number in range(hulls.price.size):
        total += class_rows_lost(people, hulls, number)
    return total


def labels_loss(people: Individuals, labels: NDArray[np.int32]) -> float:
    """Loss of all classes over all rows in [0, 1]; rows without a class count 1. O(u (dn + W))."""
    waiting = int(people.rows[labels < 0].sum())
    return (float(_all_lost(people, hulls_of(people, labels))) + waiting) / max(int(people.rows.sum()), 1)
