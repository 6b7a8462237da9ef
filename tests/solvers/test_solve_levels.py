"""From a table to a graph over individuals: releasable, priced truly, the same each time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.budget import Budget
from kanonflow.solvers.errors import BudgetError, InfeasibleError
from kanonflow.solvers.level_graph import LevelGraph
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.solve import solve
from kanonflow.solvers.solve_graph import GRAPH_STARTS
from kanonflow.solvers.solve_levels import solve_levels
from kanonflow.solvers.starts.graph_starts import NUMERIC_ONLY
from kanonflow.solvers.starts.level_classes import LEVEL_STARTS
from kanonflow.solvers.table import Table
from kanonflow.solvers.warm_start import WarmGraph
from tests import naive
from tests.mixed_tables import mixed_table, tables
from tests.ticking import Ticking

QUICK = Budget(60.0)
SERVING = [start for start in GRAPH_STARTS if start not in (*NUMERIC_ONLY, *LEVEL_STARTS)]
feasible = tables(trees=True, individuals=True, k=4, most=40)


def structure(solution: Solution) -> LevelGraph:
    """The graph over individuals."""
    assert isinstance(solution.structure, LevelGraph)
    return solution.structure


def slots(graph: LevelGraph) -> list[list[int]]:
    """The records under each slot's box."""
    return [np.flatnonzero(np.isin(graph.of_row, members)).tolist() for members in graph.members]


@settings(derandomize=True, deadline=None, max_examples=50)
@given(feasible, st.integers(2, 4), st.sampled_from(SERVING), st.booleans(), st.integers(0, 2**20))
def test_a_solution_could_be_released(table: Table, k: int, start: str, search: bool, seed: int) -> None:
    """Everybody is in, counts are equal within a slot; the loss is that of the rows' boxes, waiting rows 1 each."""
    priority = np.random.default_rng(seed).integers(0, 3, table.records)
    solution = solve_levels(table, k, start=start, budget=QUICK, seed=5, search=search, priority=priority)
    graph = structure(solution)
    graph.check(k, table.individuals)
    assert graph.slots == np.unique(table.individuals).size
    boxes = sum(
        rows * naive.box_loss(table, records)
        for rows, records in zip(graph.slot_rows, slots(graph), strict=True)
    )
    waiting = int((graph.of_row < 0).sum())
    assert solution.loss == pytest.approx((boxes + waiting) / table.records)
    assert solution.lower_bound <= solution.loss + 1e-9
    who = np.unique(table.individuals, return_inverse=True)[1]
    assert (graph.of_row >= 0).tolist() == naive.kept_rows(
        who.tolist(), graph.rows.tolist(), priority.tolist()
    )


@settings(derandomize=True, deadline=None, max_examples=30)
@given(feasible, st.integers(2, 4))
def test_the_search_is_not_worse_than_its_start(table: Table, k: int) -> None:
    """More evaluations, less loss, also of the ranges that the search only approximates."""
    start = solve_levels(table, k, budget=QUICK, seed=5, search=False)
    assert start.evaluations == 0
    assert solve_levels(table, k, budget=Budget(300.0), seed=5).loss <= start.loss + 1e-9


def test_sil_is_that_of_the_slots() -> None:
    """Every row of every member of a slot is an edge."""
    table = mixed_table(4, 60, people=20)
    graph = structure(solve_levels(table, 3, budget=QUICK, seed=1))
    assert sil(table, graph) == pytest.approx(naive.sil(table, slots(graph)))


def test_wide_levels_win_where_narrow_ones_cost_more() -> None:
    """Six people far apart with two rows each, 60 near them with one: the six are better off among the others."""
    numbers = np.concatenate([np.repeat(np.linspace(0, 1, 6), 2), np.repeat(np.linspace(0, 1, 6), 10)])
    who = np.concatenate([np.repeat(np.arange(6), 2), np.arange(6, 66)])
    table = Table(numbers[:, None], np.empty((72, 0), np.int32), np.empty(0, np.int64), np.ones(1), who)
    graph = structure(solve_levels(table, 5, budget=QUICK, seed=1))
    assert graph.rows.tolist() == [1] * 66
    graph = structure(solve_levels(replace(table, numeric=table.numeric * 0), 5, budget=QUICK, seed=1))
    assert graph.rows.tolist() == [2] * 6 + [1] * 60


def test_solutions_repeat() -> None:
    """Equal seeds and any number of threads give equal graphs, another seed another one."""
    table = mixed_table(3, 600, people=250)
    found = [
        structure(solve_levels(table, 4, budget=QUICK, seed=seed, threads=threads)).members
        for seed, threads in ((1, 1), (1, 2), (2, 1))
    ]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_a_warm_start_begins_where_the_last_ended() -> None:
    """The same people with the same rows again; people who are new or gone are no hindrance."""
    table = mixed_table(4, 400, people=150)
    first = structure(solve_levels(table, 4, budget=Budget(500.0), seed=1))
    again = solve(
        table, 4, shape="levels", budget=Budget(0), seed=1, warm=WarmGraph(first.members.astype(int))
    )
    cold = solve_levels(table, 4, budget=Budget(0), seed=1)
    assert again.start == "warm"
    assert again.warm_kept == 1.0
    assert again.loss < cold.loss
    holes = np.where(np.random.default_rng(1).random(first.members.shape) < 0.5, -1, first.members)
    torn = solve_levels(table, 4, budget=QUICK, seed=1, warm=WarmGraph(holes.astype(int)))
    structure(torn).check(4, table.individuals)


def test_a_deadline_stops_early_and_says_so() -> None:
    """Fewer evaluations, and a graph that could be released."""
    table = mixed_table(3, 300, people=150)
    solution = solve_levels(table, 4, budget=Budget(5000.0, deadline_ms=2500.0), seed=1, clock=Ticking(1.0))
    assert solution.deadline_struck
    structure(solution).check(4, table.individuals)


def test_what_cannot_be_is_refused() -> None:
    """k out of range, an unknown start, fewer than k individuals, another shape's warm start."""
    table = mixed_table(1, 80, people=4)
    with pytest.raises(InfeasibleError, match="4 individuals"):
        solve_levels(table, 5, budget=QUICK, seed=1)
    with pytest.raises(BudgetError, match="unknown start"):
        solve_levels(table, 2, start="one-class", budget=QUICK, seed=1)
    with pytest.raises(BudgetError, match="k must lie"):
        solve_levels(table, 1, budget=QUICK, seed=1)
