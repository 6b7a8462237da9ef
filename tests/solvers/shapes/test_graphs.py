"""From a table to a graph: valid for whatever is feasible, priced truly, the same each time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.catalogue import solver_named, start_names
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.level_classes import LEVEL_STARTS
from kanonflow.solvers.search import rounds
from kanonflow.solvers.shapes import graphs as solve_graph_module
from kanonflow.solvers.shapes.graphs import deal_rows, solve_graph
from kanonflow.solvers.starts.pair_assignment import PAIR_ASSIGNMENT
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows
from tests import naive
from tests.mixed_tables import mixed_table, scrambled_members, tables
from tests.ticking import Ticking

pytestmark = pytest.mark.thorough

QUICK = Budget(60.0)
BUILT_STARTS = {
    name: solver_named(name) for name in start_names("row_graph") if name not in ("auto", *LEVEL_STARTS)
}
NUMERIC_ONLY = {name for name, start in BUILT_STARTS.items() if start.limits.numeric_only}
SERVING = [start for start in start_names("row_graph") if start not in (*NUMERIC_ONLY, *LEVEL_STARTS)]
LARGE = mixed_table(3, 4000, people=2500, numeric=2, cardinality=(6, 80), nulls=0.05)


@settings(derandomize=True, max_examples=60)
@given(tables(trees=True, k=4, most=40), st.integers(2, 4), st.integers(0, 2**20))
def test_dealt_rows_make_a_simple_regular_graph(table: Table, k: int, seed: int) -> None:
    """Any legal assignment of units expands to a valid graph in which each place holds a row of its unit."""
    units = group_rows(table)
    members = scrambled_members(units, k, distinct=table.individuals is not None, seed=seed)
    dealt = deal_rows(units, members)
    GeneralizationGraph(dealt).check(table.individuals)
    assert np.array_equal(units.of_row[dealt], members)


@settings(derandomize=True, max_examples=60)
@given(tables(trees=True, k=4, most=40), st.integers(2, 4), st.sampled_from(SERVING), st.booleans())
def test_a_solution_is_a_valid_graph_with_its_true_loss(
    table: Table, k: int, start: str, search: bool
) -> None:
    """From each start, with and without a search: valid, priced as gcp does, not below the bound."""
    solution = solve_graph(Task(table, k, start=start, budget=Budget(200.0), seed=5), search=search)
    solution.graph.check(table.individuals)
    assert solution.graph.k == k
    assert solution.loss == pytest.approx(gcp(table, solution.graph), abs=1e-9)
    assert solution.lower_bound <= solution.loss + 1e-9
    assert solution.start in (*start_names("row_graph")[1:], PAIR_ASSIGNMENT)
    assert solution.trace[0] == (0, solution.start_loss)
    assert search or solution.evaluations == 0


@settings(derandomize=True, max_examples=40)
@given(tables(trees=True, k=4, most=40), st.integers(2, 4), st.sampled_from(SERVING))
def test_the_search_is_not_worse_than_its_start(table: Table, k: int, start: str) -> None:
    """What the search itself leaves, before ties are parted, costs no more than where it began."""
    solution = solve_graph(Task(table, k, start=start, budget=Budget(200.0), seed=5), untie=False)
    solution.graph.check(table.individuals)
    assert solution.loss <= solution.start_loss + 1e-9
    assert solution.loss == pytest.approx(solution.trace[-1][1], abs=1e-9)


@pytest.mark.parametrize(("n", "k", "people"), [(5, 2, None), (6, 2, 3), (5, 3, None), (6, 3, 5)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_solution_is_below_the_optimum(n: int, k: int, people: int | None, seed: int) -> None:
    """On tiny tables: bound <= best of all graphs <= solution, and the search comes within a fifth of it."""
    table = mixed_table(seed, n, people=people, k=k)
    best = naive.least_graph_loss(table, k)
    solution = solve_graph(Task(table, k, budget=Budget(2000.0), seed=1), untie=False)
    assert solution.lower_bound <= best + 1e-9
    assert best - 1e-9 <= solution.loss <= 1.2 * best + 1e-9


def test_the_graph_does_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 rows, searched in parts: one, two or three threads give the same graph, as does a repetition."""
    monkeypatch.setattr(rounds, "LEAST_SLOTS_TO_SHARD", 1500)
    found = [solve_graph(Task(LARGE, 4, budget=QUICK, seed=3, threads=threads)) for threads in (1, 2, 3, 1)]
    assert all(np.array_equal(other.graph.members, found[0].graph.members) for other in found[1:])
    assert all(other.trace == found[0].trace for other in found[1:])
    assert len(found[0].trace) > 2
    assert found[0].loss < found[0].start_loss


