"""LB1 is a lower bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.bounds.nearest_neighbour import neighbour_bound
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.neighbours import nearest_units
from tests import naive
from tests.mixed_tables import mixed_table, scrambled_graph, tables

pytestmark = pytest.mark.thorough


def bound(table: Table, k: int, m: int) -> float:
    """LB1 from lists of m neighbours."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, distance = nearest_units(units.features, tree, units.individual, m)
    return neighbour_bound(units, nearest, distance, k)


@settings(derandomize=True)
@given(tables(trees=True, k=4, least=8), st.integers(2, 4), st.integers(1, 6), st.integers(0, 100))
def test_no_graph_is_below_the_bound(table: Table, k: int, m: int, seed: int) -> None:
    """Random valid graphs cost at least LB1, however short the lists of neighbours are."""
    graph = GeneralizationGraph(scrambled_graph(table, k, seed))
    graph.check(table.individuals)
    assert bound(table, k, m) <= gcp(table, graph) + 1e-12


@settings(derandomize=True)
@given(tables(trees=True), st.integers(2, 5))
def test_the_bound_is_the_distance_to_the_neighbour(table: Table, k: int) -> None:
    """Without individuals: the mean over records of the loss to the (k-1)-th nearest other record."""
    table = Table(table.numeric, table.categorical, table.cardinality, table.weights)
    total = 0.0
    for row in range(table.records):
        others = [other for other in range(table.records) if other != row]
        total += sorted(naive.box_loss(table, [row, other]) for other in others)[k - 2]
    assert bound(table, k, k - 1) == pytest.approx(total / table.records, abs=1e-12)


@pytest.mark.parametrize(("n", "k", "people"), [(5, 2, None), (5, 2, 4), (6, 2, 3), (5, 3, None), (6, 3, 5)])
@pytest.mark.parametrize("kinds", [None, 4])
def test_the_bound_is_below_the_best_graph(n: int, k: int, people: int | None, kinds: int | None) -> None:
    """On tiny tables: not above the optimum over all graphs."""
    for seed in range(3):
        table = mixed_table(seed, n, people=people, kinds=kinds, k=k)
        best = naive.least_graph_loss(table, k)
        assert bound(table, k, k - 1) <= best + 1e-12
