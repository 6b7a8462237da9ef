"""Clusterings: each equal to its slow twin, and whatever the table, classes of at least k individuals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import InfeasibleError, UnservedError
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals import clusterings, oka
from kanonflow.solvers.rivals.class_hulls import labels_loss
from kanonflow.solvers.rivals.clusterings import (
    CLUSTERINGS,
    clustered_members,
    individual_input,
    row_input,
)
from kanonflow.solvers.shapes.class_starts import cut_large_classes
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.individuals import gather_individuals
from tests import naive, naive_clusterings
from tests.mixed_tables import mixed_table, tables, tree_heights, tree_paths

pytestmark = pytest.mark.thorough

MASK = 2**64 - 1


class SplitMix:
    """The kernels' random numbers, with Python's integers."""

    def __init__(self, seed: int) -> None:
        self.state = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])

    def below(self, count: int) -> int:
        """In [0, count)."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        return (z >> 32) * count >> 32

    def shuffled(self, values: list[int]) -> list[int]:
        """Fisher and Yates, from the end."""
        for last in range(len(values) - 1, 0, -1):
            other = self.below(last + 1)
            values[last], values[other] = values[other], values[last]
        return values


def clustered(name: str, table: Table, k: int, seed: int) -> np.ndarray:
    """Labels over the individuals of a table."""
    return CLUSTERINGS[name](individual_input(table, gather_individuals(table), k, seed))


def as_sets(classes: list[list[int]]) -> set[frozenset[int]]:
    """Classes without their order."""
    return {frozenset(rows) for rows in classes}


def label_sets(labels: np.ndarray) -> set[frozenset[int]]:
    """The same of labels."""
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


@settings(derandomize=True, max_examples=60)
@given(tables(trees=True, most=18, individuals=False), st.integers(2, 4), st.integers(0, 99))
def test_k_member_is_its_twin(table: Table, k: int, seed: int) -> None:
    """Bounds pass over units, but take the same ones as a full scan; leftovers join where it costs least."""
    first = int(np.random.default_rng(seed).integers(table.records))
    expected = naive_clusterings.k_member(table, k, first)
    assert label_sets(clustered("k-member", table, k, seed)) == as_sets(expected)


@settings(derandomize=True, max_examples=60)
@given(tables(trees=True, most=18, individuals=False), st.integers(2, 4), st.integers(0, 99), st.booleans())
def test_ika_and_ncp_clustering_are_their_twin(table: Table, k: int, seed: int, spread: bool) -> None:
    """Centroids random or far apart, each with its nearest."""
    expected = naive_clusterings.seeded(table, k, SplitMix(seed).below, spread=spread)
    labels = clustered("ika" if spread else "ncp-clustering", table, k, seed)
    assert label_sets(labels) == as_sets(expected)


@settings(derandomize=True, max_examples=60)
@given(st.integers(0, 2**20), st.integers(6, 18), st.integers(2, 4), st.integers(0, 99), st.integers(0, 2))
def test_oka_is_its_twin(drawn: int, n: int, k: int, seed: int, trees: int) -> None:
    """One pass, shedding, absorbing, with means from lists of rows; numbers that differ, so that no means tie."""
    table = mixed_table(drawn, n, numeric=2 + trees, trees=trees)
    table.numeric[:, trees:] = np.random.default_rng(drawn).random((n, 2))
    if n > 8:
        table.numeric[0, trees] = np.nan
    expected = naive_clusterings.oka(table, k, SplitMix(seed).shuffled)
    assert label_sets(clustered("oka", table, k, seed)) == as_sets(expected)


@settings(derandomize=True, max_examples=60)
@given(tables(trees=True, most=40, individuals=False), st.integers(2, 4), st.booleans())
def test_mondrian_is_its_twin(table: Table, k: int, relaxed: bool) -> None:
    """Cuts at medians, widest attribute first, by recursion; categories by how frequent they are in what is cut."""
    expected = naive_clusterings.mondrian(table, list(range(table.records)), k, relaxed=relaxed)
    labels = clustered("relaxed-mondrian" if relaxed else "mondrian", table, k, 1)
    assert label_sets(labels) == as_sets(expected)


@settings(derandomize=True, max_examples=120)
@given(
    tables(most=60),
    st.integers(0, 2**20),
    st.integers(2, 4),
    st.booleans(),
)
def test_mondrian_does_not_ask_how_categories_are_numbered(
    table: Table, drawn: int, k: int, relaxed: bool
) -> None:
    """Whatever the codes of categories, and whoever has several rows, the same rows are put together."""
    if gather_individuals(table).rows.size < k:
        return
    rng = np.random.default_rng(drawn)
    codes = np.stack(
        [
            rng.permutation(size)[column]
            for column, size in zip(table.categorical.T, table.cardinality, strict=True)
        ],
        axis=1,
    )
    name = "relaxed-mondrian" if relaxed else "mondrian"
    renumbered = replace(table, categorical=codes.astype(np.int32))
    assert label_sets(clustered(name, renumbered, k, 1)) == label_sets(clustered(name, table, k, 1))


