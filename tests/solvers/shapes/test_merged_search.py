"""Merged searches: legal, never worse than the start, the same each time, and ended in time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.bounds.restricted_master import RestrictedMaster
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.last_window import WarmGraph
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.search.rounds import Effort, SearchResult, search_graph
from kanonflow.solvers.search.slots import Slots, build_slots
from kanonflow.solvers.shapes import merged_search as merged_search_module
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.solvers.shapes.merged_search import LONG, SHORT, Plan, merged_search, merging_plan
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows, renumbered
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.neighbours import nearest_units
from tests import naive
from tests.mixed_tables import mixed_table, scrambled_members, tables
from tests.ticking import Ticking

pytestmark = pytest.mark.thorough


def stopped() -> float:
    """A clock that stands still."""
    return 0.0


def merged(
    table: Table,
    k: int,
    evaluations: int,
    *,
    threads: int = 1,
    deadline: float | None = None,
    clock: Callable[[], float] = stopped,
    single: bool = False,
    plan: Plan = SHORT,
) -> tuple[Slots, float, SearchResult]:
    """Search from a random graph over units numbered along the tree; the state, the loss before, the result."""
    given = group_rows(table)
    units = renumbered(given, build_tree(given.features, given.weight, given.individual).order)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest = np.ascontiguousarray(nearest_units(units.features, tree, units.individual, 5)[0])
    slots = build_slots(units, scrambled_members(units, k, distinct=table.individuals is not None, seed=1))
    before = float(slots.loss.mean())
    if single:
        tour = np.arange(table.records)
        result = search_graph(units, slots, nearest, tour, Effort(evaluations, 1), threads=1)
    else:
        result = merged_search(
            units,
            slots,
            nearest,
            plan,
            Effort(evaluations, 1, deadline, clock),
            plain=units,
            build=build_slots,
            threads=threads,
        )
    assert naive.is_legal_graph(units, slots.members, k)
    assert slots.loss == pytest.approx(build_slots(units, slots.members).loss, abs=1e-12)
    return slots, before, result


@settings(derandomize=True, max_examples=60)
@given(tables(trees=True, k=6, least=8, most=40), st.integers(3, 6), st.sampled_from([0, 30, 5000, 60_000]))
def test_it_never_raises_the_loss(table: Table, k: int, evaluations: int) -> None:
    """Weights, duplicates, nulls, hierarchies, one individual's rows; any budget."""
    slots, before, result = merged(table, k, evaluations)
    assert slots.loss.mean() <= before + 1e-12
    assert result.evaluations <= evaluations + 4 * table.records * k * k + 4000
    losses = [loss for _, loss in result.trace]
    assert losses == sorted(losses, reverse=True)
    assert result.trace[-1] == (result.evaluations, pytest.approx(float(slots.loss.mean()), abs=1e-12))
    assert not result.deadline_struck


@pytest.mark.parametrize("k", [3, 4, 5, 8])
def test_it_ends_below_a_single_search(k: int) -> None:
    """With as many evaluations, on windows of some hundred mixed rows: that is why it is there."""
    gains = []
    for seed in range(4):
        table = mixed_table(seed, 300, numeric=2, cardinality=(6, 80), nulls=0.05)
        budget = 15_000 * 300
        found, alone = merged(table, k, budget)[0], merged(table, k, budget, single=True)[0]
        gains.append(1.0 - found.loss.mean() / alone.loss.mean())
    assert np.mean(gains) > 0.002


@pytest.mark.parametrize("k", [3, 5])
def test_the_result_does_not_depend_on_threads(k: int) -> None:
    """Graphs of one part are searched side by side, and taken in their order."""
    table = mixed_table(3, 200)
    first, again, by_three = (merged(table, k, 400_000, threads=threads)[0].members for threads in (1, 1, 3))
    assert np.array_equal(first, again)
    assert np.array_equal(first, by_three)


