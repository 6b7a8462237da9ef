"""Who stands in no class yet joins one: the last fewer than k of a clustering, or those of a class taken apart.

No class takes two units of one individual. ``mates`` tells which units belong to an individual: ``order`` int64 (u,)
are the units grouped by individual, ``first`` int64 (people + 1,) where each group starts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.rivals.class_hulls import (
    ClassHulls,
    add_to_hull,
    class_rows_lost,
    hulls_of,
    joined_ncp,
    joined_share,
)
from kanonflow.solvers.units.bits import next_random
from kanonflow.solvers.units.individuals import Individuals, pair_class_loss


class Mates(NamedTuple):
    """The units of each individual; see the module."""

    order: NDArray[np.int64]
    first: NDArray[np.int64]


def group_mates(who: NDArray[np.int64]) -> Mates:
    """who: int64 (u,), codes from 0. O(u log u)."""
    order = np.argsort(who, kind="stable")
    return Mates(order, np.concatenate([[0], np.cumsum(np.bincount(who))]).astype(np.int64))


@kernel(inner=True)
def bar_classes(
    mates: Mates, who: np.ndarray, labels: np.ndarray, barred: np.ndarray, unit: int, mark: int
) -> None:
    """Write ``mark`` to the classes that hold the individual of ``unit``. barred: int64 (classes,)."""
    for index in range(mates.first[who[unit]], mates.first[who[unit] + 1]):
        label = labels[mates.order[index]]
        if label >= 0:
            barred[label] = mark


@kernel
def _join_cheapest(
    people: Individuals,
    who: np.ndarray,
    mates: Mates,
    hulls: ClassHulls,
    units: np.ndarray,
    may_wait: bool,
    labels: np.ndarray,
) -> int:
    barred = np.full(hulls.price.size, -1, dtype=np.int64)
    failures = 0
    for unit in units:
        bar_classes(mates, who, labels, barred, unit, unit)
        best = float(people.rows[unit]) if may_wait else np.inf
        found = -1
        for number in range(hulls.price.size):
            if barred[number] == unit or hulls.counts[number, 0] == 0:
                continue
            rows = hulls.counts[number, 1] + people.rows[unit]
            kept = joined_share(people, hulls, number, unit) * rows
            lost = kept * joined_ncp(people, hulls, number, unit) + rows - kept
            growth = lost - class_rows_lost(people, hulls, number)
            if growth < best:
                best = growth
                found = number
        if found >= 0:
            labels[unit] = found
            add_to_hull(people, hulls, found, unit)
        elif not may_wait:
            failures += 1
    return failures


def join_cheapest(
    people: Individuals, who: NDArray[np.int64], labels: NDArray[np.int32], units: NDArray[np.int64]
) -> None:
    """Each of ``units`` in turn joins the class whose loss grows least; changes ``labels``.

    Where individuals have several rows, one that costs a class more than its rows stays outside (-1: it waits).
    Raises InfeasibleError when no class may take a unit. O(units classes d).
    """
    if units.size == 0:
        return
    may_wait = bool((people.rows > 1).any())
    if _join_cheapest(people, who, group_mates(who), hulls_of(people, labels), units, may_wait, labels):
        raise InfeasibleError("a clustering leaves a row over that no class may take")


@kernel
def _join_nearest(
    people: Individuals,
    who: np.ndarray,
    mates: Mates,
    centroids: np.ndarray,
    units: np.ndarray,
    labels: np.ndarray,
) -> int:
    barred = np.full(centroids.size, -1, dtype=np.int64)
    failures = 0
    for unit in units:
        bar_classes(mates, who, labels, barred, unit, unit)
        best = np.inf
        found = -1
        for number in range(centroids.size):
            if barred[number] == unit:
                continue
            distance = pair_class_loss(people, unit, centroids[number])
            if distance < best:
                best = distance
                found = number
        if found >= 0:
            labels[unit] = found
        else:
            failures += 1
    return failures


def join_nearest(
    people: Individuals,
    who: NDArray[np.int64],
    labels: NDArray[np.int32],
    centroids: NDArray[np.int64],
    units: NDArray[np.int64],
) -> None:
    """Each of ``units`` joins the class of the nearest centroid, a unit itself; changes ``labels``.

    Raises InfeasibleError when no class may take a unit. O(units classes d).
    """
    if units.size and _join_nearest(people, who, group_mates(who), centroids, units, labels):
        raise InfeasibleError("a clustering leaves a row over that no class may take")


@kernel
def _join_random(
    who: np.ndarray, mates: Mates, classes: int, units: np.ndarray, random: np.ndarray, labels: np.ndarray
) -> int:
    barred = np.full(classes, -1, dtype=np.int64)
    failures = 0
    for unit in units:
        bar_classes(mates, who, labels, barred, unit, unit)
        first = next_random(random, classes)
        found = -1
        for step in range(classes):
            number = (first + step) % classes
            if found < 0 and barred[number] != unit:
                found = number
                break
        if found >= 0:
            labels[unit] = found
        else:
            failures += 1
    return failures


def join_random(
    who: NDArray[np.int64], labels: NDArray[np.int32], classes: int, units: NDArray[np.int64], seed: int
) -> None:
    """Each of ``units`` joins a random class (the next one that may take it); changes ``labels``.

    Raises InfeasibleError when no class may take a unit. O(units) when few are barred.
    """
    random = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    if units.size and _join_random(who, group_mates(who), classes, units, random, labels):
        raise InfeasibleError("a clustering leaves a row over that no class may take")