@settings(derandomize=True, max_examples=120)
@given(st.integers(0, 2**20), st.integers(6, 60), st.integers(2, 4), st.booleans())
def test_mondrian_does_not_ask_how_siblings_of_a_hierarchy_are_ordered(
    drawn: int, n: int, k: int, relaxed: bool
) -> None:
    """Lines of a hierarchy's file may stand in any order."""
    rng = np.random.default_rng(drawn)
    table = mixed_table(drawn, n, trees=1)
    paths = tree_paths(drawn, 9)
    letters = [dict(zip("abcd", rng.permutation(4), strict=True)) for _ in range(max(map(len, paths)))]
    order = sorted(
        range(9), key=lambda leaf: [letters[depth][each] for depth, each in enumerate(paths[leaf])]
    )
    column = table.numeric[:, 0]
    known = ~np.isnan(column)
    moved = column.copy()
    moved[known] = np.argsort(order)[np.rint(column[known] * 8).astype(int)] / 8
    turned = replace(
        table,
        numeric=np.stack([moved, table.numeric[:, 1]], axis=1),
        heights=(tree_heights([paths[leaf] for leaf in order]), None),
    )
    name = "relaxed-mondrian" if relaxed else "mondrian"
    assert label_sets(clustered(name, turned, k, 1)) == label_sets(clustered(name, table, k, 1))


def test_mondrian_cuts_off_a_value_of_more_than_half_of_the_rows() -> None:
    """In the last place of an alphabet it would take all rows to its side, and no cut would stand."""
    codes = np.array([[4]] * 12 + [[0], [1], [2], [3]], dtype=np.int32)
    table = Table(np.empty((16, 0)), codes, np.array([5], dtype=np.int64), np.ones(1))
    assert label_sets(clustered("mondrian", table, 4, 1)) == {
        frozenset(range(12)),
        frozenset(range(12, 16)),
    }


@pytest.mark.parametrize("name", CLUSTERINGS)
@settings(derandomize=True, max_examples=25)
@given(tables(trees=True, most=40, individuals=True), st.integers(2, 5), st.integers(0, 99))
def test_classes_hold_k_individuals(name: str, table: Table, k: int, seed: int) -> None:
    """Labels are dense, every class has k members at least; only where individuals have several rows may one wait."""
    people = gather_individuals(table)
    if people.rows.size < k:
        with pytest.raises(InfeasibleError):
            clustered(name, table, k, seed)
        return
    labels = clustered(name, table, k, seed)
    assert labels.dtype == np.int32
    assert np.bincount(labels[labels >= 0]).min() >= k
    assert (labels >= 0).all() or (people.rows > 1).any()
    assert np.array_equal(labels, clustered(name, table, k, seed))


@pytest.mark.parametrize("name", CLUSTERINGS)
@settings(derandomize=True, max_examples=25)
@given(tables(trees=True, most=40, k=4), st.integers(2, 4), st.integers(0, 99))
def test_every_graph_is_legal_or_refused(name: str, table: Table, k: int, seed: int) -> None:
    """Over rows: a simple k-regular graph of distinct individuals; refused only where the table names individuals."""
    units = group_rows(table)
    distinct = table.individuals is not None
    try:
        members = clustered_members(units, name, k, seed, distinct=distinct)
    except InfeasibleError:
        assert distinct
        return
    assert naive.is_legal_graph(units, members, k)
    GeneralizationGraph(deal_rows(units, members)).check(table.individuals)


