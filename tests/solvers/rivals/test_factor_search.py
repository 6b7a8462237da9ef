"""Factor search: assignments over what is taken out of neighbouring slots."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.factor_search import FORBIDDEN, factor_costs, factor_search, put_back
from kanonflow.solvers.search.slots import build_slots
from kanonflow.solvers.units.distinct_rows import group_rows
from tests import naive
from tests.mixed_tables import mixed_table, scrambled_members, tables, unit_rows

pytestmark = pytest.mark.thorough

arguments = given(tables(k=4, least=8, most=18), st.integers(2, 4), st.integers(0, 2**20))


@settings(derandomize=True, max_examples=40)
@arguments
def test_costs_are_those_of_the_changed_boxes(table: Table, k: int, seed: int) -> None:
    """cost[i, j] = loss of slot i with the unit of slot j in its open place, where that is legal."""
    units = group_rows(table)
    slots = build_slots(units, scrambled_members(units, k, distinct=table.individuals is not None, seed=seed))
    generator = np.random.default_rng(seed)
    chosen = generator.permutation(table.records)[:5]
    place = generator.integers(0, k, 5)
    cost = np.empty((5, 5))
    factor_costs(units, slots, chosen, place, cost)
    rows = unit_rows(units)
    for i in range(5):
        for j in range(5):
            unit = int(slots.members[chosen[j], place[j]])
            members = naive.replaced(slots.members[chosen[i]].tolist(), int(place[i]), unit)
            if naive.may_stand_together(units, members):
                assert cost[i, j] == pytest.approx(naive.box_loss(table, [rows[each] for each in members]))
            else:
                assert cost[i, j] == FORBIDDEN


@pytest.mark.parametrize("taken", permutations(range(4)))
def test_what_is_put_back_stands_where_it_should(taken: tuple[int, ...]) -> None:
    """Every permutation of four slots; the state is that of its members afterwards."""
    units = group_rows(mixed_table(1, 12))
    slots = build_slots(units, scrambled_members(units, 3, distinct=False, seed=4))
    chosen, place = np.array([7, 2, 9, 4]), np.array([0, 2, 1, 2])
    before = slots.members.copy()
    put_back(units, slots, chosen, place, np.array(taken))
    expected = before.copy()
    expected[chosen, place] = before[chosen[list(taken)], place[list(taken)]]
    assert np.array_equal(slots.members, expected)
    assert np.allclose(slots.loss, build_slots(units, expected).loss)


@settings(derandomize=True, max_examples=40)
@arguments
def test_it_never_raises_the_loss_and_keeps_the_graph_legal(table: Table, k: int, seed: int) -> None:
    """Small chunks and large ones; the evaluations are the entries of the matrices."""
    units = group_rows(table)
    for chunk in (3, 100):
        slots = build_slots(
            units, scrambled_members(units, k, distinct=table.individuals is not None, seed=seed)
        )
        before = slots.loss.sum()
        made = factor_search(units, slots, np.arange(table.records), sweeps=5, seed=seed, chunk=chunk)
        assert slots.loss.sum() <= before + 1e-9
        assert naive.is_legal_graph(units, slots.members, k)
        assert chunk == 3 or made == 5 * table.records**2


def test_it_finds_better_graphs() -> None:
    """On a table that a random graph serves badly, it lowers the loss by a third at least, the same each time."""
    units = group_rows(mixed_table(8, 120))
    found = []
    for _ in range(2):
        slots = build_slots(units, scrambled_members(units, 4, distinct=False, seed=1))
        before = float(slots.loss.sum())
        factor_search(units, slots, np.arange(120), sweeps=16, seed=1)
        assert slots.loss.sum() < 2 / 3 * before
        found.append(slots.members.copy())
    assert np.array_equal(*found)
