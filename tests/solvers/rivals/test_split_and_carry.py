"""Split & Carry: classes of k by programs over segments of a sorted order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.errors import InfeasibleError, UnservedError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.segment_program import class_columns, count_columns, least_cost_labels
from kanonflow.solvers.rivals.split_and_carry import split_and_carry_members
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import group_rows
from tests import naive
from tests.mixed_tables import mixed_table

pytestmark = pytest.mark.thorough


def numeric_table(seed: int, n: int, *, people: int | None = None, nulls: float = 0.1) -> Table:
    """Two numbers a row."""
    return mixed_table(seed, n, people=people, cardinality=(), nulls=nulls, k=3)


@settings(derandomize=True, max_examples=15)
@given(st.integers(0, 2**20), st.integers(6, 20), st.sampled_from([None, 9]), st.integers(2, 3))
def test_it_gives_a_valid_graph(seed: int, n: int, people: int | None, k: int) -> None:
    """Regular over units, simple over rows and individuals, or refused because of individuals."""
    table = numeric_table(seed, n, people=people)
    units = group_rows(table)
    distinct = people is not None
    try:
        members = split_and_carry_members(units, k, distinct=distinct)
    except InfeasibleError:
        assert distinct
        return
    assert naive.is_legal_graph(units, members, k)
    GeneralizationGraph(deal_rows(units, members)).check(table.individuals)


@pytest.mark.parametrize("seed", range(4))
def test_one_segment_is_grouped_at_least_cost(seed: int) -> None:
    """Six rows in two classes of three: no other of the ten groupings costs less."""
    table = numeric_table(seed, 6, nulls=0.0)
    units = group_rows(table)
    members = deal_rows(units, split_and_carry_members(units, 3, distinct=False))
    found = sum(naive.box_loss(table, slot) for slot in members.tolist())
    groupings = [
        (list(one), [row for row in range(6) if row not in one])
        for one in itertools.combinations(range(6), 3)
    ]
    best = min(3 * naive.box_loss(table, one) + 3 * naive.box_loss(table, two) for one, two in groupings)
    assert found == pytest.approx(best, abs=1e-9)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(2, 4))
def test_columns_are_all_classes_of_rows_that_differ(kinds: list[int], k: int) -> None:
    """Each choice of k rows once, rows of a kind being alike; and as many as counted."""
    given_kinds = np.unique(kinds, return_inverse=True)[1].astype(np.int64)
    choices = {tuple(sorted(chosen)) for chosen in itertools.combinations(given_kinds.tolist(), k)}
    columns = [tuple(column) for column in class_columns(given_kinds, k).tolist()]
    assert sorted(columns) == sorted(choices)
    assert count_columns(given_kinds, k) == len(choices)


def cheapest_grouping(values: np.ndarray, rows: frozenset[int], k: int) -> float:
    """The least sum of ranges of classes of k, by trying all."""
    if not rows:
        return 0.0
    first = min(rows)
    return min(
        float(np.ptp(values[[first, *others]], axis=0).sum())
        + cheapest_grouping(values, rows - {first, *others}, k)
        for others in itertools.combinations(sorted(rows - {first}), k - 1)
    )


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.integers(0, 2**20), st.sampled_from([(9, 3), (8, 2), (8, 4)]), st.integers(2, 6))
def test_the_program_is_exact(seed: int, size: tuple[int, int], values: int) -> None:
    """Whether rows are alike or not, no grouping of the segment costs less; every class has k rows."""
    rows, k = size
    drawn = np.random.default_rng(seed).integers(0, values, (rows, 2)).astype(np.float64)
    kinds = np.unique(drawn, axis=0, return_inverse=True)[1].ravel()
    labels = least_cost_labels(drawn, kinds, None, k, 1_000)
    assert labels is not None
    assert np.bincount(labels).tolist() == [k] * (rows // k)
    found = sum(np.ptp(drawn[labels == c], axis=0).sum() for c in range(rows // k))
    assert found == pytest.approx(cheapest_grouping(drawn, frozenset(range(rows)), k))


def test_what_is_carried_mends_the_border_of_segments() -> None:
    """Two segments of two blocks: the rows 4, 5, 5.1 of the border meet, which segments apart would not let them."""
    values = np.array([0, 0.1, 0.2, 4, 5, 5.1, 9, 9.1, 9.2])[:, None] / 9.2
    table = Table(values, np.empty((9, 0), np.int32), np.empty(0, np.int64), np.ones(1))
    units = group_rows(table)
    order = np.array([0, 1, 3, 2, 4, 6, 5, 7, 8], dtype=np.int32)
    apart, carried = (
        np.ptp(
            values[
                deal_rows(
                    units, split_and_carry_members(units, 3, distinct=False, columns=columns, order=order)
                )
            ],
            axis=1,
        ).mean()
        for columns in (1, 20)
    )
    assert carried < apart / 2


def test_without_room_for_a_program_the_sorted_blocks_are_there() -> None:
    """No column, or no node: the graph is legal all the same, and repeats."""
    table = numeric_table(1, 30, nulls=0.0)
    units = group_rows(table)
    for limits in ({"columns": 0}, {"nodes": 0}):
        first, again = (split_and_carry_members(units, 3, distinct=False, **limits) for _ in range(2))
        GeneralizationGraph(deal_rows(units, first)).check()
        assert np.array_equal(first, again)


def test_what_it_does_not_know_is_refused() -> None:
    """Categorical attributes, too many rows, a large k: each with an alternative."""
    with pytest.raises(UnservedError, match="numeric quasi-identifiers only: choose"):
        split_and_carry_members(group_rows(mixed_table(1, 20)), 3, distinct=False)
    units = group_rows(numeric_table(1, 60))
    with pytest.raises(UnservedError, match="at most 50 rows at once, not 60: choose"):
        split_and_carry_members(units, 3, distinct=False, limit=50)
    with pytest.raises(UnservedError, match="k up to 5, not 6: choose"):
        split_and_carry_members(units, 6, distinct=False)
