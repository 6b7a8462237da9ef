"""Stars: a clustering as one point that a population method moves (S4, 3.2 and 3.4).

A star is the class id of each unit. Ids carry no meaning, so ``X + rand (X_BH - X)`` (S4, eq. 10) has none on them as
printed. Here a star's ids are first renamed to those of the black hole with which they share most units; then each unit
takes the black hole's id with probability ``rand``, which is eq. 10 in expectation; then classes below k are mended.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.rivals.leftovers import join_cheapest, join_random
from kanonflow.solvers.rivals.ncp_clustering import ncp_clustering_labels
from kanonflow.solvers.units.individuals import Individuals, part_of_people

# Above this the best assignment of ids takes longer than a clustering; pairs of most common units are taken instead.
LARGEST_ASSIGNMENT = 1000

Mend = Callable[[NDArray[np.int32], int], NDArray[np.int32]]


def aligned(labels: NDArray[np.int32], target: NDArray[np.int32]) -> NDArray[np.int32]:
    """``labels`` renamed so that they agree with ``target`` for as many units as possible; int32 (u,), -1 stays.

    Exact up to 1,000 classes, greedy above; an id without a partner gets one that the target does not use.
    O(classes^3), O(u log u) above.
    """
    classes, wanted = int(labels.max(initial=-1)) + 1, int(target.max(initial=-1)) + 1
    both = (labels >= 0) & (target >= 0)
    pairs, common = np.unique(labels[both].astype(np.int64) * wanted + target[both], return_counts=True)
    own, other = pairs // max(wanted, 1), pairs % max(wanted, 1)
    name = np.full(classes, -1, dtype=np.int64)
    if max(classes, wanted) <= LARGEST_ASSIGNMENT:
        overlap = np.zeros((classes, wanted))
        overlap[own, other] = common
        # Loaded here: it takes half a second, and few solvers want it.
        from scipy.optimize import linear_sum_assignment

        rows, columns = linear_sum_assignment(overlap, maximize=True)
        name[rows] = columns
    else:
        taken = np.zeros(wanted, dtype=np.bool_)
        for index in np.argsort(-common, kind="stable"):
            if name[own[index]] < 0 and not taken[other[index]]:
                name[own[index]] = other[index]
                taken[other[index]] = True
    alone = np.flatnonzero(name < 0)
    name[alone] = wanted + np.arange(alone.size)
    return np.where(labels >= 0, name[np.maximum(labels, 0)] if classes else -1, -1).astype(np.int32)


def moved(
    labels: NDArray[np.int32], target: NDArray[np.int32], generator: np.random.Generator
) -> NDArray[np.int32]:
    """The aligned star after a step: each unit takes the target's id with one random probability. Not yet mended."""
    share = generator.random()
    return np.where(generator.random(labels.size) < share, target, aligned(labels, target))


def moved_as_printed(
    labels: NDArray[np.int32], target: NDArray[np.int32], generator: np.random.Generator
) -> NDArray[np.int32]:
    """Eq. 10 on the ids themselves, rounded and clamped to the ids of both stars."""
    step = labels + generator.random() * (target.astype(np.float64) - labels)
    last = max(labels.max(initial=0), target.max(initial=0))
    return np.clip(np.rint(step), 0, last).astype(np.int32)


def dissolved(
    labels: NDArray[np.int32], who: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Dense labels of the classes that stand, -1 outside, and the units outside.

    Of an individual's units in one class the first stays; a class that then has fewer than k stands no more.
    """
    inside = np.flatnonzero(labels >= 0)
    keys = labels[inside].astype(np.int64) * (int(who.max(initial=0)) + 1) + who[inside]
    standing = inside[np.unique(keys, return_index=True)[1]]
    sizes = np.bincount(labels[standing], minlength=1)
    standing = standing[sizes[labels[standing]] >= k]
    dense = np.full(labels.size, -1, dtype=np.int32)
    dense[standing] = np.unique(labels[standing], return_inverse=True)[1]
    return dense, np.flatnonzero(dense < 0)


def mended_by_clustering(
    people: Individuals, who: NDArray[np.int64], k: int, labels: NDArray[np.int32], seed: int
) -> NDArray[np.int32]:
    """Closed classes of at least k: who stands in none is clustered by NCP; fewer than k join where it costs least.

    Raises InfeasibleError when a unit of an individual fits nowhere.
    """
    dense, outside = dissolved(labels, who, k)
    _, own = np.unique(who[outside], return_inverse=True)
    if int(own.max(initial=-1)) + 1 >= k:
        fresh = ncp_clustering_labels(part_of_people(people, outside), own.astype(np.int64), k, seed)
        dense[outside] = fresh + int(dense.max(initial=-1)) + 1
    else:
        join_cheapest(people, who, dense, outside)
    return dense


def mended_at_random(
    who: NDArray[np.int64], k: int, labels: NDArray[np.int32], seed: int
) -> NDArray[np.int32]:
    """Closed classes of at least k: who stands in none joins a random class; without any class, all form one.

    Raises InfeasibleError when a unit of an individual fits nowhere.
    """
    dense, outside = dissolved(labels, who, k)
    join_random(who, dense, max(int(dense.max(initial=-1)) + 1, 1), outside, seed)
    return dense
