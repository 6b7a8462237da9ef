"""Which cohorts are near which: a tour past all of them, and of each the nearest by the hull of both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.features import build_features
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.nearest_people import nearest_people

NEIGHBOURS = 16
# Pairs looked at for one cohort: with boxes as wide as the domain the tree leaves nobody out.
MOST_PAIRS = 1000


class NearCohorts(NamedTuple):
    """tour: int64 (c,), near cohorts follow each other. place: int64 (c,), of each cohort on it.

    nearest: int32 (c, m), nearest first, -1 for none.
    """

    tour: NDArray[np.int64]
    place: NDArray[np.int64]
    nearest: NDArray[np.int32]


def near_cohorts(table: Table, people: Individuals) -> tuple[NearCohorts, int]:
    """The lists, and how many pairs were looked at for them: a function of the boxes alone. O(c log^2 c).

    The tour is that of a k-d tree over the middles of the boxes, and the least value of each categorical attribute.
    """
    c = people.rows.size
    least = np.repeat(table.cardinality[None, :].astype(np.int32), c, axis=0)
    np.minimum.at(least, people.of_row, table.categorical)
    _, first = np.unique(people.of_row, return_index=True)
    features = build_features(table, first.astype(np.int64), narrow_limit=0)
    features = features._replace(
        numeric=(people.low + people.high) / 2, wide=least, codes=least
    )
    each = np.ones(c, dtype=np.int64)
    tour = build_tree(features, each.astype(np.int32), np.arange(c)).order.astype(np.int64)
    place = np.empty(c, dtype=np.int64)
    place[tour] = np.arange(c)
    nearest, looked = nearest_people(
        people._replace(rows=each), tour, min(NEIGHBOURS, c - 1), most=MOST_PAIRS
    )
    return NearCohorts(tour, place, nearest), looked
