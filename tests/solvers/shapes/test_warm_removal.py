"""Records leave a graph: slots are dissolved and their members find other places, legally and completely."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.shapes.torn_slots import loss_with
from kanonflow.solvers.shapes.warm_removal import dissolve_slots
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.neighbours import nearest_units
from tests import naive
from tests.mixed_tables import mixed_table, scrambled_members, tables, unit_rows

pytestmark = pytest.mark.thorough


def near(units: Units) -> np.ndarray:
    """Five neighbours of each unit."""
    tree = build_tree(units.features, units.weight, units.individual)
    return np.ascontiguousarray(nearest_units(units.features, tree, units.individual, 5)[0])


@settings(derandomize=True, max_examples=100)
@given(tables(trees=True, k=3, most=30), st.integers(0, 2**20), st.integers(0, 3))
def test_the_loss_of_an_open_slot_is_that_of_its_members(table: Table, seed: int, absent: int) -> None:
    """Box of those who are there, with or without one more, against the naive loss of the rows."""
    units = group_rows(table)
    rows = unit_rows(units)
    rng = np.random.default_rng(seed)
    members = rng.integers(0, units.weight.size, (1, 4)).astype(np.int32)
    members[0, :absent] = -1
    here = members[0, absent:].tolist()
    unit = int(rng.integers(0, units.weight.size))
    assert loss_with(units, members, 0, -1) == pytest.approx(naive.box_loss(table, [rows[m] for m in here]))
    together = [rows[m] for m in [*here, unit]]
    assert loss_with(units, members, 0, unit) == pytest.approx(naive.box_loss(table, together))


@settings(derandomize=True, max_examples=150)
@given(tables(k=3, most=40), st.integers(2, 3), st.integers(0, 2**20), st.integers(0, 8), st.booleans())
def test_no_member_is_lost_or_doubled(
    table: Table, k: int, seed: int, count: int, more_than_left: bool
) -> None:
    """Slots and places add up, every slot stays legal, a unit gains no place, and who keeps all is reported right."""
    units = group_rows(table)
    distinct = table.individuals is not None
    members = scrambled_members(units, k, distinct=distinct, seed=seed)
    gone = np.random.default_rng(seed).integers(0, units.weight.size, 3)
    members[np.isin(members, gone)] = -1
    before = members.copy()
    most = int((members < 0).sum()) // k
    count = min(count if more_than_left else most, members.shape[0])
    removed = dissolve_slots(units, near(units), members, count)
    assert np.array_equal(members, before)
    assert removed.members.shape == (members.shape[0] - count, k)
    for slot in removed.members.tolist():
        assert naive.may_stand_together(units, [unit for unit in slot if unit >= 0])
    places = np.bincount(removed.members[removed.members >= 0], minlength=units.weight.size)
    assert np.all(places <= np.bincount(before[before >= 0], minlength=units.weight.size))
    kept = {tuple(slot) for slot in before.tolist()}
    assert all(tuple(slot) in kept for slot in removed.members[~removed.changed].tolist())


def test_members_go_where_there_is_room() -> None:
    """When one record of a loose graph leaves, nobody is left without a place, and it comes out the same again."""
    table = mixed_table(5, 200, numeric=3, nulls=0.0)
    units = group_rows(table)
    members = scrambled_members(units, 4, distinct=False, seed=2, swaps=2000)
    leaving = int(np.flatnonzero(units.weight == 1)[0])
    members[members == leaving] = -1
    removed = dissolve_slots(units, near(units), members, 1)
    assert removed.evaluations > 0
    assert (removed.members < 0).sum() == 0
    again = dissolve_slots(units, near(units), members, 1)
    assert np.array_equal(removed.members, again.members)


def test_who_shares_every_open_slot_makes_another_move() -> None:
    """A clique loses one: its four others stand in all five slots, so units outside take the open places."""
    rng = np.random.default_rng(3)
    table = Table(rng.random((60, 2)), np.empty((60, 0), np.int32), np.empty(0, np.int64), np.ones(2))
    units = group_rows(table)
    cliques = np.repeat(np.arange(60).reshape(12, 5), 5, axis=0).astype(np.int32)
    cliques[cliques == 7] = -1
    removed = dissolve_slots(units, near(units), cliques, 1)
    assert (removed.members < 0).sum() == 0
    assert np.array_equal(
        np.bincount(removed.members.ravel(), minlength=60), np.where(np.arange(60) == 7, 0, 5)
    )
