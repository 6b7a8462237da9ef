"""Split & Carry: classes of k by programs over segments of a sorted order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.errors import InfeasibleError, UnservedError
from kanonflow.solvers.problem.table import Table
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
    members = deal_rows(units, split_and_carry_members(units, 3, distinct=False, nodes=10_000))
    found = sum(naive.box_loss(table, slot) for slot in members.tolist())
    groupings = [
        (list(one), [row for row in range(6) if row not in one])
        for one in itertools.combinations(range(6), 3)
    ]
    best = min(3 * naive.box_loss(table, one) + 3 * naive.box_loss(table, two) for one, two in groupings)
    assert found == pytest.approx(best, abs=1e-9)


def test_without_nodes_the_sorted_blocks_are_there() -> None:
    """The program may end without a grouping; the graph is legal all the same, and repeats."""
    table = numeric_table(1, 30, nulls=0.0)
    units = group_rows(table)
    first, again = (split_and_carry_members(units, 3, distinct=False, nodes=0) for _ in range(2))
    GeneralizationGraph(deal_rows(units, first)).check()
    assert np.array_equal(first, again)


def test_what_it_does_not_know_is_refused() -> None:
    """Categorical attributes, too many rows, a large k: each with an alternative."""
    with pytest.raises(UnservedError, match="numeric quasi-identifiers only: choose"):
        split_and_carry_members(group_rows(mixed_table(1, 20)), 3, distinct=False)
    units = group_rows(numeric_table(1, 60))
    with pytest.raises(UnservedError, match="at most 50 rows at once, not 60: choose"):
        split_and_carry_members(units, 3, distinct=False, limit=50)
    with pytest.raises(UnservedError, match="k up to 10, not 21: choose"):
        split_and_carry_members(units, 21, distinct=False)
