"""Loads (or compiles) every kernel once, so that the first window does not wait for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.budget import Budget
from kanonflow.solvers.distinct_rows import group_rows
from kanonflow.solvers.diversity import Sensitive
from kanonflow.solvers.matching import random_factor
from kanonflow.solvers.merged_search import LEAST_EVALUATIONS
from kanonflow.solvers.search.slots import build_slots
from kanonflow.solvers.solve import solve
from kanonflow.solvers.table import Table
from kanonflow.solvers.two_edge_cuts import without_two_edge_cuts
from kanonflow.solvers.untied import untied
from kanonflow.solvers.warm_start import WarmGraph


class _Repeatable:
    """Words of a seeded generator, for exercise only."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64 - 1, count, dtype=np.uint64)

    def permutation(self, n: int) -> NDArray[np.int64]:
        return self._generator.permutation(n)


def circulant_graph() -> NDArray[np.int32]:
    """A ring of degree 3: not complete, so that matching takes every step."""
    return ((np.arange(12)[:, None] + np.arange(3)) % 12).astype(np.int32)


def tied_graph() -> NDArray[np.int32]:
    """Two complete components of degree 3 that have exchanged an edge: two edges tie each other."""
    members = np.repeat(np.arange(6).reshape(2, 3), 3, axis=0)
    members[0, 2], members[5, 2] = 5, 2
    return members.astype(np.int32)


def _untie(table: Table) -> None:
    """Mend a cut and part one, which the solves below may not have to."""
    without_two_edge_cuts(tied_graph(), None)
    six = np.arange(6)
    units = group_rows(
        replace(table, numeric=table.numeric[six], categorical=table.categorical[six], individuals=six)
    )
    near = np.tile(six.astype(np.int32), (6, 1))
    untied(units, build_slots, near, tied_graph(), distinct=True, per_slot=200.0, seed=1)


def warm_up(shape: str | None = None, gated: bool = False, hierarchies: bool = False) -> None:
    """Solve tiny tables in the given shape of ``solve``, or in every one, from the starts that feeds use.

    About 0.5 s from the cache. From an empty one the kernels are compiled first; those of graphs and levels share
    nearly all of theirs, as do those of classes and cohorts.

    gated: classes also under rules for sensitive values, which have kernels of their own. hierarchies: for
    tables with hierarchies, for which every kernel is compiled by itself.
    """
    generator = np.random.default_rng(1)
    # Not a multiple of k, so that starts have rows left over.
    n = 25
    table = Table(
        numeric=generator.random((n, 1)),
        categorical=generator.integers(0, 3, (n, 2)).astype(np.int32),
        cardinality=np.array([3, 70]),
        weights=np.ones(3),
        individuals=np.arange(n),
    )
    if hierarchies:
        table = replace(table, numeric=np.rint(2.0 * table.numeric) / 2.0, heights=(np.array([0.5, 1.0]),))
    budget = Budget(200.0)
    if shape in (None, "graph", "levels"):
        random_factor(circulant_graph(), _Repeatable(generator))
        _untie(table)
        for start in ("auto", "l-greedy", "kd-leaves"):
            solve(table, 3, start=start, budget=budget, seed=1)
        solve(table, 2, budget=budget, seed=1)
        # Enough for several searches that are merged.
        solve(table, 3, budget=Budget(LEAST_EVALUATIONS[3]), seed=1)
        old = solve(table, 3, budget=budget, seed=1).graph.members.astype(np.int64)
        solve(table, 3, budget=budget, seed=1, warm=WarmGraph(np.where(old == 5, -1, old)))
        solve(table, 3, shape="levels", budget=budget, seed=1)
    if shape in (None, "classes", "cohorts"):
        # People with one row are points, whose neighbours are found in another way than those of people with several.
        for people in (table, replace(table, individuals=np.arange(n) // 2)):
            solve(people, 3, shape="classes", budget=budget, seed=1)
        if gated:
            rule = Sensitive(np.arange(n) % 3, "distinct", 2, "equal", 0.5)
            solve(table, 3, shape="classes", budget=budget, seed=1, sensitive=[rule])