@pytest.mark.parametrize("name", [name for name in CLUSTERINGS if "mondrian" not in name])
def test_no_class_of_rows_holds_two_of_one_individual(name: str) -> None:
    """60 rows of 30 people with equal rows, which every distance would put together."""
    table = replace(mixed_table(3, 60), individuals=np.arange(60) // 2)
    table = replace(table, numeric=np.repeat(table.numeric[::2], 2, axis=0))
    table = replace(table, categorical=np.repeat(table.categorical[::2], 2, axis=0))
    given_, _ = row_input(group_rows(table), 4, 1, distinct=True)
    labels = CLUSTERINGS[name](given_)
    pairs = np.stack([labels.astype(np.int64), given_.who], axis=1)
    assert np.unique(pairs, axis=0).shape[0] == 60
    assert np.bincount(labels).min() >= 4


@pytest.mark.parametrize("name", CLUSTERINGS)
@pytest.mark.parametrize(("n", "k"), [(5, 5), (9, 5), (30, 5), (7, 2)])
def test_identical_rows_and_fewer_than_2k(name: str, n: int, k: int) -> None:
    """All rows alike, and nulls everywhere: classes of at least k that cost nothing."""
    table = Table(
        np.full((n, 1), np.nan), np.full((n, 1), 2, np.int32), np.array([3], dtype=np.int64), np.ones(2)
    )
    labels = clustered(name, table, k, 4)
    assert labels.min() == 0
    assert np.bincount(labels).min() >= k
    assert gcp(table, Partition(labels)) == 0
    if n < 2 * k:
        assert labels.max() == 0


@settings(derandomize=True, max_examples=50)
@given(tables(trees=True, most=30, individuals=True), st.integers(0, 99))
def test_the_loss_of_labels_is_that_of_their_classes(table: Table, seed: int) -> None:
    """Kept rows cost the box of all rows of the class, the others and the pool 1 each."""
    people = gather_individuals(table)
    labels = np.random.default_rng(seed).integers(-1, 3, people.rows.size).astype(np.int32)
    numbers = np.unique(table.individuals)
    lost = float(people.rows[labels < 0].sum())
    for label in range(3):
        members = numbers[labels == label].tolist()
        lost += naive.class_loss(table, members, 1) if members else 0.0
    assert labels_loss(people, labels) == pytest.approx(lost / table.records, abs=1e-9)


@settings(derandomize=True)
@given(st.lists(st.integers(-1, 4), min_size=1, max_size=60), st.integers(2, 4))
def test_large_classes_are_cut_along_the_tour(labels: list[int], k: int) -> None:
    """Classes of 2k become floor(s / k) stretches of the tour within one old class; smaller ones stay as they are."""
    _, dense = np.unique(np.array([-1, *labels]), return_inverse=True)
    old = (dense[1:] - 1).astype(np.int32)
    tour = np.random.default_rng(len(labels)).permutation(old.size)
    cut = cut_large_classes(old, tour, k)
    assert np.array_equal(cut < 0, old < 0)
    for label in range(int(old.max(initial=-1)) + 1):
        members = [unit for unit in tour if old[unit] == label]
        runs = [cut[unit] for unit in members]
        assert runs == sorted(runs)
        sizes = np.unique(runs, return_counts=True)[1]
        assert sizes.size == max(len(members) // k, 1)
        assert sizes.min() >= min(k, len(members))
    assert np.unique(cut[cut >= 0]).size == int(cut.max(initial=-1)) + 1


@pytest.mark.parametrize("name", CLUSTERINGS)
@pytest.mark.parametrize("shape", ["row_graph", "classes"])
def test_more_rows_than_pairs_can_be_compared_of(
    name: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quadratic clusterings name their limit and an alternative, in either shape; the others go on."""
    monkeypatch.setattr(clusterings, "LARGEST_QUADRATIC", 30)
    table = mixed_table(1, 40)
    if name in clusterings.SUBQUADRATIC:
        assert solve(Task(table, 2, shape=shape, seed=1), name).start == name
    else:
        with pytest.raises(UnservedError, match=f"{name} .* at most 30 .* l-greedy"):
            solve(Task(table, 2, shape=shape, seed=1), name)


def test_oka_refuses_what_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the limit and what to take instead."""
    monkeypatch.setattr(oka, "LARGEST_SHARES", 100)
    with pytest.raises(UnservedError, match="k-member"):
        clustered("oka", mixed_table(1, 40), 2, 1)


@pytest.mark.parametrize("name", CLUSTERINGS)
def test_rules_for_sensitive_values_are_met(name: str) -> None:
    """Classes that break a rule are joined with neighbours; what still does waits. Here nobody has to."""
    table = replace(mixed_table(4, 80, nulls=0.0), individuals=np.arange(80))
    values = np.arange(80) % 4
    rule = Sensitive(values, "distinct", 2, "equal", 0.5)
    solution = solve(Task(table, 4, shape="classes", seed=1, sensitive=[rule]), name)
    labels = solution.partition.labels
    solution.partition.check(4, np.arange(80))
    assert (labels >= 0).mean() > 0.8
    for label in range(solution.partition.classes):
        assert np.unique(values[labels == label]).size >= 2


@pytest.mark.parametrize("name", CLUSTERINGS)
def test_the_search_gains_on_every_clustering(name: str) -> None:
    """As a start of the class search a clustering is improved on, and named in the solution."""
    table = mixed_table(8, 120, nulls=0.0)
    solution = solve(Task(table, 3, shape="classes", start=name, budget=Budget(200.0), seed=1))
    assert solution.start == name
    assert solution.loss < solution.start_loss
    solution.partition.check(3, np.arange(120))
