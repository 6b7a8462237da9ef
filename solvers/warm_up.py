"""Loads (or compiles) every kernel once, so that the first window does not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.catalogue import SOLVERS, STARTS, find_solver
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.matching.matching import random_factor
from kanonflow.solvers.matching.two_edge_cuts import without_two_edge_cuts
from kanonflow.solvers.merging.merging import MergeTask, merge_cohorts
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.last_window import WarmGraph
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes.graphs import units_for
from kanonflow.solvers.shapes.merged_search import LEAST_EVALUATIONS
from kanonflow.solvers.shapes.untied import untied

_SHAPES = (None, "row_graph", "classes", "lattice_node")


class _Repeatable:
    """Words of a seeded generator, for exercise only."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def words(self, count: int) -> NDArray[np.uint64]:
        words = self._generator.integers(0, 2**64 - 1, count, dtype=np.uint64)
        # As those of a keystream: kernels are compiled for it.
        words.flags.writeable = False
        return words

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


def _untie(table: Table, loss: str) -> None:
    """Mend a cut and part one, which the solves below may not have to."""
    without_two_edge_cuts(tied_graph(), None)
    six = np.arange(6)
    few = replace(table, numeric=table.numeric[six], categorical=table.categorical[six], individuals=six)
    _, searched, build = units_for(few, 3, loss)
    near = np.tile(six.astype(np.int32), (6, 1))
    untied(searched, build, near, tied_graph(), distinct=True, per_slot=200.0, seed=1)


def _graphs(table: Table, loss: str) -> None:
    random_factor(circulant_graph(), _Repeatable(np.random.default_rng(1)))
    _untie(table, loss)
    budget = Budget(200.0)
    for start in ("auto", "l-greedy", "kd-leaves"):
        solve(Task(table, 3, start=start, loss=loss, budget=budget, seed=1))
    solve(Task(table, 2, loss=loss, budget=budget, seed=1))
    # Enough for several searches that are merged.
    solve(Task(table, 3, loss=loss, budget=Budget(LEAST_EVALUATIONS[3]), seed=1))
    old = solve(Task(table, 3, loss=loss, budget=budget, seed=1)).graph.members.astype(np.int64)
    solve(Task(table, 3, loss=loss, budget=budget, seed=1, warm=WarmGraph(np.where(old == 5, -1, old))))


def _classes(table: Table, ruled: bool, loss: str) -> None:
    n = table.records
    # People with one row are points, whose neighbours are found in another way than those of people with several.
    for people in (table, replace(table, individuals=np.arange(n) // 2)):
        found = solve(Task(people, 3, shape="classes", loss=loss, budget=Budget(200.0), seed=1))
        found.structure.released().draw(_Repeatable(np.random.default_rng(1)))
    if ruled:
        rule = Sensitive(np.arange(n) % 3, "distinct", 2, "equal", 0.5)
        solve(Task(table, 3, shape="classes", loss=loss, budget=Budget(200.0), seed=1, sensitive=[rule]))


def kernel_sets(
    shape: str, *, ruled: bool = False, hierarchies: bool = False, loss: str = "ncp", merging: bool = False
) -> tuple[str, ...]:
    """Names in ``KERNEL_SETS`` of what ``warm_up`` calls with these arguments; merging: and ``warm_up_merging``, which
    then has the rules: people found cohorts without them.

    Empty for lattices, which need no kernels that take long.
    """
    of_trees = " hierarchies" * hierarchies
    names = [f"{shape} {loss}{of_trees}"] if shape in ("row_graph", "classes") else []
    if shape == "classes" and ruled and not merging:
        names.append(f"classes ruled {loss}{of_trees}")
    return (*names, *([f"merging{' ruled' * ruled}{of_trees}"] if merging else []))


def warm_up_set(name: str) -> None:
    """Call all kernels of a set. Raises BudgetError: there is none of that name."""
    if name not in KERNEL_SETS:
        raise BudgetError(f"unknown set of kernels {name!r}: choose one of {', '.join(KERNEL_SETS)}")
    KERNEL_SETS[name]()


def warm_up_merging(hierarchies: bool = False, ruled: bool = False) -> None:
    """Merge the cohorts of a tiny window, with a last one. hierarchies, ruled: as of ``warm_up``."""
    # More than stay in the order in which they come.
    n = 16
    numeric = np.arange(n, dtype=np.float64)[:, None] / (n - 1)
    table = Table(
        numeric=np.rint(numeric) if hierarchies else numeric,
        categorical=(np.arange(n, dtype=np.int32) % 3)[:, None],
        cardinality=np.array([3]),
        weights=np.ones(2),
        individuals=np.arange(n),
        heights=(np.array([1.0]),) if hierarchies else (),
    )
    here = np.ones(n, dtype=np.int64)
    task = MergeTask(table, here, here, 3, 1, evaluations=2000, warm=np.arange(n) // 4)
    merge_cohorts(task)
    for rule in [Sensitive(np.arange(n) // 6, "distinct", 2)] * ruled:
        merge_cohorts(replace(task, sensitive=(rule,), of_row=np.arange(n)))


def warm_up(
    shape: str | None = None,
    ruled: bool = False,
    hierarchies: bool = False,
    loss: str = "ncp",
    names: Sequence[str] = (),
) -> None:
    """Solve tiny tables in the given shape, or in every one, from the starts that feeds use; lattices need nothing.

    About 0.5 s from the cache. From an empty one the kernels are compiled first.

    ruled: classes also under rules for sensitive values, which have kernels of their own. hierarchies: for
    tables with hierarchies, for which every kernel is compiled by itself. loss: what is lowered; the search has
    kernels of its own for each (a graph's search for ``sil`` takes a minute and a half to compile). names: methods and
    starts that are asked for; those that a package brings are loaded, and their kernels with them.
    Raises BudgetError for an unknown shape.
    """
    if shape not in _SHAPES:
        raise BudgetError(f"unknown shape {shape!r}: choose one of {', '.join(filter(None, _SHAPES))}")
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
    if shape in (None, "row_graph"):
        _graphs(table, loss)
    if shape in (None, "classes"):
        _classes(table, ruled, loss)
    if shape in STARTS:
        _brought(Task(table, 3, shape=shape, loss=loss, budget=Budget(1.0), seed=1), names)


def _brought(task: Task, names: Sequence[str]) -> None:
    """Solve by what packages bring under some names; one that does not take this table compiles in its first window."""
    for name in {*names} - {*SOLVERS, *STARTS[task.shape]}:
        solver = find_solver(name)
        if solver is not None and task.shape in solver.ways:
            with suppress(BudgetError, InfeasibleError):
                solver.solve(task)


def _all_sets() -> dict[str, Callable[[], None]]:
    sets: dict[str, Callable[[], None]] = {}
    for trees in (False, True):
        of_trees = " hierarchies" * trees
        for loss in ("ncp", "sil"):
            sets[f"classes {loss}{of_trees}"] = partial(warm_up, "classes", False, trees, loss)
            sets[f"classes ruled {loss}{of_trees}"] = partial(warm_up, "classes", True, trees, loss)
            sets[f"row_graph {loss}{of_trees}"] = partial(warm_up, "row_graph", False, trees, loss)
        for ruled in (False, True):
            sets[f"merging{' ruled' * ruled}{of_trees}"] = partial(warm_up_merging, trees, ruled)
    return sets


KERNEL_SETS: Mapping[str, Callable[[], None]] = _all_sets()
"""By name, what calls the kernels that a policy can need; ``kernel_sets`` says which of them."""
