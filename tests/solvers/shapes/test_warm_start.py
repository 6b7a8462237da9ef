"""Warm start of the graph: whatever the previous window left becomes a legal graph of this one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.problem.last_window import WarmGraph
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes.graphs import deal_rows, solve_graph
from kanonflow.solvers.shapes.warm_start import Completed, warm_members
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.neighbours import nearest_units
from tests import naive
from tests.mixed_tables import mixed_table, scrambled_members, tables
from tests.regular_graphs import rewired, ring

pytestmark = pytest.mark.thorough


def completed(table: Table, old: NDArray[np.int64], k: int) -> tuple[Units, Completed | None]:
    """The old graph completed for the individuals of a table."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, _ = nearest_units(units.features, tree, units.individual, 5)
    return units, warm_members(units, np.ascontiguousarray(nearest), tree, WarmGraph(old), k)


@settings(derandomize=True, max_examples=150)
@given(
    tables(trees=True, individuals=True, k=4, most=40),
    st.integers(2, 4),
    st.integers(4, 40),
    st.integers(0, 2**20),
)
def test_any_old_graph_becomes_a_legal_one(table: Table, k: int, old_people: int, seed: int) -> None:
    """Old slots over people who may be gone, new people, any change of size: legal over units, valid over rows."""
    rng = np.random.default_rng(seed)
    old = rewired(ring(old_people, k), 5 * old_people, seed).astype(np.int64)
    now = np.unique(table.individuals).size
    # Of those who were there some are here now, under another number.
    number = np.full(old_people, -1, dtype=np.int64)
    stay = rng.permutation(old_people)[: rng.integers(0, min(old_people, now) + 1)]
    number[stay] = rng.permutation(now)[: stay.size]
    units, result = completed(table, number[old], k)
    assert result is not None
    assert naive.is_legal_graph(units, result.members, k)
    GeneralizationGraph(deal_rows(units, result.members)).check(table.individuals)


@settings(derandomize=True, max_examples=60)
@given(
    tables(trees=True, individuals=True, k=4, most=40),
    st.integers(2, 4),
    st.integers(0, 2**20),
    st.integers(0, 4),
)
def test_slots_that_are_not_reported_are_as_they_were(table: Table, k: int, seed: int, gone: int) -> None:
    """Each slot that is not among the changed ones holds the individuals of an old slot."""
    units = group_rows(table)
    old = units.individual[scrambled_members(units, k, distinct=True, seed=seed)]
    old[np.isin(old, np.arange(gone))] = -1
    _, result = completed(table, old, k)
    assert result is not None
    before = [sorted(slot) for slot in old.tolist()]
    for slot in np.setdiff1d(np.arange(table.records), result.changed):
        assert sorted(units.individual[result.members[slot]].tolist()) in before


def test_the_same_people_keep_their_graph() -> None:
    """When everybody is here again, no slot has changed."""
    table = replace(mixed_table(1, 60), individuals=np.arange(60) * 7)
    units = group_rows(table)
    old = units.individual[scrambled_members(units, 4, distinct=True, seed=3)]
    _, result = completed(table, old, 4)
    assert result is not None
    assert result.changed.size == 0
    assert sorted(map(sorted, units.individual[result.members].tolist())) == sorted(map(sorted, old.tolist()))


@pytest.mark.parametrize("shape", [(0, 0), (20, 3), (20, 5)])
def test_another_k_starts_cold(shape: tuple[int, int]) -> None:
    """An old graph of another degree, or none, is no start."""
    _, result = completed(mixed_table(1, 40, people=40), np.zeros(shape, dtype=np.int64), 4)
    assert result is None


@pytest.mark.parametrize("stranger", [-2, 40])
def test_positions_that_do_not_exist_are_refused(stranger: int) -> None:
    """Members are positions in the table's individuals or -1; others would be read from beyond the arrays."""
    table = mixed_table(1, 40, people=4, k=4)
    with pytest.raises(StructureError, match="position"):
        completed(table, np.full((40, 4), stranger, dtype=np.int64), 4)


