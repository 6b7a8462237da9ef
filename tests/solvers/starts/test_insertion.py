"""Insertion: a legal graph after every record, of low loss."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.ring import ring_members
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.starts.insertion import coarse_to_fine, insertion_members
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from tests import naive
from tests.mixed_tables import mixed_table, tables

pytestmark = pytest.mark.thorough


def inserted(table: Table, k: int, near: int | None = None) -> NDArray[np.int32]:
    """The graph over units."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    return insertion_members(units, tree, k, distinct=table.individuals is not None, near=near)


@settings(derandomize=True, max_examples=150)
@given(tables(trees=True, most=60, k=4), st.integers(2, 4), st.sampled_from([None, 1, 3]))
def test_insertion_gives_a_valid_graph(table: Table, k: int, near: int | None) -> None:
    """Regular over units, simple over rows and individuals, or refused because of individuals."""
    units = group_rows(table)
    try:
        members = inserted(table, k, near)
    except InfeasibleError:
        assert table.individuals is not None
        return
    assert naive.is_legal_graph(units, members, k)
    GeneralizationGraph(deal_rows(units, members)).check(table.individuals)


@settings(derandomize=True, max_examples=40)
@given(st.integers(0, 2**20), st.integers(6, 40), st.integers(2, 5))
def test_it_never_fails_when_all_records_differ(seed: int, n: int, k: int) -> None:
    """Without individuals k - 1 edges are always found."""
    table = mixed_table(seed, n)
    members = inserted(table, k)
    GeneralizationGraph(deal_rows(group_rows(table), members)).check()


def test_it_is_better_than_a_ring() -> None:
    """On rows that all differ, by a fifth at least."""
    table = mixed_table(8, 600, numeric=3, cardinality=(5, 90), nulls=0.0)
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    losses = [
        np.mean([naive.box_loss(table, slot) for slot in deal_rows(units, members).tolist()])
        for members in (inserted(table, 5), ring_members(units, tree, 5, distinct=False))
    ]
    assert losses[0] < 0.8 * losses[1]


def test_equal_records_cost_nothing() -> None:
    """Two kinds of rows, 30 of each: slots are of one kind, also beyond the places that are looked at."""
    codes = np.repeat(np.array([[0], [1]], dtype=np.int32), 30, axis=0)
    table = Table(np.empty((60, 0)), codes, np.array([2]), np.ones(1))
    slots = deal_rows(group_rows(table), inserted(table, 3)).tolist()
    assert np.mean([naive.box_loss(table, slot) for slot in slots]) < 0.1


@pytest.mark.parametrize("count", [1, 2, 7, 8, 100])
def test_the_order_is_coarse_first(count: int) -> None:
    """Every number once; the first half of them is spread as evenly as can be."""
    order = coarse_to_fine(count)
    assert sorted(order.tolist()) == list(range(count))
    if count == 100:
        assert order[:4].tolist() == [0, 64, 32, 96]
        assert np.diff(np.sort(order[:50])).max() <= 2


def test_too_few_individuals_are_refused() -> None:
    """Two individuals cannot fill a slot of three."""
    table = Table(
        np.linspace(0, 1, 6)[:, None],
        np.empty((6, 0), np.int32),
        np.empty(0, np.int64),
        np.ones(1),
        np.array([0, 0, 0, 1, 1, 1]),
    )
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    with pytest.raises(InfeasibleError):
        insertion_members(units, tree, 3, distinct=True)
