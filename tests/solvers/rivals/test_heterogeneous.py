"""Greedy, SortGreedy, Hungarian: equal to their literal twins, legal whatever the table, and within their limits."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.small_example import example_table, printed_loss
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError, UnservedError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.greedy import greedy_members
from kanonflow.solvers.rivals.hungarian import hungarian_members
from kanonflow.solvers.rivals.open_slots import lexicographic_rows
from kanonflow.solvers.rivals.sort_greedy import sort_greedy_members
from kanonflow.solvers.shapes.graphs import deal_rows
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from tests import naive, naive_constructions
from tests.mixed_tables import mixed_table, tables, unit_rows
from tests.naive_constructions import exact_table

pytestmark = pytest.mark.thorough


def sort_greedy(units: Units, k: int, **named: int) -> NDArray[np.int32]:
    """SortGreedy with the tree that its blocks need."""
    return sort_greedy_members(units, build_tree(units.features, units.weight, units.individual), k, **named)


CONSTRUCTIONS: dict[str, Callable[..., NDArray[np.int32]]] = {
    "greedy": greedy_members,
    "sort-greedy": sort_greedy,
    "hungarian": hungarian_members,
}
EXACT = st.builds(
    exact_table,
    st.integers(0, 2**20),
    st.integers(5, 12),
    people=st.sampled_from([None, None, 6, 9]),
    kinds=st.sampled_from([None, None, 4]),
)


@settings(derandomize=True, max_examples=60)
@given(EXACT, st.integers(2, 4), st.sampled_from([1, 2, 24]))
def test_greedy_and_sort_greedy_are_their_literal_twins(table: Table, k: int, listed: int) -> None:
    """The same slots as the algorithms written out over all edges, repairs included, or no assignment for both."""
    units = group_rows(table)
    twins = (
        (naive_constructions.greedy_round, lambda: greedy_members(units, k)),
        (naive_constructions.sort_greedy_round, lambda: sort_greedy(units, k, listed=listed)),
    )
    for one_round, construct in twins:
        expected = naive_constructions.build(table, units, k, one_round)
        if expected is None:
            with pytest.raises(InfeasibleError):
                construct()
        else:
            assert construct().tolist() == expected


@settings(derandomize=True, max_examples=25)
@given(st.integers(0, 2**20), st.integers(4, 6), st.integers(2, 3), st.booleans())
def test_each_hungarian_round_is_optimal(seed: int, n: int, k: int, shared: bool) -> None:
    """No other assignment of the round costs less: every permutation is tried."""
    table = exact_table(seed, n, kinds=3 if shared else None)
    units = group_rows(table)
    rows = unit_rows(units)
    members = hungarian_members(units, k).tolist()
    assert [slot[0] for slot in members] == naive_constructions.sorted_sources(table, units)
    for size in range(1, k):
        slots = [slot[:size] for slot in members]
        before = [naive.box_loss(table, [rows[unit] for unit in slot]) for slot in slots]
        sources = naive_constructions.sorted_sources(table, units)

        def price(
            i: int, j: int, slots: list = slots, before: list = before, sources: list = sources
        ) -> float:
            joined = [*slots[j], sources[i]]
            if not naive.may_stand_together(units, joined):
                return math.inf
            return naive.box_loss(table, [rows[unit] for unit in joined]) - before[j]

        after = [naive.box_loss(table, [rows[unit] for unit in slot[: size + 1]]) for slot in members]
        assert sum(after) - sum(before) == naive_constructions.least_assignment(price, n)


@settings(derandomize=True, max_examples=60)
@given(tables(trees=True, most=60, k=4), st.integers(2, 4), st.sampled_from(sorted(CONSTRUCTIONS)))
def test_they_give_a_valid_graph(table: Table, k: int, name: str) -> None:
    """Regular over units, and simple over rows and individuals; only individuals with several rows may prevent it."""
    units = group_rows(table)
    try:
        members = CONSTRUCTIONS[name](units, k)
    except InfeasibleError:
        assert table.individuals is not None
        assert np.unique(table.individuals).size < table.records
        return
    assert naive.is_legal_graph(units, members, k)
    GeneralizationGraph(deal_rows(units, members)).check(table.individuals)


@settings(derandomize=True, max_examples=30)
@given(tables(trees=True, most=60, k=4), st.integers(2, 4), st.sampled_from([8, 20]))
def test_sort_greedy_in_blocks_gives_a_valid_graph(table: Table, k: int, block: int) -> None:
    """Each block is a graph of its own; together they hold every row."""
    units = group_rows(table)
    try:
        members = sort_greedy(units, k, block_rows=block)
    except InfeasibleError:
        assert table.individuals is not None
        return
    assert naive.is_legal_graph(units, members, k)


def test_one_block_is_the_whole() -> None:
    """A block that holds every row gives what no blocks give."""
    units = group_rows(mixed_table(5, 80))
    assert np.array_equal(sort_greedy(units, 3), sort_greedy(units, 3, block_rows=200))


def test_each_improves_on_the_one_before() -> None:
    """On rows that all differ: Hungarian below SortGreedy below Greedy, as S2 and S0 report."""
    table = mixed_table(7, 300, numeric=3, cardinality=(5, 90), nulls=0.0)
    units = group_rows(table)
    losses = [
        np.mean([naive.box_loss(table, slot) for slot in deal_rows(units, construct(units, 5)).tolist()])
        for construct in (hungarian_members, sort_greedy, greedy_members)
    ]
    assert losses == sorted(losses)


def test_the_example_of_the_paper() -> None:
    """S2, Table I, k = 3: the paper's graph has GCP 0.400538; assignments of least cost find a better one."""
    table = example_table()
    units = group_rows(table)
    loss = {
        name: gcp(table, GeneralizationGraph(deal_rows(units, construct(units, 3))))
        for name, construct in CONSTRUCTIONS.items()
    }
    assert loss["hungarian"] == pytest.approx(0.357217, abs=1e-6)
    assert printed_loss() == pytest.approx(0.400538, abs=1e-6)
    assert loss["hungarian"] < printed_loss() < loss["greedy"]


def test_attributes_of_few_values_sort_first() -> None:
    """The numeric attribute has two values and leads, the categorical one has three; equal rows stay in order."""
    numeric = np.array([[1.0], [0.0], [1.0], [0.0], [0.0]])
    codes = np.array([[0], [2], [1], [0], [2]], dtype=np.int32)
    units = group_rows(Table(numeric, codes, np.array([3]), np.ones(2)))
    assert units.of_row[[3, 1, 4, 0, 2]].tolist() == lexicographic_rows(units).tolist()


@pytest.mark.parametrize("name", sorted(CONSTRUCTIONS))
def test_too_many_rows_are_refused_with_the_limit_and_an_alternative(name: str) -> None:
    """A BudgetError, not a memory error or a night's wait."""
    units = group_rows(mixed_table(1, 51))
    with pytest.raises(UnservedError, match=rf"{name} takes at most 50 rows at once, not 51: choose .*auto"):
        CONSTRUCTIONS[name](units, 3, limit=50)
    CONSTRUCTIONS[name](units, 3, limit=51)
    assert issubclass(UnservedError, BudgetError)
