"""The starts of the class search that packages bring: what they are given, and what they make of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.parameters import NO_PARAMETERS, Parameters
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.individuals import Individuals


class ClassStartProblem(NamedTuple):
    """table: rows as starts see them. people: the u individuals of them. seed: of starts that draw.

    old: int (u,), the class of each individual in the last window, -1 for newcomers; None: there was none.
    parameters: the task's.
    """

    table: Table
    people: Individuals
    k: int
    seed: int
    old: NDArray[np.int64] | None = None
    parameters: Parameters = NO_PARAMETERS


class StartedClasses(NamedTuple):
    """labels: int32 (u,), closed classes of at least k, -1: waits (only where individuals have several rows).

    warm: whether they come of the old classes. warm_loss, cold_loss: GCP of both beginnings, where there were two.
    """

    labels: NDArray[np.int32]
    warm: bool = False
    warm_loss: float | None = None
    cold_loss: float | None = None


# Raises InfeasibleError for a table that it cannot group, UnservedError for one that it is not made for.
ClassStart = Callable[[ClassStartProblem], StartedClasses]


def cut_large_classes(labels: NDArray[np.int32], tour: NDArray[np.int64], k: int) -> NDArray[np.int32]:
    """Labels int32 (u,): a class of s >= 2k is cut along the tour into floor(s / k) of at least k. O(u log u).

    No loss is more by that, and the search keeps room for the largest class in every class.
    """
    inside = np.flatnonzero(labels >= 0)
    place = np.empty(tour.size, dtype=np.int64)
    place[tour] = np.arange(tour.size)
    order: NDArray[np.int64] = inside[np.lexsort((place[inside], labels[inside]))]
    sizes = np.bincount(labels[inside])
    parts = np.maximum(sizes // k, 1)
    own = labels[order]
    position = np.arange(order.size) - (np.cumsum(sizes) - sizes)[own]
    cut = np.full(labels.size, -1, dtype=np.int32)
    cut[order] = (np.cumsum(parts) - parts)[own] + position * parts[own] // sizes[own]
    return cut
