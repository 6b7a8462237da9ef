"""The LP bound: the value of the program over all slots, however it is reached, and below every graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.bounds import restricted_master
from kanonflow.solvers.bounds.bound_proof import check_bound
from kanonflow.solvers.bounds.nearest_neighbour import neighbour_bound, neighbour_reach
from kanonflow.solvers.bounds.restricted_master import RestrictedMaster, slot_losses
from kanonflow.solvers.bounds.rounding import round_slots
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.column_generation import LinearBound, PricingLimits, linear_bound
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.neighbours import nearest_units
from tests import naive, naive_bounds
from tests.mixed_tables import mixed_table, scrambled_members, tables, unit_rows
from tests.ticking import Ticking

pytestmark = pytest.mark.thorough

TIGHT = PricingLimits(gap=0.0)


def bounded(table: Table, k: int, limits: PricingLimits = TIGHT, **given: object) -> LinearBound:
    """The bound from one random graph's slots."""
    units = group_rows(table)
    members = scrambled_members(units, k, distinct=table.individuals is not None, seed=1)
    return linear_bound(units, members, k, limits=limits, **given)  # type: ignore[arg-type]


@settings(derandomize=True, max_examples=30)
@given(tables(k=4, least=6, most=9), st.integers(2, 4))
def test_it_reaches_the_program_over_all_slots(table: Table, k: int) -> None:
    """With individuals, weights, duplicates and nulls: the bound is the value of the whole program, and is proved."""
    found = bounded(table, k)
    units = group_rows(table)
    best = naive_bounds.least_lp_loss(table, units, k)
    assert found.proof.bound == pytest.approx(best, abs=1e-7)
    assert found.proof.bound <= best + 1e-12
    assert found.value == pytest.approx(best, abs=1e-7)
    assert np.all(found.proof.shift >= 0)
    assert check_bound(table, found.proof) == found.proof.bound


@pytest.mark.parametrize(("n", "k", "people"), [(5, 2, None), (6, 2, 3), (5, 3, None), (6, 3, 5)])
@pytest.mark.parametrize("kinds", [None, 4])
def test_it_is_below_the_best_graph(n: int, k: int, people: int | None, kinds: int | None) -> None:
    """On tiny tables: not above the optimum over all graphs."""
    for seed in range(3):
        table = mixed_table(seed, n, people=people, kinds=kinds, k=k)
        assert bounded(table, k).proof.bound <= naive.least_graph_loss(table, k) + 1e-12


@settings(derandomize=True, max_examples=20)
@given(tables(k=3, least=8, most=16), st.integers(2, 3), st.integers(1, 4), st.integers(1, 2))
def test_it_is_valid_when_cut_short(table: Table, k: int, nodes: int, passes: int) -> None:
    """Few nodes and passes, and a deadline at once, leave a bound that the checker accepts."""
    for limits, deadline in (
        (PricingLimits(exact=passes, heuristic=1, nodes=nodes), None),
        (TIGHT, 2.5),
    ):
        found = bounded(table, k, limits, deadline=deadline, clock=Ticking(1.0))
        assert check_bound(table, found.proof) == found.proof.bound
        assert found.proof.bound <= found.value + 1e-9
        assert found.deadline_struck == (deadline is not None)


@settings(derandomize=True, max_examples=30)
@given(tables(k=4, least=8, most=16), st.integers(2, 4))
def test_the_neighbour_bound_is_a_proof_too(table: Table, k: int) -> None:
    """A k-th of each unit's reach is feasible: the checker takes it, and its bound is LB1. No pass lowers it."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    lists = nearest_units(units.features, tree, units.individual, k - 1)
    floor = neighbour_reach(units, *lists, k) / k
    found = bounded(table, k, PricingLimits(exact=0, heuristic=0), floor=floor)
    assert found.proof.bound == pytest.approx(neighbour_bound(units, *lists, k), abs=1e-8)
    assert check_bound(table, found.proof) == found.proof.bound
    assert bounded(table, k, floor=floor).proof.bound >= found.proof.bound - 1e-9


def test_slots_are_priced_as_boxes() -> None:
    """The program's costs are those of the definition; a known slot is not added twice."""
    table = mixed_table(5, 20, kinds=9)
    units = group_rows(table)
    slots = scrambled_members(units, 3, distinct=False, seed=2)
    rows = unit_rows(units)
    expected = [naive.box_loss(table, [rows[unit] for unit in slot]) for slot in slots.tolist()]
    assert slot_losses(units.features, slots) == pytest.approx(expected, abs=1e-12)
    master = RestrictedMaster(units, 3)
    added = master.add(slots)
    assert added == len({tuple(sorted(slot)) for slot in slots.tolist()})
    assert master.add(slots[:, ::-1]) == 0


