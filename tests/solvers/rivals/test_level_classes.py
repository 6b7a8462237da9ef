"""Levels as starts: groups of the lattice's node, what is left over joined, and legal structures whatever the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.lattice import ola
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import InfeasibleError, TableError, UnservedError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.class_hulls import labels_loss
from kanonflow.solvers.rivals.clusterings import clustered_members, individual_input, row_input
from kanonflow.solvers.rivals.level_classes import LEFT_OVER, LEVEL_STARTS, level_labels
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.shapes.lattices import LatticeTask, solve_lattice
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.individuals import gather_individuals
from kanonflow.solvers.units.kd_tree import build_tree
from tests import naive
from tests.levelled_tables import levelled, with_halves
from tests.mixed_tables import mixed_table
from tests.naive_lattice import naive_groups, naive_suppressed

pytestmark = pytest.mark.thorough

LARGE = with_halves(mixed_table(4, 400, people=250, cardinality=(6, 12), kinds=60))


def naive_dealt(group: list[int], who: list[int], k: int) -> list[list[int]]:
    """Classes of k different individuals, each unit into the first that wants it, one class after the other."""
    rest, classes = list(group), []
    while True:
        taken: list[int] = []
        for unit in rest:
            if len(taken) < k and who[unit] not in [who[other] for other in taken]:
                taken.append(unit)
        if len(taken) < k:
            return classes
        classes.append(taken)
        rest = [unit for unit in rest if unit not in taken]


@settings(derandomize=True, max_examples=60)
@given(levelled(k=3, most=40, individuals=False), st.sampled_from(LEVEL_STARTS), st.integers(2, 3))
def test_groups_of_the_node_are_classes_and_the_rest_joins_the_cheapest(
    table: Table, name: str, k: int
) -> None:
    """Each row its own individual: groups straight from the records; a row left over costs no less elsewhere."""
    assert table.lattice is not None
    people = gather_individuals(table)
    labels = level_labels(name, table.lattice, people, np.arange(table.records), k, 3)
    node = solve_lattice(
        LatticeTask(table.lattice, k, suppression=LEFT_OVER, loss="gcp", seed=3), name
    ).best.levels
    gone = naive_suppressed(table.lattice, node, k)
    assert len(gone) <= LEFT_OVER * table.records
    groups = [set(records) for records in naive_groups(table.lattice, node).values() if len(records) >= k]
    classes = [set(np.flatnonzero(labels == label).tolist()) for label in range(labels.max() + 1)]
    assert sorted(map(sorted, groups)) == sorted(sorted(each - gone) for each in classes)
    before = np.where(np.isin(np.arange(labels.size), list(gone)), -1, labels).astype(np.int32)
    for row in sorted(gone):
        costs = []
        for label in range(labels.max() + 1):
            joined = before.copy()
            joined[row] = label
            costs.append(labels_loss(people, joined))
        assert costs[labels[row]] == pytest.approx(min(costs), abs=1e-12)
        before[row] = labels[row]


@settings(derandomize=True, max_examples=60)
@given(levelled(k=3, most=40, individuals=True), st.integers(2, 3))
def test_groups_are_dealt_along_the_tour(table: Table, k: int) -> None:
    """Classes of rows for a graph: the slow deal of each group of the node, then leftovers; nobody twice in a class."""
    units = group_rows(table)
    people, unit = row_input(units, k, 1, distinct=True)
    assert table.lattice is not None
    lattice = table.lattice.taking(units.rows)
    order = np.random.default_rng(table.records).permutation(unit.size)
    try:
        labels = level_labels("ola", lattice, people.people, people.who, k, 1, order=order)
    except InfeasibleError:
        return
    pairs = np.stack([labels.astype(np.int64), people.who], axis=1)
    assert np.unique(pairs, axis=0).shape[0] == labels.size
    shared = bool(np.unique(people.who).size < people.who.size)
    owned = replace(lattice, individuals=people.who)
    node = solve_lattice(
        LatticeTask(owned, k, suppression=LEFT_OVER, loss="gcp", seed=1, even_share=shared), "ola"
    ).best.levels
    gone = naive_suppressed(owned, node, k, even_share=shared)
    place = {int(row): position for position, row in enumerate(order)}
    expected = []
    for records in naive_groups(lattice, node).values():
        kept = sorted(set(records) - gone, key=place.__getitem__)
        expected += naive_dealt(kept, people.who.tolist(), k)
    classes = [set(np.flatnonzero(labels == label).tolist()) for label in range(labels.max() + 1)]
    if expected:
        assert len(classes) == len(expected)
        assert all(any(set(dealt) <= each for each in classes) for dealt in expected)


@settings(derandomize=True, max_examples=60)
@given(levelled(k=4, most=40), st.sampled_from(LEVEL_STARTS), st.integers(2, 4), st.integers(0, 99))
def test_every_graph_is_legal_or_refused(table: Table, name: str, k: int, seed: int) -> None:
    """Over rows: a simple k-regular graph of distinct individuals; refused only where the table names individuals."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    distinct = table.individuals is not None
    try:
        members = clustered_members(units, name, k, seed, distinct=distinct, lattice=table.lattice, tree=tree)
    except InfeasibleError:
        assert distinct
        return
    assert naive.is_legal_graph(units, members, k)
    solution = solve(Task(table, k, seed=seed), name)
    solution.graph.check(table.individuals)
    assert np.array_equal(np.sort(deal_rows(units, members).ravel()), np.sort(solution.graph.members.ravel()))


