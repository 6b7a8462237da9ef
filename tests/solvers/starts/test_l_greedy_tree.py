"""Greedy classes found by branch and bound are those of a scan of every free row, but for ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.starts.dense_first import dense_first_members, opening_order
from kanonflow.solvers.starts.l_greedy_tree import greedy_classes, l_greedy_members
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from tests import naive
from tests.mixed_tables import mixed_table, tables, unit_rows

pytestmark = pytest.mark.thorough


@settings(derandomize=True, max_examples=60)
@given(tables(trees=True, k=4, most=40), st.integers(2, 4), st.integers(0, 2**20))
def test_each_row_taken_is_the_cheapest_free_one(table: Table, k: int, seed: int) -> None:
    """Played back: a class opens with the first unit that has rows left, and grows by what no free row undercuts."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual, leaf=2)
    order = np.random.default_rng(seed).permutation(units.weight.size).astype(np.int32)
    classes, left = greedy_classes(units, tree, order, k)
    rows = unit_rows(units)
    free = units.weight.astype(int).tolist()

    def cost(taken: list[int], unit: int) -> float:
        return naive.box_loss(table, [rows[each] for each in (*taken, unit)])

    for line in classes.tolist():
        assert line[0] == next(unit for unit in order.tolist() if free[unit])
        for size in range(k):
            taken, unit = line[:size], line[size]
            assert free[unit] > 0
            assert naive.may_stand_together(units, [*taken, unit])
            legal = [c for c in order.tolist() if free[c] and naive.may_stand_together(units, [*taken, c])]
            if size:
                assert cost(taken, unit) == pytest.approx(min(cost(taken, c) for c in legal), abs=1e-9)
            free[unit] -= 1
    assert np.array_equal(np.bincount(left, minlength=len(free)), free)
    # What is left is too little for a class, or its rows may not stand together.
    assert left.size < k or classes.shape[0] < table.records // k


@settings(derandomize=True, max_examples=60)
@given(tables(trees=True, k=4, most=40), st.integers(2, 4), st.booleans())
def test_the_starts_are_valid_graphs(table: Table, k: int, dense: bool) -> None:
    """Either start deals every row k places in slots of distinct individuals, or says that it cannot."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    distinct = table.individuals is not None
    reach = np.random.default_rng(1).random(units.weight.size)
    try:
        if dense:
            members = dense_first_members(units, tree, reach, k, distinct=distinct)
        else:
            members = l_greedy_members(units, tree, k, distinct=distinct)
    except InfeasibleError:
        assert distinct
        return
    GeneralizationGraph(deal_rows(units, members)).check(table.individuals)


def test_dense_records_open_classes_first() -> None:
    """Quarters by reach, each in tree order; those without enough neighbours come last."""
    table = mixed_table(2, 40)
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    reach = np.arange(40.0)[np.random.default_rng(3).permutation(40)]
    reach[7] = np.inf
    order = opening_order(units, tree, reach)
    assert sorted(order.tolist()) == list(range(40))
    quarter = np.searchsorted(np.sort(reach)[[10, 20, 30]], reach)
    assert (np.diff(quarter[order]) >= 0).all()
    assert quarter[7] == 3
    place = np.argsort(tree.order)
    for each in range(4):
        assert (np.diff(place[order[quarter[order] == each]]) > 0).all()
