"""Pricing finds the cheapest slot of each anchor, and never claims more than it looked at."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.bounds.pricing import SLOTS_PER_ANCHOR, build_nodes, price_anchors
from kanonflow.solvers.distinct_rows import Units, group_rows
from kanonflow.solvers.table import Table
from tests import naive, naive_bounds
from tests.mixed_tables import tables

ANY = 1 << 40


def some_duals(units: Units, seed: int) -> NDArray[np.float64]:
    """Duals about as large as losses, a few of them negative, some equal."""
    return np.random.default_rng(seed).integers(-1, 7, units.weight.size) / 16


def priced(
    units: Units, dual: NDArray[np.float64], k: int, first: int, last: int, nodes: int, candidates: int
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Lowered duals and the slots found at ranks first..last-1."""
    slots = np.empty((units.weight.size * SLOTS_PER_ANCHOR, k), dtype=np.int32)
    lowered = dual.copy()
    order = np.argsort(-dual, kind="stable")
    scratch = build_nodes(units.features, int(units.weight.sum()), k)
    written, _, _ = price_anchors(units, scratch, lowered, order, first, last, k, nodes, candidates, slots)
    return lowered, slots[:written]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(tables(k=4, least=6, most=9), st.integers(2, 4), st.integers(0, 2**20))
def test_one_anchor_is_priced_as_by_hand(table: Table, k: int, seed: int) -> None:
    """Each anchor's dual falls by the violation of its cheapest slot, found among all slots there are."""
    units = group_rows(table)
    dual = some_duals(units, seed)
    order = np.argsort(-dual, kind="stable").tolist()
    least = naive_bounds.least_by_anchor(table, units, k, dual, order)
    for place, anchor in enumerate(order):
        lowered, slots = priced(units, dual, k, place, place + 1, ANY, ANY)
        assert np.isclose(lowered[anchor] - dual[anchor], min(least[anchor], 0.0), atol=1e-9)
        costs = [naive_bounds.slot_loss(table, units, slot) - dual[slot].sum() for slot in slots]
        assert all(naive.may_stand_together(units, slot.tolist()) for slot in slots)
        assert np.isclose(min(costs, default=0.0), min(least[anchor], 0.0), atol=1e-9)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(tables(k=4, least=6, most=9), st.integers(2, 4), st.integers(0, 2**20), st.integers(1, 6))
def test_lowered_duals_are_feasible_however_few_the_nodes(
    table: Table, k: int, seed: int, nodes: int
) -> None:
    """After a whole pass no slot costs less than its duals, also where walks were ended by their nodes."""
    units = group_rows(table)
    dual = some_duals(units, seed)
    for most in (nodes, ANY):
        lowered, _ = priced(units, dual, k, 0, dual.size, most, ANY)
        assert np.all(lowered <= dual)
        if np.all(np.isfinite(lowered)):
            assert naive_bounds.least_reduced_cost(table, units, k, lowered) >= -1e-9


@settings(derandomize=True, deadline=None, max_examples=20)
@given(tables(k=3, least=8, most=9), st.integers(2, 3), st.integers(0, 2**20))
def test_few_candidates_find_slots_but_prove_nothing(table: Table, k: int, seed: int) -> None:
    """A heuristic pass hands back violated slots only, and no finite bound of an anchor that it cut short."""
    units = group_rows(table)
    dual = some_duals(units, seed)
    order = np.argsort(-dual, kind="stable").tolist()
    least = naive_bounds.least_by_anchor(table, units, k, dual, order)
    for place, anchor in enumerate(order):
        lowered, slots = priced(units, dual, k, place, place + 1, ANY, 2)
        assert lowered[anchor] == -np.inf or np.isclose(
            lowered[anchor], dual[anchor] + min(least[anchor], 0.0), atol=1e-9
        )
        for slot in slots:
            assert naive_bounds.slot_loss(table, units, slot) - dual[slot].sum() < 0.0
