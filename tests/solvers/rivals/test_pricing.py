"""Pricing finds the cheapest slot of each anchor, and never claims more than it looked at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.bounds.bound_proof import BoundProof, check_bound, proven_bound
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.greedy_pricing import SECONDS, greedy_slots
from kanonflow.solvers.rivals.pricing import SLOTS_PER_ANCHOR, build_nodes, price_anchors
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from tests import naive, naive_bounds
from tests.mixed_tables import mixed_table, tables

pytestmark = pytest.mark.thorough

ANY = 1 << 40


def some_duals(units: Units, seed: int) -> NDArray[np.float64]:
    """Duals about as large as losses, a few of them negative, some equal."""
    return np.random.default_rng(seed).integers(-1, 7, units.weight.size) / 16


def priced(
    units: Units, dual: NDArray[np.float64], k: int, first: int, last: int, nodes: int
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Lowered duals and the slots found at ranks first..last-1."""
    slots = np.empty((units.weight.size * SLOTS_PER_ANCHOR, k), dtype=np.int32)
    lowered = dual.copy()
    order = np.argsort(-dual, kind="stable")
    scratch = build_nodes(units.features, int(units.weight.sum()), k)
    written, _, _ = price_anchors(units, scratch, lowered, order, first, last, k, nodes, slots)
    return lowered, slots[:written]


@settings(derandomize=True, max_examples=60)
@given(tables(k=5, least=6, most=9), st.integers(2, 5), st.integers(0, 2**20))
def test_one_anchor_is_priced_as_by_hand(table: Table, k: int, seed: int) -> None:
    """Each anchor's dual falls by the violation of its cheapest slot, found among all slots there are."""
    units = group_rows(table)
    dual = some_duals(units, seed)
    order = np.argsort(-dual, kind="stable").tolist()
    least = naive_bounds.least_by_anchor(table, units, k, dual, order)
    for place, anchor in enumerate(order):
        lowered, slots = priced(units, dual, k, place, place + 1, ANY)
        assert np.isclose(lowered[anchor] - dual[anchor], min(least[anchor], 0.0), atol=1e-9)
        costs = [naive_bounds.slot_loss(table, units, slot) - dual[slot].sum() for slot in slots]
        assert all(naive.may_stand_together(units, slot.tolist()) for slot in slots)
        assert np.isclose(min(costs, default=0.0), min(least[anchor], 0.0), atol=1e-9)


@settings(derandomize=True, max_examples=60)
@given(tables(k=5, least=6, most=9), st.integers(2, 5), st.integers(0, 2**20), st.integers(1, 6))
def test_lowered_duals_are_feasible_however_few_the_nodes(
    table: Table, k: int, seed: int, nodes: int
) -> None:
    """After a whole pass no slot costs less than its duals, also where walks were ended by their nodes."""
    units = group_rows(table)
    dual = some_duals(units, seed)
    for most in (nodes, ANY):
        lowered, _ = priced(units, dual, k, 0, dual.size, most)
        assert np.all(lowered <= dual)
        if np.all(np.isfinite(lowered)):
            assert naive_bounds.least_reduced_cost(table, units, k, lowered) >= -1e-9


@settings(derandomize=True, max_examples=60)
@given(tables(k=4, least=6, most=12), st.integers(2, 4), st.integers(0, 2**20), st.integers(1, 20))
def test_greedy_slots_are_legal_and_cost_less_than_their_duals(
    table: Table, k: int, seed: int, candidates: int
) -> None:
    """What is grown may be a slot, and its reduced cost is negative by the definition."""
    units = group_rows(table)
    dual = some_duals(units, seed)
    scratch = build_nodes(units.features, int(units.weight.sum()), k)
    slots = np.empty((dual.size * SECONDS, k), dtype=np.int32)
    written = greedy_slots(units, scratch, dual, 0, dual.size, k, candidates, slots)
    for slot in slots[:written]:
        assert naive.may_stand_together(units, slot.tolist())
        assert naive_bounds.slot_loss(table, units, slot) - dual[slot].sum() < 0.0


def test_greedy_growth_finds_a_violated_slot() -> None:
    """Where every dual is high, every slot is violated: each unit gets some."""
    units = group_rows(mixed_table(3, 12, nulls=0.0))
    dual = np.full(units.weight.size, 2.0)
    slots = np.empty((dual.size * SECONDS, 3), dtype=np.int32)
    scratch = build_nodes(units.features, 12, 3)
    assert greedy_slots(units, scratch, dual, 0, dual.size, 3, 8, slots) == dual.size * SECONDS


@pytest.mark.parametrize("seed", range(12))
def test_the_checker_accepts_what_a_pass_leaves(seed: int) -> None:
    """30 rows and k up to 7, too many slots to list: the checker, which shares no kernel, finds none violated."""
    k = 3 + seed % 5
    people, kinds = (None if seed % 2 else 20), (12 if seed % 3 == 0 else None)
    table = mixed_table(seed, 30, people=people, kinds=kinds, k=k, cardinality=(2, 5, 64, 65))
    units = group_rows(table)
    dual = np.random.default_rng(seed).random(units.weight.size) / 6
    lowered, slots = priced(units, dual, k, 0, dual.size, ANY)
    assert len(slots) > 0
    bound = proven_bound(units.weight, k, lowered)
    assert check_bound(table, BoundProof(k, dual, dual - lowered, bound)) == bound
    with pytest.raises(StructureError, match="refused"):
        check_bound(table, BoundProof(k, dual, 0 * dual, proven_bound(units.weight, k, dual)))
