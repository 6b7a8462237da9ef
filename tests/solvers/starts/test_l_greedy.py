"""l-greedy as a start: the graph of its classes and of what they leave over. Its classes: test_l_greedy_tree.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.starts.l_greedy import sorted_rows
from kanonflow.solvers.starts.l_greedy_tree import l_greedy_members
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from tests import naive
from tests.mixed_tables import tables

pytestmark = pytest.mark.thorough


@settings(derandomize=True)
@given(tables(trees=True, most=60, k=4), st.integers(2, 4))
def test_l_greedy_gives_a_valid_graph(table: Table, k: int) -> None:
    """The classes and what joined them expand to a legal graph, or it is refused."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    distinct = table.individuals is not None
    try:
        members = l_greedy_members(units, tree, k, distinct=distinct)
    except InfeasibleError:
        assert distinct
        return
    assert naive.is_legal_graph(units, members, k)
    GeneralizationGraph(deal_rows(units, members)).check(table.individuals)


@pytest.mark.parametrize("size", [2, 64, 65, 200])
def test_what_is_left_over_joins_where_it_costs_least(size: int) -> None:
    """Two rows of one value, three of another: the fifth joins its equals, for narrow and wide attributes."""
    codes = np.array([[0], [0], [1], [1], [1]], dtype=np.int32)
    table = Table(np.empty((5, 0)), codes, np.array([size]), np.ones(1))
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    members = deal_rows(units, l_greedy_members(units, tree, 2, distinct=False))
    assert all(naive.box_loss(table, slot) == 0 for slot in members.tolist())


def test_a_row_that_fits_nowhere_is_refused() -> None:
    """Two individuals with three rows each and one with two, k = 3: two classes, and two rows nobody takes."""
    individuals = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    table = Table(
        np.linspace(0, 1, 8)[:, None],
        np.empty((8, 0), np.int32),
        np.empty(0, np.int64),
        np.ones(1),
        individuals,
    )
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    with pytest.raises(InfeasibleError):
        l_greedy_members(units, tree, 3, distinct=True)


def test_rows_are_sorted_by_attributes_of_ascending_variance() -> None:
    """The attribute that varies least sorts first."""
    numeric = np.array([[0.9, 0.5], [0.1, 0.5], [0.0, 0.4], [1.0, 0.4]])
    units = group_rows(Table(numeric, np.empty((4, 0), np.int32), np.empty(0, np.int64), np.ones(2)))
    assert sorted_rows(units, np.arange(4, dtype=np.int32)).tolist() == [2, 3, 1, 0]
