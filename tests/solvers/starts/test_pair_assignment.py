"""At k = 2 the start is the best graph over its candidates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.search.slots import build_slots
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.solvers.starts.pair_assignment import PAIR_NEIGHBOURS, pair_members
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.neighbours import nearest_units
from tests import naive
from tests.mixed_tables import mixed_table, scrambled_members, tables, unit_rows

FORBIDDEN = 1e6


def least_loss(table: Table, units: Units, nearest: NDArray[np.int32], members: NDArray[np.int32]) -> float:
    """Mean loss of the cheapest assignment of rows to rows over the candidates, by a dense method (Hungarian)."""
    rows = unit_rows(units)
    pairs = {(u, int(v)) for u, line in enumerate(nearest) for v in line if v >= 0}
    pairs |= {(int(a), int(b)) for a, b in members}
    pairs |= {(u, u) for u in range(units.weight.size) if units.limit[u] > 1}
    cost = np.full((table.records, table.records), FORBIDDEN)
    for one, other in pairs | {(b, a) for a, b in pairs}:
        loss = naive.box_loss(table, [rows[one], rows[other]])
        for i in np.flatnonzero(units.of_row == one):
            for j in np.flatnonzero(units.of_row == other):
                if i != j:
                    cost[i, j] = loss
    chosen = linear_sum_assignment(cost)
    return float(cost[chosen].mean())


@settings(derandomize=True, max_examples=80)
@given(tables(k=2, least=4, most=40), st.integers(0, 2**20))
def test_it_is_the_best_assignment_over_its_candidates(table: Table, seed: int) -> None:
    """As good as a dense assignment over the same pairs of rows, legal, and no worse than the graph it was given."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, _ = nearest_units(units.features, tree, units.individual, PAIR_NEIGHBOURS)
    members = scrambled_members(units, 2, distinct=table.individuals is not None, seed=seed)
    found = pair_members(units, tree, members)
    assert found.dtype == members.dtype
    assert found.shape == members.shape
    assert naive.is_legal_graph(units, found, 2)
    loss = float(build_slots(units, found).loss.mean())
    assert loss == pytest.approx(least_loss(table, units, nearest, members), abs=1e-9)
    assert loss <= build_slots(units, members).loss.mean() + 1e-12


def test_a_start_that_would_take_too_long_is_left_alone() -> None:
    """The given graph comes back when more arcs would have to be looked at than allowed."""
    table = mixed_table(3, 60)
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    members = scrambled_members(units, 2, distinct=False, seed=1)
    assert np.array_equal(pair_members(units, tree, members, arcs_a_row=0), members)
    assert not np.array_equal(pair_members(units, tree, members), members)


@pytest.mark.parametrize("people", [None, 40])
def test_auto_begins_with_it_at_two(people: int | None) -> None:
    """The solution says so, and the search does not lose what it begins with."""
    table = mixed_table(5, 120, people=people, k=2)
    begun = solve_graph(Task(table, 2, budget=Budget(), seed=1), search=False, untie=False)
    found = solve_graph(Task(table, 2, budget=Budget(500.0), seed=1), untie=False)
    assert begun.start == found.start == "pair-assignment"
    assert (
        found.loss
        <= begun.loss
        < solve_graph(
            Task(table, 2, start="dense-first", budget=Budget(), seed=1), search=False, untie=False
        ).loss
    )
