"""Graphs from classes: every feasible multiset of individuals gets one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.starts.circulant import circulant_members, constructive_members
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import Units, group_rows


def people_units(counts: list[int], *, same_rows: bool) -> tuple[Units, np.ndarray]:
    """Individuals with these row counts, in mixed order; same_rows: equal rows, so one unit a person."""
    individuals = np.random.default_rng(len(counts)).permutation(np.repeat(np.arange(len(counts)), counts))
    values = individuals / len(counts) if same_rows else np.linspace(0, 1, individuals.size)
    table = Table(
        values[:, None],
        np.empty((individuals.size, 0), np.int32),
        np.empty(0, np.int64),
        np.ones(1),
        individuals,
    )
    return group_rows(table), individuals


def row_counts(rows: int) -> list[list[int]]:
    """Every multiset of positive row counts with that sum."""
    if rows == 0:
        return [[]]
    return [
        [*rest, last]
        for last in range(1, rows + 1)
        for rest in row_counts(rows - last)
        if not rest or rest[-1] >= last
    ]


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("same_rows", [True, False])
def test_every_feasible_multiset_of_individuals_gets_a_graph(k: int, same_rows: bool) -> None:
    """Up to 11 rows, every way to share them out: a valid graph iff nobody has more than a k-th, else refused."""
    for rows in range(k, 12):
        for counts in row_counts(rows):
            units, individuals = people_units(counts, same_rows=same_rows)
            if max(counts) * k <= rows:
                members = constructive_members(units, k, distinct=True)
                GeneralizationGraph(deal_rows(units, members)).check(individuals)
            else:
                with pytest.raises(InfeasibleError):
                    constructive_members(units, k, distinct=True)


@settings(derandomize=True, max_examples=100)
@given(st.lists(st.integers(1, 30), min_size=2, max_size=40), st.integers(2, 9))
def test_large_multisets_too(counts: list[int], k: int) -> None:
    """The same for random row counts, the largest ones cut to what is feasible."""
    while max(counts) * k > sum(counts):
        counts[counts.index(max(counts))] = max(counts) - 1
        if max(counts) == 0:
            return
    counts = [count for count in counts if count]
    if sum(counts) < k:
        return
    units, individuals = people_units(counts, same_rows=False)
    GeneralizationGraph(deal_rows(units, constructive_members(units, k, distinct=True))).check(individuals)


@settings(derandomize=True)
@given(st.lists(st.integers(3, 9), min_size=1, max_size=5), st.integers(2, 3))
def test_classes_become_components(sizes: list[int], k: int) -> None:
    """Slots of a class name rows of that class only, in cyclic runs of k."""
    n = sum(sizes)
    units, _ = people_units([1] * n, same_rows=False)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.random.default_rng(n).permutation(n).astype(np.int32)
    members = circulant_members(units, rows, starts, k, distinct=True)
    for begin, end in itertools.pairwise(starts):
        assert set(members[begin:end].ravel().tolist()) == set(rows[begin:end].tolist())
    GeneralizationGraph(deal_rows(units, members)).check()


def test_equal_rows_need_no_distinct_individuals() -> None:
    """Without individuals a slot takes equal rows side by side, each row once."""
    table = Table(np.full((6, 1), 0.5), np.empty((6, 0), np.int32), np.empty(0, np.int64), np.ones(1))
    units = group_rows(table)
    assert units.weight.tolist() == [6]
    GeneralizationGraph(deal_rows(units, constructive_members(units, 4, distinct=False))).check()


@pytest.mark.parametrize("distinct", [True, False])
def test_a_class_below_k_is_refused(distinct: bool) -> None:
    """Fewer than k rows cannot fill a slot."""
    units, _ = people_units([1, 1, 1, 1, 1], same_rows=False)
    rows = np.arange(5, dtype=np.int32)
    with pytest.raises(InfeasibleError, match="fewer than k=3"):
        circulant_members(units, rows, np.array([0, 3, 5]), 3, distinct=distinct)


def test_an_individual_with_too_many_rows_of_one_class_is_refused() -> None:
    """More than a k-th of a class, though not of the whole."""
    units, individuals = people_units([2, 1, 1, 1, 1], same_rows=False)
    heavy = np.flatnonzero(individuals[units.rows[units.first[:-1]]] == 0)
    light = np.setdiff1d(np.arange(6), heavy)
    rows = np.concatenate([heavy, light]).astype(np.int32)
    with pytest.raises(InfeasibleError, match="1/2 of the rows"):
        circulant_members(units, rows, np.array([0, 3, 6]), 2, distinct=True)