def test_a_warm_start_begins_lower() -> None:
    """The next window of the same people: it starts from the old graph, below the cold start, and says both losses."""
    table = replace(mixed_table(4, 400, numeric=3, nulls=0.0), individuals=np.arange(400) * 7)
    first = solve_graph(Task(table, 4, budget=Budget(1000.0), seed=1))
    warm = WarmGraph(first.graph.members.astype(np.int64))
    again = solve_graph(Task(table, 4, budget=Budget(0), seed=1, warm=warm))
    assert again.start == "warm"
    assert again.warm_loss == pytest.approx(first.loss)
    assert again.cold_loss is not None
    assert again.warm_loss < again.cold_loss
    again.graph.check(table.individuals)
    assert (again.warm_kept, first.warm_kept) == (1.0, None)
    absent = np.where(warm.members < 40, -1, warm.members)
    holed = solve_graph(Task(table, 4, budget=Budget(0), seed=1, warm=WarmGraph(absent)), untie=False)
    old = {frozenset(slot) for slot in first.graph.members.tolist()}
    same = np.mean([frozenset(slot) in old for slot in holed.graph.members.tolist()])
    assert holed.start == "warm"
    assert 0.5 < holed.warm_kept <= same + 1e-12  # type: ignore[operator]


def substituted(kept: int) -> tuple[Table, WarmGraph]:
    """A window of 400, of whom ``kept`` were in the window before, and the graph of that one."""
    whole = replace(mixed_table(4, 800, numeric=3, nulls=0.0), individuals=np.arange(800))

    def window(first: int) -> Table:
        rows = np.arange(first, first + 400)
        return replace(
            whole, numeric=whole.numeric[rows], categorical=whole.categorical[rows], individuals=rows
        )

    old = solve_graph(Task(window(0), 4, budget=Budget(1000.0), seed=1)).graph.members.astype(np.int64)
    here = old - (400 - kept)
    return window(400 - kept), WarmGraph(np.where(here >= 0, here, -1))


def test_replacing_a_few_costs_little() -> None:
    """Before any search the graph of 97% of the people is better than a cold start, and most slots are as they were."""
    table, warm = substituted(388)
    _, result = completed(table, warm.members, 4)
    assert result is not None
    assert result.changed.size < 200
    begun = solve_graph(Task(table, 4, budget=Budget(0), seed=1, warm=warm))
    assert begun.start == "warm"
    assert begun.cold_loss is not None
    assert begun.warm_loss is not None
    assert begun.warm_loss < begun.cold_loss


def test_completing_the_old_graph_comes_off_the_budget() -> None:
    """Its evaluations are reported, also without a search, and a warm search has so many fewer."""
    table, warm = substituted(388)
    begun = solve_graph(Task(table, 4, budget=Budget(0), seed=1, warm=warm))
    assert begun.evaluations == begun.trace[0][0]
    assert begun.evaluations > 0
    searched = solve_graph(Task(table, 4, budget=Budget(500.0), seed=1, warm=warm))
    cold = solve_graph(Task(table, 4, budget=Budget(500.0), seed=1))
    assert searched.trace[0] == begun.trace[0]
    assert searched.evaluations <= cold.evaluations + 0.05 * 500 * 400
    assert searched.loss <= begun.loss


@pytest.mark.parametrize("kept", [388, 300, 0])
def test_the_same_seed_and_budget_give_the_same_graph(kept: int) -> None:
    """Whatever the number of threads."""
    table, warm = substituted(kept)
    solve = [
        solve_graph(Task(table, 4, budget=Budget(300.0), seed=5, warm=warm, threads=threads))
        for threads in (1, 1, 2)
    ]
    for other in solve[1:]:
        assert np.array_equal(solve[0].graph.members, other.graph.members)
    solve[0].graph.check(table.individuals)
