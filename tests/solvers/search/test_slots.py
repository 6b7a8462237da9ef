"""The state of the graph search agrees with boxes computed afresh."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search.slot_loss import PLACE, admits, swap
from kanonflow.solvers.search.slots import Slots, build_slots, least_added, replaced_loss
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from tests import naive
from tests.mixed_tables import scrambled_members, tables, unit_rows

pytestmark = pytest.mark.thorough

arguments = given(tables(trees=True, k=4, most=16), st.integers(2, 4), st.integers(0, 2**20))


def build(table: Table, k: int, seed: int) -> tuple[Units, Slots]:
    """A random legal graph and its state."""
    units = group_rows(table)
    members = scrambled_members(units, k, distinct=table.individuals is not None, seed=seed)
    return units, build_slots(units, members)


@settings(derandomize=True, max_examples=60)
@arguments
def test_losses_are_those_of_the_boxes(table: Table, k: int, seed: int) -> None:
    """Loss of a slot = NCP of its members' box; spare of a place = what the box is less without that member."""
    units, slots = build(table, k, seed)
    rows = unit_rows(units)
    for slot, members in enumerate(slots.members.tolist()):
        whole = naive.box_loss(table, [rows[unit] for unit in members])
        assert slots.loss[slot] == pytest.approx(whole, abs=1e-12)
        for p in range(k):
            others = naive.box_loss(table, [rows[unit] for at, unit in enumerate(members) if at != p])
            assert slots.spare[slot, p] == pytest.approx(whole - others, abs=1e-12)


@settings(derandomize=True, max_examples=60)
@arguments
def test_replaced_loss_is_that_of_the_changed_box(table: Table, k: int, seed: int) -> None:
    """For every unit of the table in every place of some slots."""
    units, slots = build(table, k, seed)
    rows = unit_rows(units)
    for slot in range(0, table.records, 3):
        members = slots.members[slot].tolist()
        for p in range(k):
            for unit in range(len(rows)):
                box = [rows[held] for held in naive.replaced(members, p, unit)]
                found = replaced_loss(units.features, slots, slot, p, unit)
                least = least_added(units.features, slots, slot, unit)
                assert found >= slots.loss[slot] - slots.spare[slot, p] + least - 1e-12
                assert found == pytest.approx(naive.box_loss(table, box), abs=1e-12)


@settings(derandomize=True, max_examples=60)
@arguments
def test_a_swap_changes_what_a_new_state_would_say_and_undoes_itself(table: Table, k: int, seed: int) -> None:
    """After random swaps the state equals one built from the members; the same swaps backwards restore it."""
    units, slots = build(table, k, seed)
    before = slots.members.copy()
    total = slots.loss.sum()
    rng = np.random.default_rng(seed)
    done = []
    for _ in range(10):
        b, d = (int(x) for x in rng.choice(table.records, 2, replace=False))
        p, q = (int(x) for x in rng.integers(0, k, 2))
        change = swap(units.features, slots, b, p, d, q)
        total += change
        assert total == pytest.approx(slots.loss.sum(), abs=1e-9)
        done.append((b, p, d, q))
    assert_consistent(units, slots)
    for move in reversed(done):
        swap(units.features, slots, *move)
    assert np.array_equal(slots.members, before)
    assert_consistent(units, slots)


@settings(derandomize=True, max_examples=60)
@arguments
def test_admits_is_the_legality_of_a_swap(table: Table, k: int, seed: int) -> None:
    """A unit may come in iff afterwards the slot names each individual no more often than it may."""
    units, slots = build(table, k, seed)
    for slot, members in enumerate(slots.members.tolist()):
        for p in range(k):
            for unit in range(units.weight.size):
                legal = naive.may_stand_together(units, naive.replaced(members, p, unit))
                assert admits(slots, slot, p, int(units.individual[unit]), int(units.limit[unit])) == legal


def assert_consistent(units: Units, slots: Slots) -> None:
    """What is kept equals what would be built afresh, and each place is listed under its unit."""
    fresh = build_slots(units, slots.members)
    for name in ("who", "wide", "rest", "rest_words", "hull", "hull_words", "loss", "spare"):
        assert np.allclose(getattr(slots, name), getattr(fresh, name), atol=1e-9), name
    n, k = slots.members.shape
    for slot in range(n):
        for p in range(k):
            entry = slots.entry[slot, p]
            unit = slots.members[slot, p]
            assert slots.places[entry] == slot * PLACE + p
            assert slots.first_place[unit] <= entry < slots.first_place[unit + 1]
