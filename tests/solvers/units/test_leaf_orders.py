"""Ranges of leaves cost what the lowest common ancestor costs that one finds by walking up."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.leaf_orders import (
    LeafOrders,
    build_orders,
    greatest_heights,
    holds_leaves,
    leaf_spread,
    range_cost,
)
from tests import naive
from tests.mixed_tables import mixed_table, tree_heights, tree_paths

pytestmark = pytest.mark.thorough


@numba.njit
def costs(
    orders: LeafOrders | None, weights: np.ndarray, low: np.ndarray, high: np.ndarray, into: np.ndarray
) -> None:
    """range_cost of each row and column."""
    for row in range(low.shape[0]):
        for j in range(weights.size):
            into[row, j] = range_cost(orders, weights[j], j, low[row, j], high[row, j])


@numba.njit
def of_hierarchies(orders: LeafOrders | None, count: int) -> int:
    """How many attributes are hierarchies."""
    found = 0
    for j in range(count):
        found += int(holds_leaves(orders, j))
    return found


@settings(derandomize=True)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 12), st.floats(0, 0.5))
def test_a_range_costs_its_lowest_common_ancestor(seed: int, leaves: int, rows: int, nulls: float) -> None:
    """Any two values beside each other, nulls and numbers in the same table included; an empty range costs nothing."""
    rng = np.random.default_rng(seed)
    paths = tree_paths(seed, leaves)
    leaf = rng.integers(0, leaves, rows)
    null = rng.random(rows) < nulls
    places = np.where(null, np.nan, leaf / max(leaves - 1, 1))
    weights = np.array([0.25, 0.75])
    coordinates, orders = build_orders(
        np.stack([rng.random(rows), places], axis=1), (None, tree_heights(paths)), weights
    )
    coordinates[:, 0] *= weights[0]
    assert of_hierarchies(orders, 2) == 1
    assert of_hierarchies(None, 2) == 0
    for a in range(rows):
        ends = np.sort(np.stack([coordinates, np.broadcast_to(coordinates[a], coordinates.shape)]), axis=0)
        into = np.empty((rows, 2))
        costs(orders, weights, ends[0], ends[1], into)
        for b in range(rows):
            truth = float(null[a] != null[b])
            if not null[a] and not null[b]:
                truth = naive.tree_ncp(paths, [leaf[a], leaf[b]])
            assert into[b, 1] == pytest.approx(truth * weights[1], abs=1e-12)
            assert into[b, 0] == abs(coordinates[a, 0] - coordinates[b, 0])
    empty = np.full((1, 2), np.inf)
    into = np.empty((1, 2))
    costs(orders, weights, empty, -empty, into)
    assert into.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("leaves", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("nulls", [0, 1])
def test_no_range_reads_beyond_its_tables(leaves: int, nulls: int) -> None:
    """What lies before and behind them in memory is NaN here: no range may cost that, an empty one included."""
    places = np.append(np.arange(leaves) / max(leaves - 1, 1), [np.nan] * nulls)
    weights = np.array([0.25, 0.75])
    numeric = np.stack([np.linspace(0.0, 1.0, places.size), places], axis=1)
    coordinates, orders = build_orders(numeric, (None, tree_heights(tree_paths(7, leaves))), weights)
    coordinates[:, 0] *= weights[0]
    memory = np.full(orders.highest.size + 200, np.nan)
    inside = memory[100:-100]
    inside[:] = orders.highest
    surrounded = orders._replace(highest=inside)
    first, last = np.triu_indices(places.size)
    low = np.append(np.minimum(coordinates[first], coordinates[last]), np.full((1, 2), np.inf), axis=0)
    high = np.append(np.maximum(coordinates[first], coordinates[last]), np.full((1, 2), -np.inf), axis=0)
    into = np.empty(low.shape)
    costs(surrounded, weights, low, high, into)
    assert np.isfinite(into).all()


@settings(derandomize=True)
@given(st.integers(0, 2**32), st.integers(1, 40), st.lists(st.integers(0, 39), min_size=1, max_size=6))
def test_sets_of_leaves_cost_the_greatest_height_between_their_ends(
    seed: int, leaves: int, chosen: list[int]
) -> None:
    """Of any set, from its first and last leaf alone."""
    paths = tree_paths(seed, leaves)
    inside = [leaf % leaves for leaf in chosen]
    ends = np.array([min(inside)]), np.array([max(inside)])
    found = greatest_heights(tree_heights(paths), *ends)
    assert found.tolist() == [pytest.approx(naive.tree_ncp(paths, inside))]


@settings(derandomize=True)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_the_spread_is_the_mean_cost_of_two(seed: int, chosen: list[int]) -> None:
    """Over all ordered pairs, each with itself too."""
    paths = tree_paths(seed, 10)
    places = np.sort(np.array(chosen))[:, None] / 9
    coordinates, orders = build_orders(places, (tree_heights(paths),), np.ones(1))
    mean = np.mean([naive.tree_ncp(paths, [a, b]) for a in chosen for b in chosen])
    assert leaf_spread(orders, 1.0, 0, coordinates[:, 0]) == pytest.approx(mean)


def by_leaves_of(table: Table) -> tuple[NDArray[np.int32], list[int]]:
    """Codes and cardinalities of the table with hierarchies as sets of leaves."""
    flat = table.by_leaves()
    return flat.categorical, flat.cardinality.tolist()


def test_leaves_become_categories() -> None:
    """Equal codes for equal leaves, one more for nulls; weights move with their columns."""
    heights = np.array([0.5, 1.0])
    numeric = np.array([[0.25, 0.5], [0.5, np.nan], [0.75, 0.0], [1.0, 0.5]])
    table = Table(
        numeric, np.array([[1], [0], [1], [0]], np.int32), np.array([2]), np.array([1.0, 2.0, 3.0]), None,
        (None, heights),
    )  # fmt: skip
    codes, sizes = by_leaves_of(table)
    assert codes[:, 1].tolist() == [1, 2, 0, 1]
    assert sizes == [2, 3]
    assert table.by_leaves().weights.tolist() == [1.0, 3.0, 2.0]
    assert table.by_leaves().numeric.tolist() == [[0.25], [0.5], [0.75], [1.0]]
    plain = replace(mixed_table(1, 6), individuals=None)
    assert plain.by_leaves() is plain