@settings(derandomize=True, max_examples=30)
@given(tables(k=4, least=8, most=30), st.integers(2, 4), st.integers(0, 3), st.booleans())
def test_rounding_gives_a_legal_graph(table: Table, k: int, seed: int, solved: bool) -> None:
    """From the program's x, and from shares that mean nothing: legal, or none at all."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, _ = nearest_units(units.features, tree, units.individual, 5)
    found = bounded(table, k)
    x = found.x if solved else np.random.default_rng(seed).random(found.x.size) * 3
    members = round_slots(units, nearest, tree.order, found.slots, x, k, seed)
    if members is not None:
        assert naive.is_legal_graph(units, members, k)
        if solved and np.all(np.abs(x - np.round(x)) < 1e-6):
            assert slot_losses(units.features, members).mean() == pytest.approx(found.value, abs=1e-6)


@settings(derandomize=True, max_examples=60)
@given(tables(k=5, least=8, most=30), st.integers(2, 5), st.integers(0, 3), st.floats(0.2, 3.0))
def test_rounding_takes_what_its_twin_takes(table: Table, k: int, seed: int, scale: float) -> None:
    """Whole parts, then shares, then parts of slots, from any x; holes are filled only where the twin leaves some."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, _ = nearest_units(units.features, tree, units.individual, 5)
    members = [
        scrambled_members(units, k, distinct=table.individuals is not None, seed=each) for each in (1, 2, 3)
    ]
    slots = np.unique(np.sort(np.concatenate(members), axis=1), axis=0).astype(np.int32)
    x = scale * np.random.default_rng(seed).random(slots.shape[0])
    taken, need = naive_bounds.rounded_slots(units, slots, x, k, seed)
    rounded = round_slots(units, nearest, tree.order, slots, x, k, seed)
    if rounded is None:
        return
    # Of a slot taken in part the first members are kept, but where an exchange for a hole had to move one of them.
    kept = [tuple(row[: len(slot)]) == slot for row, slot in zip(rounded.tolist(), taken, strict=False)]
    holes = sum(need.values())
    assert holes == rounded.size - sum(len(slot) for slot in taken)
    assert len(kept) - sum(kept) <= holes
    if holes == 0:
        assert all(kept)


@settings(derandomize=True, max_examples=30)
@given(tables(k=5, least=8, most=30), st.integers(3, 5))
def test_a_rough_program_is_nearly_solved(table: Table, k: int) -> None:
    """By the first-order method: nearly the simplex method's value, equations that nearly hold, nothing below 0."""
    units = group_rows(table)
    exact, rough = RestrictedMaster(units, k), RestrictedMaster(units, k, roughly=True)
    for seed in (1, 2, 3):
        slots = scrambled_members(units, k, distinct=table.individuals is not None, seed=seed)
        losses = slot_losses(units.features, slots)
        assert exact.add(slots) == rough.add(slots, losses)
    assert exact.solve()
    assert rough.solve()
    assert rough.value == pytest.approx(exact.value, rel=0.02, abs=0.02)
    held = np.zeros(units.weight.size)
    for slot, share in zip(rough.slots, rough.x, strict=True):
        np.add.at(held, slot, share)
    assert np.abs(held - k * units.weight).sum() <= 0.02 * k * table.records
    assert rough.x.min() >= -1e-9


def test_a_rough_program_that_is_cut_short_can_be_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first-order method has after a few iterations is taken; the graph is legal whatever it is."""
    monkeypatch.setattr(restricted_master, "ROUGH_ITERATIONS", 5)
    table = mixed_table(5, 60, kinds=20)
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, _ = nearest_units(units.features, tree, units.individual, 5)
    exact, rough = RestrictedMaster(units, 4), RestrictedMaster(units, 4, roughly=True)
    for seed in (1, 2, 3):
        slots = scrambled_members(units, 4, distinct=False, seed=seed)
        exact.add(slots)
        rough.add(slots)
    assert exact.solve()
    assert rough.solve()
    assert rough.value != pytest.approx(exact.value, rel=1e-3)
    assert rough.x.any()
    members = round_slots(units, nearest, tree.order, rough.slots, rough.x, 4, 1)
    assert members is not None
    assert naive.is_legal_graph(units, members, 4)


def test_a_program_without_time_keeps_its_last_solution() -> None:
    """Nothing before the first solution; after it, slots that came later are not taken."""
    table = mixed_table(5, 20, kinds=9)
    units = group_rows(table)
    master = RestrictedMaster(units, 3)
    master.add(scrambled_members(units, 3, distinct=False, seed=2))
    assert not master.solve(0.0)
    assert np.isinf(master.value)
    assert not master.x.any()
    assert master.solve()
    value, x, dual = master.value, master.x, master.dual
    new = master.add(scrambled_members(units, 3, distinct=False, seed=3))
    assert new > 0
    assert not master.solve(0.0)
    assert master.value == value
    assert np.array_equal(master.dual, dual)
    assert np.array_equal(master.x, np.append(x, np.zeros(new)))
    assert master.solve(1000.0)
    assert master.value <= value + 1e-9