@pytest.mark.parametrize("shape", ["row_graph", "classes"])
@pytest.mark.parametrize("name", LEVEL_STARTS)
def test_every_shape_is_searched_from_levels(shape: str, name: str) -> None:
    """Named in the solution, released by the structure's own check, no worse than its start; the same twice."""
    solution = solve(Task(LARGE, 3, shape=shape, start=name, budget=Budget(100.0), seed=5))
    again = solve(Task(LARGE, 3, shape=shape, start=name, budget=Budget(100.0), seed=5))
    assert solution.start == name
    assert solution.evaluations > 0
    assert solution.loss == again.loss
    assert solution.trace[-1][1] <= solution.start_loss + 1e-12 if solution.trace else True
    people = np.unique(LARGE.individuals, return_inverse=True)[1]
    if shape == "classes":
        solution.partition.check(3, people)
    else:
        solution.graph.check(people)


@settings(derandomize=True, max_examples=40)
@given(levelled(k=3, most=40, individuals=True), st.integers(2, 3))
def test_classes_of_individuals_with_several_rows(table: Table, k: int) -> None:
    """Who stands in several groups joins one or waits; classes hold k individuals."""
    people = gather_individuals(table)
    given_ = individual_input(table, people, k, 1)
    if people.rows.size < k:
        with pytest.raises(InfeasibleError, match="fewer than"):
            level_labels("ola", given_.lattice, people, given_.who, k, 1)
        return
    labels = level_labels("ola", given_.lattice, people, given_.who, k, 1)
    assert np.bincount(labels[labels >= 0]).min() >= k
    assert set(np.unique(labels)) - {-1} == set(range(labels.max() + 1))
    assert (labels >= 0).all() or (people.rows > 1).any()


@pytest.mark.parametrize("shape", ["row_graph", "classes"])
def test_without_hierarchies_it_says_what_to_do(shape: str) -> None:
    """The start by name, what it lacks, how to give it, and another way."""
    table = replace(LARGE, lattice=None)
    with pytest.raises(
        UnservedError, match=r"ola begins at levels .* type: hierarchy.* or take another start"
    ):
        solve(Task(table, 3, shape=shape, start="ola", seed=1))


def test_lattices_that_are_too_large_are_unserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every start that does not take a table, in the method's own words."""
    monkeypatch.setattr(ola, "MOST_NODES", 3)
    with pytest.raises(UnservedError, match="ola takes at most 3"):
        solve(Task(LARGE, 3, start="ola", seed=1))


def test_a_lattice_is_of_the_tables_records() -> None:
    """One of other records is refused when the table is made."""
    assert LARGE.lattice is not None
    with pytest.raises(TableError, match="same records"):
        replace(LARGE, lattice=LARGE.lattice.taking(np.arange(10)))