@pytest.mark.parametrize("k", [3, 5])
def test_windows_side_by_side_do_not_disturb_each_other(k: int) -> None:
    """As in a worker whose threads solve several windows at a time."""
    windows = [mixed_table(seed, 150) for seed in range(6)]
    alone = [merged(window, k, 300_000)[0].members for window in windows]
    with ThreadPoolExecutor(max_workers=3) as pool:
        together = list(pool.map(lambda window: merged(window, k, 300_000)[0].members, windows))
    assert all(np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


@pytest.mark.parametrize("deadline", [0.0, 3.0, 40.0, 500.0])
def test_a_deadline_ends_it(deadline: float) -> None:
    """Wherever it strikes, in the searches or after them: a legal graph that costs no more, and it is told."""
    table = mixed_table(2, 120)
    clock = Ticking(0.5)
    slots, before, result = merged(table, 4, 10**9, deadline=deadline, clock=clock)
    assert result.deadline_struck
    assert slots.loss.mean() <= before
    # One look before each of the searches' chunks, and some between them.
    assert clock() <= deadline + 40.0


def test_a_program_without_a_solution_leaves_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The evaluations that are left are spent on the best graph so far."""
    monkeypatch.setattr(RestrictedMaster, "solve", lambda self, seconds=None: False)
    slots, before, result = merged(mixed_table(4, 100), 5, 800_000)
    assert 800_000 <= result.evaluations < 900_000
    assert slots.loss.mean() < before


def test_a_program_that_cannot_be_rounded_leaves_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where individuals with many rows leave nowhere to put a unit."""
    monkeypatch.setattr(merged_search_module, "round_slots", lambda *rest: None)
    _, _, result = merged(mixed_table(4, 100), 5, 800_000)
    assert 800_000 <= result.evaluations < 900_000


def test_long_searches_are_merged() -> None:
    """From a budget on that grows with k; not at k = 2, which an assignment solves; fewer in a short time."""
    assert merging_plan(1000, 2, 10**9, None) is None
    for k, least in ((3, 4000), (4, 8000), (5, 12_000)):
        assert merging_plan(1000, k, least * 1000, None) is SHORT
        assert merging_plan(1000, k, least * 1000 - 1, None) is None
        assert merging_plan(1000, k, 5 * least * 1000, None) is LONG
    assert merging_plan(1000, 10, 50_000_000, None) is SHORT
    assert merging_plan(1000, 10, 30_000_000, None) is None
    assert merging_plan(1000, 5, 10**9, 1.0) is SHORT
    assert merging_plan(1000, 5, 10**9, 10.0) is LONG
    assert merging_plan(1000, 5, 10**9, 0.1) is None
    assert merging_plan(40_000, 5, 40_000 * 20_000, None) is None
    assert merging_plan(40_000, 5, 40_000 * 30_000, None) is SHORT


@pytest.mark.parametrize("loss", ["ncp", "sil"])
def test_solving_says_that_it_merged(loss: str) -> None:
    """``solve_graph`` prices the result truly, for each loss; without ``merge`` it is one search."""
    table = replace(mixed_table(6, 80), individuals=np.arange(80))
    for merge in (True, False):
        found = solve_graph(Task(table, 5, budget=Budget(13_000.0), seed=2, loss=loss), merge=merge)
        found.graph.check(table.individuals)
        price = gcp if loss == "ncp" else sil
        assert found.loss == pytest.approx(price(table, found.graph), abs=1e-9)
        assert ("merged" in found.stack) == merge
        assert found.loss <= found.start_loss
    assert "merged" not in solve_graph(Task(table, 5, budget=Budget(1000.0), seed=2)).stack


def test_a_warm_start_may_be_merged() -> None:
    """From the old graph: valid, no worse than the completed graph, and reported as warm."""
    table = replace(mixed_table(7, 120), individuals=np.arange(120))
    old: NDArray[np.int64] = solve_graph(Task(table, 3, budget=Budget(3000.0), seed=1)).graph.members.astype(
        np.int64
    )
    warm = WarmGraph(np.where(np.isin(old, (3, 50)), -1, old))
    found = solve_graph(Task(table, 3, budget=Budget(5000.0), seed=2, warm=warm))
    assert found.start == "warm"
    assert "merged" in found.stack
    assert isinstance(found.graph, GeneralizationGraph)
    found.graph.check(table.individuals)
    assert found.warm_loss is not None
    assert found.loss <= found.warm_loss * 1.05
