"""Which cohorts are near which: a tour past all of them, and of each the nearest by the hull of both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.features import WORD_BITS, Features, value_prices
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.kd_tree import LEAF, build_tree
from kanonflow.solvers.units.leaf_orders import build_orders
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


def _middles(table: Table, people: Individuals) -> Features:
    """Each cohort as a point: the middle of its box, and of each categorical attribute its least value.

    The leaves that occur are those of the cohorts' first corners.
    """
    by_cohort = np.argsort(people.of_row, kind="stable")
    begins = np.searchsorted(people.of_row[by_cohort], np.arange(people.rows.size))
    least = np.minimum.reduceat(table.categorical[by_cohort], begins)
    orders = None
    if table.hierarchical:
        first = table.numeric[by_cohort[begins]]
        orders = build_orders(first, table.heights, people.numeric_weight)[1]
    prices = value_prices(table)
    return Features(
        numeric=(people.low + people.high) / 2,
        numeric_weight=people.numeric_weight,
        words=np.empty((least.shape[0], 0), dtype=np.uint64),
        bit_weight=np.empty((0, WORD_BITS)),
        wide=least,
        wide_weight=prices,
        codes=least,
        code_weight=prices,
        orders=orders,
    )


def near_cohorts(table: Table, people: Individuals) -> tuple[NearCohorts, int]:
    """The lists, and how many pairs were looked at for them: a function of the boxes alone. O(c log^2 c).

    The tour is that of a k-d tree over the middles of the boxes, and the least value of each categorical attribute.
    """
    c = people.rows.size
    each, everybody = np.ones(c, dtype=np.int64), np.arange(c)
    tour = everybody
    if c > LEAF:
        tour = build_tree(_middles(table, people), each.astype(np.int32), everybody).order
    place = np.empty(c, dtype=np.int64)
    place[tour] = everybody
    nearest, looked = nearest_people(
        people._replace(rows=each), tour, min(NEIGHBOURS, c - 1), most=MOST_PAIRS
    )
    return NearCohorts(tour, place, nearest), looked