def test_the_graph_depends_on_the_seed() -> None:
    """Another seed finds another graph."""
    table = mixed_table(3, 300)
    graphs = [solve_graph(Task(table, 4, budget=QUICK, seed=seed)).graph.members for seed in (1, 1, 2)]
    assert np.array_equal(graphs[0], graphs[1])
    assert not np.array_equal(graphs[0], graphs[2])


def test_a_deadline_stops_early_and_says_so() -> None:
    """When the clock reaches the deadline the search ends with fewer evaluations, and still a valid graph."""
    table = mixed_table(3, 300)
    for merge, seconds in ((False, 4.5), (True, 30.0)):
        budget = Budget(5000.0, deadline_ms=1000.0 * seconds)
        solution = solve_graph(Task(table, 4, budget=budget, seed=1, clock=Ticking(1.0)), merge=merge)
        assert solution.deadline_struck
        assert 0 < solution.evaluations < 300 * 5000
        solution.graph.check()


def test_a_deadline_that_is_not_reached_changes_nothing() -> None:
    """With time to spare the result is that without a deadline."""
    table = mixed_table(3, 300)
    free = solve_graph(Task(table, 4, budget=QUICK, seed=1))
    bounded = solve_graph(Task(table, 4, budget=replace(QUICK, deadline_ms=1e9), seed=1, clock=Ticking(1.0)))
    assert not bounded.deadline_struck
    assert np.array_equal(free.graph.members, bounded.graph.members)


def test_progress_is_told_after_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback gets what the trace holds."""
    monkeypatch.setattr(rounds, "LEAST_SLOTS_TO_SHARD", 1500)
    told: list[tuple[int, float]] = []
    solution = solve_graph(
        Task(LARGE, 4, budget=QUICK, seed=1, progress=lambda done, loss: told.append((done, loss)))
    )
    assert solution.trace[1:] == tuple(told)
    assert len(told) > 1


def test_a_start_that_cannot_build_gives_way() -> None:
    """Individuals whose rows leave one order only: the ring is refused, and another start stands in and is named."""
    rows = np.linspace(0, 1, 15)[:, None], np.empty((15, 0), np.int32), np.empty(0, np.int64), np.ones(1)
    table = Table(*rows, np.repeat(np.arange(5), 3))
    solution = solve_graph(Task(table, 5, start="ring", budget=QUICK, seed=1), search=False)
    solution.graph.check(table.individuals)
    assert solution.start == "kd-leaves"


@pytest.mark.parametrize("k", [-1, 0, 1, 256])
def test_k_out_of_range_is_refused(k: int) -> None:
    """k lies between 2 and 255."""
    with pytest.raises(BudgetError, match="k must lie"):
        solve_graph(Task(mixed_table(1, 300), k, budget=QUICK, seed=1))


def test_what_cannot_be_hidden_is_refused() -> None:
    """Fewer than k records; an individual with more than a k-th of them."""
    with pytest.raises(InfeasibleError, match="4 records"):
        solve_graph(Task(mixed_table(1, 4), 5, budget=QUICK, seed=1))
    heavy = replace(mixed_table(1, 9), individuals=np.array([0, 0, 0, 0, 1, 2, 3, 4, 5]))
    with pytest.raises(InfeasibleError, match="1/3 of the rows"):
        solve_graph(Task(heavy, 3, budget=QUICK, seed=1))


@pytest.mark.parametrize("n", [5, 6])
def test_the_smallest_tables_work(n: int) -> None:
    """As many records as k are one complete graph; equal records cost nothing."""
    solution = solve_graph(Task(mixed_table(1, n), 5, budget=QUICK, seed=1))
    solution.graph.check()
    assert solve_graph(Task(mixed_table(1, n, kinds=1), 5, budget=QUICK, seed=1)).loss == 0.0


def test_the_largest_k_works() -> None:
    """k = 255, the most that a place's number can hold."""
    solution = solve_graph(Task(mixed_table(1, 600), 255, budget=Budget(5.0), seed=1))
    solution.graph.check()


def test_a_start_that_was_given_up_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An assignment that takes too long leaves the start it began with, under that one's name."""
    table = mixed_table(2, 120)
    assert solve_graph(Task(table, 2, budget=Budget(0), seed=1)).start == PAIR_ASSIGNMENT
    monkeypatch.setattr(solve_graph_module, "pair_members", lambda units, tree, members: members)
    assert solve_graph(Task(table, 2, budget=Budget(0), seed=1)).start == "dense-first"
