"""The starts of the graph search by name: each builds a legal graph over units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.hierarchy_levels import Lattice
from kanonflow.solvers.problem.limits import ANYTHING, Limits
from kanonflow.solvers.rivals import greedy, hungarian, sort_greedy, split_and_carry
from kanonflow.solvers.rivals.factor_search import SWEEPS_PER_PLACE, factor_search
from kanonflow.solvers.rivals.ring import ring_members
from kanonflow.solvers.search.slots import build_slots
from kanonflow.solvers.shapes.clusterings import (
    CLUSTERINGS,
    LARGEST_QUADRATIC,
    SUBQUADRATIC,
    clustered_members,
)
from kanonflow.solvers.shapes.lattices import LATTICE_SOLVERS
from kanonflow.solvers.shapes.level_classes import LEVEL_STARTS
from kanonflow.solvers.starts.circulant import constructive_members
from kanonflow.solvers.starts.dense_first import dense_first_members
from kanonflow.solvers.starts.insertion import insertion_members
from kanonflow.solvers.starts.kd_leaves import kd_leaf_members
from kanonflow.solvers.starts.l_greedy_tree import l_greedy_members
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import KdTree, slot_tour


class StartInput(NamedTuple):
    """What a start is built from.

    tree: over the units. distinct: whether a slot may hold an individual once only. seed: of starts that draw.
    reach: float64 (u,), pair loss to the last of each unit's near neighbours (infinite when it has too few).
    lattice: of the table's rows, None where they have no hierarchies.
    """

    units: Units
    tree: KdTree
    k: int
    distinct: bool
    seed: int
    reach: NDArray[np.float64]
    lattice: Lattice | None = None


@dataclass(frozen=True)
class GraphStart:
    """build: slots over units, int32 (n, k). limits: what it takes.

    A start that cannot serve a table raises InfeasibleError; one that is not made for such tables at all (too large, or
    of attributes that it does not know) raises UnservedError.
    """

    build: Callable[[StartInput], NDArray[np.int32]]
    limits: Limits = ANYTHING


def _members(name: str, given: StartInput) -> NDArray[np.int32]:
    return clustered_members(
        given.units,
        name,
        given.k,
        given.seed,
        distinct=given.distinct,
        lattice=given.lattice if name in LEVEL_STARTS else None,
        tree=given.tree,
    )


def _dense_first(given: StartInput) -> NDArray[np.int32]:
    return dense_first_members(given.units, given.tree, given.reach, given.k, distinct=given.distinct)


def _factor_searched(given: StartInput) -> NDArray[np.int32]:
    """The dense-first graph after so many sweeps of assignments: a method of its own, and a start."""
    slots = build_slots(given.units, _dense_first(given))
    tour = slot_tour(slots.members, given.tree.order)
    factor_search(given.units, slots, tour, sweeps=SWEEPS_PER_PLACE * given.k, seed=given.seed)
    return slots.members


def _clustering(name: str) -> GraphStart:
    limits = ANYTHING if name in SUBQUADRATIC else Limits(rows=LARGEST_QUADRATIC)
    return GraphStart(partial(_members, name), limits)


BUILT_STARTS: dict[str, GraphStart] = {
    "kd-leaves": GraphStart(lambda given: kd_leaf_members(given.units, given.k, distinct=given.distinct)),
    "l-greedy": GraphStart(
        lambda given: l_greedy_members(given.units, given.tree, given.k, distinct=given.distinct)
    ),
    "dense-first": GraphStart(_dense_first),
    "factor-search": GraphStart(_factor_searched),
    "constructive": GraphStart(
        lambda given: constructive_members(given.units, given.k, distinct=given.distinct)
    ),
    **{name: _clustering(name) for name in CLUSTERINGS},
    "ring": GraphStart(lambda given: ring_members(given.units, given.tree, given.k, distinct=given.distinct)),
    "greedy": GraphStart(
        lambda given: greedy.greedy_members(given.units, given.k), Limits(rows=greedy.LARGEST_ROWS)
    ),
    "sort-greedy": GraphStart(
        lambda given: sort_greedy.sort_greedy_members(given.units, given.tree, given.k),
        Limits(rows=sort_greedy.LARGEST_ROWS),
    ),
    "sort-greedy-blocks": GraphStart(
        lambda given: sort_greedy.sort_greedy_members(
            given.units, given.tree, given.k, block_rows=sort_greedy.BLOCK_ROWS
        )
    ),
    "hungarian": GraphStart(
        lambda given: hungarian.hungarian_members(given.units, given.k), Limits(rows=hungarian.LARGEST_ROWS)
    ),
    "split-and-carry": GraphStart(
        lambda given: split_and_carry.split_and_carry_members(given.units, given.k, distinct=given.distinct),
        Limits(rows=split_and_carry.LARGEST_ROWS, k=split_and_carry.LARGEST_K, numeric_only=True),
    ),
    "insertion": GraphStart(
        lambda given: insertion_members(given.units, given.tree, given.k, distinct=given.distinct)
    ),
}
LEVELLED_STARTS: dict[str, GraphStart] = {
    name: GraphStart(partial(_members, name), LATTICE_SOLVERS[name].limits) for name in LEVEL_STARTS
}
"""Those that need a table with a lattice."""
