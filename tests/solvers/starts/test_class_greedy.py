"""l-greedy over individuals: classes of exactly k, and fewer than k left over."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.starts.class_greedy import class_greedy_labels
from kanonflow.solvers.units.individuals import gather_individuals
from tests import naive
from tests.mixed_tables import tables

pytestmark = pytest.mark.thorough


@settings(derandomize=True)
@given(tables(trees=True, most=60, individuals=True), st.integers(2, 5), st.sampled_from([10, 1500]))
def test_classes_hold_k_individuals(table: Table, k: int, block: int) -> None:
    """Labels are dense, every class has exactly k members, fewer than k individuals have none."""
    people = gather_individuals(table)
    u = people.rows.size
    labels = class_greedy_labels(people, np.random.default_rng(u).permutation(u), k, block=block)
    assert np.bincount(labels[labels >= 0], minlength=u // k).tolist() == [k] * (u // k)
    assert (labels < 0).sum() == u % k


@settings(derandomize=True)
@given(tables(trees=True, most=24, individuals=True), st.integers(2, 3))
def test_each_member_is_the_cheapest_that_was_free(table: Table, k: int) -> None:
    """The first member has the most rows of those left; the others make the least loss a row, those that wait at 1."""
    people = gather_individuals(table)
    u = people.rows.size
    labels = class_greedy_labels(people, np.arange(u), k)
    numbers = np.unique(table.individuals).tolist()
    free = set(range(u))

    def loss(members: list[int]) -> float:
        rows = people.rows[members].sum()
        return naive.class_loss(table, [numbers[member] for member in members], len(members)) / rows

    for label in range(u // k):
        members = np.flatnonzero(labels == label).tolist()
        first = min(free, key=lambda unit: (-people.rows[unit], unit))
        assert first in members
        if k == 2:
            other = next(member for member in members if member != first)
            assert loss([first, other]) == pytest.approx(
                min(loss([first, unit]) for unit in free - {first}), abs=1e-9
            )
        free -= set(members)
