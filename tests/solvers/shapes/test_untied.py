"""Graphs without two-edge cuts: at less loss than parting alone, legal, and the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.matching.two_edge_cuts import two_edge_cuts, without_two_edge_cuts
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.search.slots import build_slots
from kanonflow.solvers.shapes.graphs import solve_graph, untie_graph
from kanonflow.solvers.shapes.untied import nearest_rows, units_of_rows, untied
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows
from tests.mixed_tables import mixed_table

pytestmark = pytest.mark.thorough


def duplicates(people: int | None = None) -> Table:
    """600 rows of 250 kinds: at k = 3 a search leaves many cuts."""
    return mixed_table(3, 600, kinds=250, people=people, k=3)


@pytest.mark.parametrize("people", [None, 300])
@pytest.mark.parametrize("loss", ["ncp", "sil"])
def test_no_cut_is_left_at_less_loss_than_parting(people: int | None, loss: str) -> None:
    """Same search: its cuts exchanged away (the old way), and as the solver returns it."""
    table = duplicates(people)
    free = solve_graph(Task(table, 3, budget=Budget(400), seed=2, loss=loss), untie=False)
    parted, left = without_two_edge_cuts(free.graph.members, table.individuals)
    solution = solve_graph(Task(table, 3, budget=Budget(400), seed=2, loss=loss))
    solution.graph.check(table.individuals)
    assert two_edge_cuts(free.graph.members).size > 20
    assert solution.tied_edges == two_edge_cuts(solution.graph.members).size <= left
    if loss == "ncp":
        assert solution.loss < gcp(table, GeneralizationGraph(parted))
        # The mends cost something, but no tenth of what parting costs here.
        assert solution.loss - free.loss < 0.5 * (gcp(table, GeneralizationGraph(parted)) - free.loss)
    assert solution.evaluations > free.evaluations


def test_the_same_seed_gives_the_same_graph_again() -> None:
    """Twice, and with two threads."""
    table = duplicates()
    graphs = [
        solve_graph(Task(table, 3, budget=Budget(200), seed=5, threads=threads)).graph.members
        for threads in (1, 1, 2)
    ]
    np.testing.assert_array_equal(graphs[0], graphs[1])
    np.testing.assert_array_equal(graphs[0], graphs[2])


def test_degree_2_keeps_rings_and_says_so() -> None:
    """At k = 2 every edge is tied to others, whatever is exchanged."""
    table = mixed_table(4, 60)
    solution = solve_graph(Task(table, 2, budget=Budget(200), seed=1))
    solution.graph.check(None)
    assert solution.tied_edges == 120


def test_rows_as_units_are_the_same_rows() -> None:
    """Each with its unit's features; distinct rows of one person stay one person's."""
    table = mixed_table(7, 80, kinds=30, people=20)
    units = group_rows(table)
    rows = units_of_rows(units, True)
    np.testing.assert_array_equal(rows.features.words, units.features.words[units.of_row])
    np.testing.assert_array_equal(rows.features.bit_weight, units.features.bit_weight)
    np.testing.assert_array_equal(rows.individual, units.individual[units.of_row])
    assert np.unique(units_of_rows(group_rows(duplicates()), False).individual).size == 600


def test_near_rows_are_rows_of_near_units_and_take_turns() -> None:
    """Every row of a unit that is not larger than its own is somebody's."""
    units = group_rows(duplicates())
    near = np.roll(np.arange(units.weight.size), 1).astype(np.int32)[:, None]
    near[5] = -1
    rows = nearest_rows(units, near)[:, 0]
    for row in range(600):
        unit = units.of_row[row]
        assert rows[row] == -1 if unit == 5 else units.of_row[rows[row]] == near[unit, 0]
    for unit in np.flatnonzero(np.arange(units.weight.size) != 5):
        taken = set(rows[units.of_row == unit].tolist())
        assert len(taken) == min(units.weight[unit], units.weight[near[unit, 0]])


def test_time_that_is_over_leaves_one_short_search() -> None:
    """The cuts are mended all the same, and the solution says that its deadline struck."""
    table = duplicates()
    free = solve_graph(Task(table, 3, budget=Budget(400), seed=2), untie=False)
    units = group_rows(table)
    near = np.tile(np.arange(5, dtype=np.int32), (units.weight.size, 1))
    given = (units, build_slots, near, free.graph.members)
    hurried = untied(*given, distinct=False, per_slot=100.0, seed=1, late=lambda: True)
    patient = untied(*given, distinct=False, per_slot=100.0, seed=1, late=lambda: False)
    assert hurried.struck
    assert 0 < hurried.evaluations < 0.3 * patient.evaluations
    assert (patient.struck, patient.evaluations > 0) == (False, True)
    assert hurried.tied_edges == two_edge_cuts(hurried.members).size < two_edge_cuts(free.graph.members).size
    GeneralizationGraph(hurried.members).check(None)
    now = [0.0]
    budget = Budget(400, deadline_ms=1000.0)
    clock = lambda: now[0]  # noqa: E731
    assert not solve_graph(Task(table, 3, budget=budget, seed=2, clock=clock)).deadline_struck
    over = solve_graph(
        Task(table, 3, budget=budget, seed=2, clock=clock, progress=lambda *_: now.__setitem__(0, 2.0))
    )
    assert over.deadline_struck
    assert over.tied_edges == two_edge_cuts(over.graph.members).size < two_edge_cuts(free.graph.members).size


def test_a_graph_without_cuts_is_returned_as_it_is() -> None:
    """Also by the function for finished graphs."""
    table = duplicates()
    solution = solve_graph(Task(table, 3, budget=Budget(400), seed=2))
    free = untie_graph(table, solution.graph.members, seed=1, per_row=100.0)
    assert (free.tied_edges, free.evaluations) == (0, 0)
    assert free.members is solution.graph.members
    searched = solve_graph(Task(table, 3, budget=Budget(400), seed=2), untie=False).graph.members
    assert untie_graph(table, searched, seed=1, per_row=100.0).tied_edges == 0
