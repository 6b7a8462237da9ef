"""l-greedy: classes of k distinct individuals, what is left over, and the graph of both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.starts.l_greedy import l_greedy_classes, l_greedy_members, sorted_rows
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from tests import naive
from tests.mixed_tables import mixed_table, tables, unit_rows


def every_row(units: Units) -> np.ndarray:
    """The unit of each row."""
    return np.repeat(np.arange(units.weight.size, dtype=np.int32), units.weight)


@settings(derandomize=True, deadline=None)
@given(tables(trees=True, most=40), st.integers(2, 5))
def test_classes_have_k_distinct_individuals(table: Table, k: int) -> None:
    """Classes and leftovers are all rows; a class names nobody twice; what is left over fills no further class."""
    units = group_rows(table)
    rows = every_row(units)
    classes, left = l_greedy_classes(units, rows, k)
    assert sorted([*classes.ravel().tolist(), *left.tolist()]) == rows.tolist()
    assert all(naive.may_stand_together(units, members) for members in classes.tolist())
    if table.individuals is None:
        assert left.size < k
    elif left.size >= k:
        assert np.unique(units.individual[left]).size < left.size


@settings(derandomize=True, deadline=None)
@given(tables(trees=True, most=20), st.integers(2, 4))
def test_each_member_is_the_cheapest_that_was_free(table: Table, k: int) -> None:
    """The first member is the first free row of the order; each next one makes the least box that is allowed."""
    units = group_rows(table)
    classes, _ = l_greedy_classes(units, every_row(units), k)
    free = sorted_rows(units, every_row(units)).tolist()
    rows = unit_rows(units)
    for members in classes.tolist():
        assert members[0] == free[0]
        free.remove(members[0])
        for size in range(1, k):
            held = members[:size]
            allowed = [unit for unit in set(free) if naive.may_stand_together(units, [*held, unit])]
            losses = {
                unit: naive.box_loss(table, [rows[other] for other in [*held, unit]]) for unit in allowed
            }
            assert losses[members[size]] == pytest.approx(min(losses.values()), abs=1e-9)
            free.remove(members[size])


@settings(derandomize=True, deadline=None)
@given(tables(trees=True, most=60, k=4), st.integers(2, 4), st.sampled_from([8, 20, 1500]))
def test_l_greedy_gives_a_valid_graph(table: Table, k: int, block: int) -> None:
    """With any size of block the classes and what joined them expand to a legal graph, or it is refused."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    distinct = table.individuals is not None
    try:
        members = l_greedy_members(units, tree, k, distinct=distinct, block_rows=block)
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


def test_blocks_cost_little() -> None:
    """Cut into blocks of 100 rows the start is at most a third worse than in one piece."""
    table = mixed_table(6, 600, numeric=3, cardinality=(4, 4), nulls=0.0)
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    losses = []
    for block in (100, 1500):
        members = deal_rows(units, l_greedy_members(units, tree, 5, distinct=False, block_rows=block))
        losses.append(np.mean([naive.box_loss(table, slot) for slot in members.tolist()]))
    assert losses[0] < 1.33 * losses[1]
