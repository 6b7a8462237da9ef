"""The ring: k consecutive rows of the tour in each slot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.matching.components import component_labels
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.ring import ring_members
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from tests import naive
from tests.mixed_tables import mixed_table, tables

pytestmark = pytest.mark.thorough


@settings(derandomize=True)
@given(tables(most=60, k=4), st.integers(2, 4))
def test_a_ring_is_a_valid_graph(table: Table, k: int) -> None:
    """Regular over units, simple over rows and individuals, or refused because of individuals."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    try:
        members = ring_members(units, tree, k, distinct=table.individuals is not None)
    except InfeasibleError:
        assert table.individuals is not None
        return
    assert naive.is_legal_graph(units, members, k)
    GeneralizationGraph(deal_rows(units, members)).check(table.individuals)


def test_slots_follow_the_tour() -> None:
    """Without individuals slot j holds the rows j .. j + k - 1 of the tour, and all is one component."""
    units = group_rows(mixed_table(3, 50, nulls=0.0))
    tree = build_tree(units.features, units.weight, units.individual)
    tour = np.repeat(tree.order, units.weight[tree.order])
    members = ring_members(units, tree, 4, distinct=False)
    assert members[0].tolist() == tour[:4].tolist()
    assert members[-1].tolist() == [tour[-1], *tour[:3]]
    assert component_labels(deal_rows(units, members)).max() == 0


def test_rows_of_one_individual_are_moved_apart() -> None:
    """Two rows each, side by side on the tour: afterwards no slot names anybody twice, and most rows stay put."""
    n, k = 40, 5
    values = np.linspace(0, 1, n)[:, None]
    nobody = np.empty((n, 0), np.int32), np.empty(0, np.int64), np.ones(1)
    table = Table(values, *nobody, np.arange(n) // 2)
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    members = ring_members(units, tree, k, distinct=True)
    GeneralizationGraph(deal_rows(units, members)).check(table.individuals)
    assert np.mean([naive.box_loss(table, slot) for slot in deal_rows(units, members).tolist()]) < 0.5


def test_what_cannot_be_moved_apart_is_refused() -> None:
    """Three rows each of five individuals and k = 5: only one cyclic order would do, and exchanges do not find it."""
    individuals = np.repeat(np.arange(5), 3)
    table = Table(
        np.linspace(0, 1, 15)[:, None],
        np.empty((15, 0), np.int32),
        np.empty(0, np.int64),
        np.ones(1),
        individuals,
    )
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    with pytest.raises(InfeasibleError, match="ring finds no order"):
        ring_members(units, tree, 5, distinct=True)
