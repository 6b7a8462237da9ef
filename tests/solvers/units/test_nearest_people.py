"""The tree over individuals: bounds that are none too high, and exactly the nearest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.individuals import Individuals, gather_individuals, pair_class_loss
from kanonflow.solvers.units.nearest_people import LEAF, build_people_tree, least_pair_loss, nearest_people
from tests.mixed_tables import mixed_table, tables

pytestmark = pytest.mark.thorough


def large_people(seed: int) -> Individuals:
    """Some hundreds of rows of people with one to many rows each, in clusters, so that branches can be left out."""
    rng = np.random.default_rng(seed)
    table = mixed_table(seed, 400, people=int(rng.integers(40, 200)), numeric=2, cardinality=(3, 70))
    centre = rng.random((400, 1))[np.unique(table.individuals, return_inverse=True)[1]]
    return gather_individuals(replace(table, numeric=np.clip(centre + table.numeric / 20, 0.0, 1.0)))


def check_nearest(people: Individuals, seed: int, m: int) -> None:
    """Equal losses, in order, as a look at everybody finds."""
    u = people.rows.size
    nearest, looked = nearest_people(people, np.random.default_rng(seed).permutation(u), m)
    assert looked <= u * (u - 1)
    for unit in range(u):
        losses = sorted(pair_class_loss(people, unit, other) for other in range(u) if other != unit)[:m]
        found = [other for other in nearest[unit].tolist() if other >= 0]
        assert unit not in found
        assert len(set(found)) == len(found)
        assert [pair_class_loss(people, unit, other) for other in found] == pytest.approx(losses, abs=1e-11)


@settings(derandomize=True)
@given(tables(trees=True, individuals=True, most=60), st.integers(0, 2**20), st.integers(1, 12))
def test_the_nearest_are_those_of_a_look_at_everybody(table: Table, seed: int, m: int) -> None:
    """Nulls, several values an attribute, ties, fewer than m others."""
    check_nearest(gather_individuals(table), seed, m)


@settings(derandomize=True, max_examples=15)
@given(st.integers(0, 2**20))
def test_the_nearest_are_exact_where_branches_are_left_out(seed: int) -> None:
    """Over a tree of several storeys."""
    check_nearest(large_people(seed), seed, 12)


@settings(derandomize=True, max_examples=15)
@given(st.integers(0, 2**20))
def test_no_pair_is_nearer_than_its_node_says(seed: int) -> None:
    """At every node, for every individual and everybody below; the leaves hold everybody once."""
    people = large_people(seed)
    u = people.rows.size
    tree = build_people_tree(people, np.random.default_rng(seed).permutation(u))
    assert sorted(tree.order.tolist()) == list(range(u))
    held: list[int] = []
    nodes = [0]
    while nodes:
        node = nodes.pop()
        below = tree.order[tree.start[node] : tree.stop[node]].tolist()
        if tree.left[node] < 0:
            held += below
        else:
            nodes += [int(tree.left[node]), int(tree.left[node]) + 1]
        for unit in range(0, u, 7):
            bound = least_pair_loss(people, tree, node, unit)
            assert all(bound <= pair_class_loss(people, unit, other) + 1e-12 for other in below)
    assert sorted(held) == list(range(u))


def test_branches_are_left_out() -> None:
    """Where people cluster, a part of all pairs is looked at."""
    people = large_people(3)
    u = people.rows.size
    _, looked = nearest_people(people, np.argsort(people.low[:, 0], kind="stable"), 3)
    assert 0 < looked < u * (u - 1) // 2


def test_a_limit_ends_the_look_of_everybody() -> None:
    """Ten pairs and a leaf each: m different others all the same, in order; all pairs under a limit of as many."""
    people = large_people(5)
    u, m = people.rows.size, 6
    order = np.argsort(people.low[:, 0], kind="stable")
    nearest, looked = nearest_people(people, order, m, most=10)
    assert looked <= u * (10 + LEAF)
    for unit in range(u):
        found = nearest[unit].tolist()
        assert len(set(found) - {-1, unit}) == m
        gaps = [pair_class_loss(people, unit, other) for other in found]
        assert gaps == sorted(gaps)
    assert np.array_equal(nearest_people(people, order, m, most=u)[0], nearest_people(people, order, m)[0])
