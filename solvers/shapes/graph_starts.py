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


class StartProblem(NamedTuple):
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

    build: Callable[[StartProblem], NDArray[np.int32]]
    limits: Limits = ANYTHING


def _members(name: str, problem: StartProblem) -> NDArray[np.int32]:
    return clustered_members(
        problem.units,
        name,
        problem.k,
        problem.seed,
        distinct=problem.distinct,
        lattice=problem.lattice if name in LEVEL_STARTS else None,
        tree=problem.tree,
    )


def _dense_first(problem: StartProblem) -> NDArray[np.int32]:
    return dense_first_members(
        problem.units, problem.tree, problem.reach, problem.k, distinct=problem.distinct
    )


def _factor_searched(problem: StartProblem) -> NDArray[np.int32]:
    """The dense-first graph after so many sweeps of assignments: a method of its own, and a start."""
    slots = build_slots(problem.units, _dense_first(problem))
    tour = slot_tour(slots.members, problem.tree.order)
    factor_search(problem.units, slots, tour, sweeps=SWEEPS_PER_PLACE * problem.k, seed=problem.seed)
    return slots.members


def _clustering(name: str) -> GraphStart:
    limits = ANYTHING if name in SUBQUADRATIC else Limits(rows=LARGEST_QUADRATIC)
    return GraphStart(partial(_members, name), limits)


BUILT_STARTS: dict[str, GraphStart] = {
    "kd-leaves": GraphStart(
        lambda problem: kd_leaf_members(problem.units, problem.k, distinct=problem.distinct)
    ),
    "l-greedy": GraphStart(
        lambda problem: l_greedy_members(problem.units, problem.tree, problem.k, distinct=problem.distinct)
    ),
    "dense-first": GraphStart(_dense_first),
    "factor-search": GraphStart(_factor_searched),
    "constructive": GraphStart(
        lambda problem: constructive_members(problem.units, problem.k, distinct=problem.distinct)
    ),
    **{name: _clustering(name) for name in CLUSTERINGS},
    "ring": GraphStart(
        lambda problem: ring_members(problem.units, problem.tree, problem.k, distinct=problem.distinct)
    ),
    "greedy": GraphStart(
        lambda problem: greedy.greedy_members(problem.units, problem.k), Limits(rows=greedy.LARGEST_ROWS)
    ),
    "sort-greedy": GraphStart(
        lambda problem: sort_greedy.sort_greedy_members(problem.units, problem.tree, problem.k),
        Limits(rows=sort_greedy.LARGEST_ROWS),
    ),
    "sort-greedy-blocks": GraphStart(
        lambda problem: sort_greedy.sort_greedy_members(
            problem.units, problem.tree, problem.k, block_rows=sort_greedy.BLOCK_ROWS
        )
    ),
    "hungarian": GraphStart(
        lambda problem: hungarian.hungarian_members(problem.units, problem.k),
        Limits(rows=hungarian.LARGEST_ROWS),
    ),
    "split-and-carry": GraphStart(
        lambda problem: split_and_carry.split_and_carry_members(
            problem.units, problem.k, distinct=problem.distinct
        ),
        Limits(rows=split_and_carry.LARGEST_ROWS, k=split_and_carry.LARGEST_K, numeric_only=True),
    ),
    "insertion": GraphStart(
        lambda problem: insertion_members(problem.units, problem.tree, problem.k, distinct=problem.distinct)
    ),
}
LEVELLED_STARTS: dict[str, GraphStart] = {
    name: GraphStart(partial(_members, name), LATTICE_SOLVERS[name].limits) for name in LEVEL_STARTS
}
"""Those that need a table with a lattice."""
