"""The starts of the graph search by name: each builds a legal graph over units."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.hierarchy_levels import Lattice
from kanonflow.solvers.problem.parameters import NO_PARAMETERS, Parameters
from kanonflow.solvers.registered import registered
from kanonflow.solvers.starts.dense_first import dense_first_members
from kanonflow.solvers.starts.kd_leaves import kd_leaf_members
from kanonflow.solvers.starts.l_greedy_tree import l_greedy_members
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import KdTree


class StartProblem(NamedTuple):
    """What a start is built from.

    tree: over the units. distinct: whether a slot may hold an individual once only. seed: of starts that draw.
    reach: float64 (u,), pair loss to the last of each unit's near neighbours (infinite when it has too few).
    lattice: of the table's rows, None where they have no hierarchies. parameters: the task's.
    """

    units: Units
    tree: KdTree
    k: int
    distinct: bool
    seed: int
    reach: NDArray[np.float64]
    lattice: Lattice | None = None
    parameters: Parameters = NO_PARAMETERS


# Slots over units, int32 (n, k). A start that cannot serve a table raises InfeasibleError; one that is not made for
# such tables at all (too large, or of attributes that it does not know) raises UnservedError.
GraphStart = Callable[[StartProblem], NDArray[np.int32]]


def dense_first(problem: StartProblem) -> NDArray[np.int32]:
    """The start of ``auto``."""
    return dense_first_members(
        problem.units, problem.tree, problem.reach, problem.k, distinct=problem.distinct
    )


BUILT_STARTS: dict[str, GraphStart] = {
    "kd-leaves": lambda problem: kd_leaf_members(problem.units, problem.k, distinct=problem.distinct),
    "l-greedy": lambda problem: l_greedy_members(
        problem.units, problem.tree, problem.k, distinct=problem.distinct
    ),
    "dense-first": dense_first,
}


def graph_start(name: str) -> GraphStart | None:
    """The start of that name, the product's or one that a package brings; None where there is none."""
    return BUILT_STARTS.get(name) or getattr(registered(name), "graph_start", None)
