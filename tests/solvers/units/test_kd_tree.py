"""The k-d tree: every unit once, leaves that a graph fits into, hulls that hold their units."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from kanonflow.solvers.units.kd_tree import KdTree, build_tree, leaf_ranges
from tests.mixed_tables import mixed_table, tables


def grown(units: Units, **options: int | bool) -> KdTree:
    """The tree over all units."""
    return build_tree(units.features, units.weight, units.individual, **options)


@settings(derandomize=True)
@given(tables(most=60, k=3), st.integers(1, 12))
def test_leaves_hold_every_unit_once(table: Table, leaf: int) -> None:
    """The tour is a permutation of the units and the leaves cut it into pieces of at most ``leaf``."""
    units = group_rows(table)
    tree = grown(units, leaf=leaf)
    ranges = leaf_ranges(tree)
    assert sorted(tree.order.tolist()) == list(range(units.weight.size))
    assert ranges[:, 0].tolist() == [0, *ranges[:-1, 1].tolist()]
    assert ranges[-1, 1] == units.weight.size
    assert np.all((ranges[:, 1] - ranges[:, 0] >= 1) & (ranges[:, 1] - ranges[:, 0] <= leaf))


@settings(derandomize=True)
@given(tables(most=60, k=4), st.integers(2, 4))
def test_leaves_bear_a_graph(table: Table, k: int) -> None:
    """Every leaf has k rows; where individuals count nobody has more than a k-th of a leaf's, as of the whole."""
    units = group_rows(table)
    distinct = table.individuals is not None
    tree = grown(units, k=k, distinct=distinct, leaf=1)
    for begin, end in leaf_ranges(tree):
        inside = tree.order[begin:end]
        assert units.weight[inside].sum() >= k
        if distinct:
            share = np.bincount(units.individual[inside], weights=units.weight[inside]).max()
            assert share * k <= units.weight[inside].sum()


@settings(derandomize=True)
@given(tables(most=40))
def test_nodes_hull_what_is_below_them(table: Table) -> None:
    """Low, high and the values present are those of exactly the units below; children share out their parent's."""
    units = group_rows(table)
    tree = grown(units, leaf=3)
    for node in range(tree.start.size):
        inside = tree.order[tree.start[node] : tree.stop[node]]
        assert tree.low[node].tolist() == units.features.numeric[inside].min(axis=0).tolist()
        assert tree.high[node].tolist() == units.features.numeric[inside].max(axis=0).tolist()
        assert (
            tree.words[node].tolist() == np.bitwise_or.reduce(units.features.words[inside], axis=0).tolist()
        )
        left, right = tree.left[node], tree.right[node]
        if left >= 0:
            assert (tree.start[left], tree.stop[right]) == (tree.start[node], tree.stop[node])
            assert tree.stop[left] == tree.start[right]


def test_equal_units_still_split() -> None:
    """Records that differ in the individual only are cut apart into small leaves."""
    table = Table(
        np.full((64, 1), 0.5), np.zeros((64, 1), np.int32), np.array([2]), np.ones(2), np.arange(64)
    )
    ranges = leaf_ranges(grown(group_rows(table), leaf=4))
    assert (ranges[:, 1] - ranges[:, 0]).max() <= 4


def test_a_tree_is_balanced() -> None:
    """On rows that all differ no leaf lies deeper than a few levels below log2 of the leaves."""
    units = group_rows(mixed_table(3, 1000, numeric=2, cardinality=(3,), nulls=0.0))
    tree = grown(units, leaf=8)
    depth = np.zeros(tree.start.size, dtype=int)
    for node in np.flatnonzero(tree.left >= 0):
        depth[tree.left[node]] = depth[tree.right[node]] = depth[node] + 1
    assert depth.max() <= 16
