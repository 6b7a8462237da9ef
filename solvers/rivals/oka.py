"""OKA: one pass of k-means over random seeds, then classes above k shed and classes below absorb (Lin & Wei 2008).

The centroid of a class is the mean of its members: numbers average, and of each categorical value the share of members
who have it. A unit lies ``|x - mean|`` (at most the attribute's weight) away in a numeric attribute and
``price (1 - share)`` in a categorical one, for each value it has: what a random member would add to its hull. Leaves
of a hierarchy have no mean either: there it is the mean cost of the nodes above the unit's leaf and each member's,
kept for every leaf of every class. A unit with several leaves stands at the middle one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError, UnservedError
from kanonflow.solvers.rivals.leftovers import Mates, bar_classes, group_mates
from kanonflow.solvers.units.bits import lowest_bit, next_random
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost

# Shares of all values of all classes that are held at once: 2^27 numbers are 1 GiB.
LARGEST_SHARES = 2**27


class Leaves(NamedTuple):
    """Of u units: number int64 (u, dn), the leaf of each hierarchy, -1 in numbers. first: int64 (dn + 1,), where the
    leaves of an attribute begin among all L. scale: float64 (dn,), leaves to a unit of the coordinate."""

    number: NDArray[np.int64]
    first: NDArray[np.int64]
    scale: NDArray[np.float64]


class Centroids(NamedTuple):
    """c classes. mean: float64 (c, dn). share: float64 (c, 64 W), of each value's bit. size: int64 (c,).

    meeting: float64 (c, L), of each leaf the mean cost of the nodes above it and the members'.
    """

    mean: NDArray[np.float64]
    share: NDArray[np.float64]
    size: NDArray[np.int64]
    meeting: NDArray[np.float64]


@kernel(inner=True)
def _distance(
    people: Individuals, leaves: Leaves, centroids: Centroids, number: int, unit: int, limit: float
) -> float:
    """The distance of a unit from a centroid; something of at least ``limit`` once it is that much."""
    total = 0.0
    for j in range(people.numeric_weight.size):
        if leaves.number[unit, j] >= 0:
            total += centroids.meeting[number, leaves.first[j] + leaves.number[unit, j]]
            continue
        middle = (people.low[unit, j] + people.high[unit, j]) / 2
        total += min(abs(middle - centroids.mean[number, j]), people.numeric_weight[j])
    for index in range(people.touched.shape[1]):
        w = people.touched[unit, index]
        if w >= 0:
            word = people.words[unit, w]
            while word and total < limit:
                bit = lowest_bit(word)
                total += people.bit_weight[w, bit] * (1.0 - centroids.share[number, 64 * w + bit])
                word &= word - np.uint64(1)
    return total


@kernel(inner=True)
def _include(people: Individuals, leaves: Leaves, centroids: Centroids, number: int, unit: int) -> None:
    """A unit moves the centroid of the class that it joins."""
    centroids.size[number] += 1
    step = 1.0 / centroids.size[number]
    for j in range(people.numeric_weight.size):
        if leaves.number[unit, j] >= 0:
            here = leaves.number[unit, j] / leaves.scale[j]
            for leaf in range(leaves.first[j + 1] - leaves.first[j]):
                there = leaf / leaves.scale[j]
                cost = range_cost(
                    people.orders, people.numeric_weight[j], j, min(here, there), max(here, there)
                )
                column = leaves.first[j] + leaf
                centroids.meeting[number, column] += (cost - centroids.meeting[number, column]) * step
            continue
        middle = (people.low[unit, j] + people.high[unit, j]) / 2
        centroids.mean[number, j] += (middle - centroids.mean[number, j]) * step
    for column in range(centroids.share.shape[1]):
        centroids.share[number, column] *= 1.0 - step
    for w in range(people.words.shape[1]):
        word = people.words[unit, w]
        while word:
            centroids.share[number, 64 * w + lowest_bit(word)] += step
            word &= word - np.uint64(1)


@kernel(inner=True)
def _nearest(
    people: Individuals,
    leaves: Leaves,
    centroids: Centroids,
    barred: np.ndarray,
    unit: int,
    size: np.ndarray,
    below: int,
) -> int:
    """The class of the nearest centroid among those of fewer than ``below`` units that are not barred; -1 for none."""
    best = np.inf
    found = -1
    for number in range(size.size):
        if size[number] >= below or barred[number] == unit:
            continue
        distance = _distance(people, leaves, centroids, number, unit, best)
        if distance < best:
            best = distance
            found = number
    return found


@kernel(inner=True)
def _shuffle(values: np.ndarray, random: np.ndarray) -> None:
    for last in range(values.size - 1, 0, -1):
        other = next_random(random, last + 1)
        values[last], values[other] = values[other], values[last]


@kernel(inner=True)
def _shed(
    people: Individuals, leaves: Leaves, centroids: Centroids, k: int, size: np.ndarray, labels: np.ndarray
) -> int:
    """Take the furthest out of classes above k; their label becomes -1. Returns how many."""
    order = np.argsort(labels, kind="mergesort")
    shed = 0
    begin = 0
    for number in range(size.size):
        members = order[begin : begin + size[number]]
        begin += size[number]
        if members.size > k:
            distance = np.empty(members.size)
            for position in range(members.size):
                distance[position] = _distance(people, leaves, centroids, number, members[position], np.inf)
            # Of equals the later ones leave.
            for position in np.argsort(distance, kind="mergesort")[k:]:
                labels[members[position]] = -1
                shed += 1
            size[number] = k
    return shed


@kernel(inner=True)
def _absorb(
    people: Individuals,
    leaves: Leaves,
    who: np.ndarray,
    mates: Mates,
    k: int,
    centroids: Centroids,
    size: np.ndarray,
    labels: np.ndarray,
) -> int:
    """A class that is still below k takes the nearest unit of a larger one whose individual it lacks.

    Needed only where an individual has several units. Returns the number of classes that stay below k.
    """
    failures = 0
    for number in range(size.size):
        while size[number] < k:
            best = np.inf
            found = -1
            for unit in range(labels.size):
                if size[labels[unit]] <= k:
                    continue
                here = False
                for index in range(mates.first[who[unit]], mates.first[who[unit] + 1]):
                    here = here or labels[mates.order[index]] == number
                distance = np.inf if here else _distance(people, leaves, centroids, number, unit, best)
                if distance < best:
                    best = distance
                    found = unit
            if found < 0:
                failures += 1
                break
            size[labels[found]] -= 1
            labels[found] = number
            size[number] += 1
    return failures


@kernel
def _oka(
    people: Individuals,
    leaves: Leaves,
    who: np.ndarray,
    mates: Mates,
    k: int,
    random: np.ndarray,
    centroids: Centroids,
    labels: np.ndarray,
) -> int:
    """Returns the number of units that no class may take, or else of classes that stay below k."""
    u, classes = labels.size, centroids.size.size
    barred = np.full(classes, -1, dtype=np.int64)
    order = np.arange(u)
    _shuffle(order, random)
    for number in range(classes):
        labels[order[number]] = number
        _include(people, leaves, centroids, number, order[number])
    failures = 0
    for position in range(classes, u):
        unit = order[position]
        bar_classes(mates, who, labels, barred, unit, unit)
        found = _nearest(people, leaves, centroids, barred, unit, centroids.size, u + 1)
        if found < 0:
            failures += 1
            continue
        labels[unit] = found
        _include(people, leaves, centroids, found, unit)
    if failures:
        return failures
    size = centroids.size.copy()
    _shed(people, leaves, centroids, k, size, labels)
    outside = np.flatnonzero(labels < 0)
    _shuffle(outside, random)
    below = (size < k).sum()
    for unit in outside:
        bar_classes(mates, who, labels, barred, unit, unit)
        found = _nearest(people, leaves, centroids, barred, unit, size, k) if below else -1
        if found < 0:
            found = _nearest(people, leaves, centroids, barred, unit, size, u + 1)
        if found < 0:
            failures += 1
            continue
        labels[unit] = found
        size[found] += 1
        if size[found] == k:
            below -= 1
    return failures if failures else _absorb(people, leaves, who, mates, k, centroids, size, labels)


def _leaves_of(people: Individuals) -> Leaves:
    """Where units stand in the hierarchies among their attributes with ends."""
    number = np.full(people.low.shape, -1, dtype=np.int64)
    dn = people.numeric_weight.size
    size, scale = np.zeros(dn, dtype=np.int64), np.zeros(dn)
    if people.orders is not None:
        size, scale = people.orders.size, people.orders.scale
        trees = size > 0
        middle = (people.low[:, trees] + people.high[:, trees]) / 2
        number[:, trees] = np.floor(middle * scale[trees] + 0.5)
    return Leaves(number, np.concatenate([[0], np.cumsum(size)]).astype(np.int64), scale)


def oka_labels(people: Individuals, who: NDArray[np.int64], k: int, seed: int) -> NDArray[np.int32]:
    """Closed classes of at least k, int32 (u,).

    floor(u / k) random seeds; the other units in random order each join the class of the nearest centroid, which
    follows them. Then a class above k sheds its furthest, and each of those, in random order, joins the nearest class
    below k while there is one, else the nearest; centroids stay where they are. who: int64 (u,), the individual of
    each unit, codes from 0; no class holds one twice.

    Raises InfeasibleError when there are fewer than k individuals or some unit fits nowhere, UnservedError when the
    shares of all values in all classes would take more than 1 GiB. O(u^2 d / k). Source: Lin & Wei 2008.
    """
    u = people.rows.size
    if u < k:
        raise InfeasibleError(f"fewer than k={k} individuals")
    leaves = _leaves_of(people)
    classes, bits, places = u // k, people.bit_weight.size, int(leaves.first[-1])
    if classes * (bits + places) > LARGEST_SHARES:
        raise UnservedError(
            f"oka keeps the share of each of {bits + places} values in each of {classes} classes, more than "
            f"{LARGEST_SHARES}: take a larger k, fewer rows, or k-member"
        )
    centroids = Centroids(
        mean=np.zeros((classes, people.low.shape[1])),
        share=np.zeros((classes, bits)),
        size=np.zeros(classes, dtype=np.int64),
        meeting=np.zeros((classes, places)),
    )
    labels = np.full(u, -1, dtype=np.int32)
    random = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    if _oka(people, leaves, who, group_mates(who), k, random, centroids, labels):
        raise InfeasibleError("oka leaves a row over that no class may take")
    return labels
