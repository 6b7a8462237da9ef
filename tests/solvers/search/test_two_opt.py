"""2-opt and ejection chains: the moves found are legal, gain what they say, and none is overlooked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search.ejection import best_chain
from kanonflow.solvers.search.kicks import kick
from kanonflow.solvers.search.slot_loss import swap
from kanonflow.solvers.search.slots import Slots, build_slots
from kanonflow.solvers.search.two_opt import best_swap, descend
from kanonflow.solvers.search.workspace import build_workspace, push
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.neighbours import nearest_units
from tests import naive
from tests.mixed_tables import scrambled_members, tables, unit_rows

pytestmark = pytest.mark.thorough

EVERY_PLACE = 10_000
arguments = given(tables(k=4, least=8, most=18), st.integers(2, 4), st.integers(0, 2**20), st.integers(1, 2))


class Search(NamedTuple):
    """A random legal graph, cut into shards at random, ready to be searched."""

    units: Units
    slots: Slots
    nearest: NDArray[np.int32]
    shard: NDArray[np.int32]
    rows: list[int]


def prepare(table: Table, k: int, seed: int, shards: int, m: int = 4) -> Search:
    """The state for a table."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, _ = nearest_units(units.features, tree, units.individual, m)
    members = scrambled_members(units, k, distinct=table.individuals is not None, seed=seed)
    shard = np.random.default_rng(seed).integers(0, shards, table.records).astype(np.int32)
    return Search(units, build_slots(units, members), nearest, shard, unit_rows(units))


def naive_total(table: Table, search: Search) -> float:
    """Sum of the boxes' losses, afresh."""
    return sum(naive.box_loss(table, [search.rows[unit] for unit in slot]) for slot in search.slots.members)


@settings(derandomize=True, max_examples=50)
@arguments
def test_the_best_swap_is_the_best_of_an_exhaustive_scan(
    table: Table, k: int, seed: int, shards: int
) -> None:
    """Over the same candidates: one is found iff there is one, its gain is exact and the largest, and it is legal."""
    units, slots, nearest, shard, rows = search = prepare(table, k, seed, shards)
    work = build_workspace(table.records, units.weight.size, seed)
    near = [[c for c in line if c >= 0] for line in nearest.tolist()]
    losses: dict[tuple[int, ...], float] = {}

    def loss(members: list[int]) -> float:
        key = tuple(sorted(set(members)))
        if key not in losses:
            losses[key] = naive.box_loss(table, [rows[unit] for unit in key])
        return losses[key]

    for b in range(0, table.records, 2):
        gain = best_swap(units, slots, nearest, shard, work, b, EVERY_PLACE)
        assert gain == pytest.approx(
            naive.best_swap(units, slots.members, loss, near, shard.tolist(), b), abs=1e-9
        )
        if gain > 0:
            p, d, q = (int(x) for x in work.found[:3])
            before = naive_total(table, search)
            swap(units.features, slots, b, p, d, q)
            assert before - naive_total(table, search) == pytest.approx(gain, abs=1e-9)
            assert naive.is_legal_graph(units, slots.members, k)


@settings(derandomize=True, max_examples=60)
@arguments
def test_a_chain_is_legal_and_gains_what_it_says(table: Table, k: int, seed: int, shards: int) -> None:
    """Where no swap is left, a chain's two swaps lower the loss by exactly its gain, and keep the graph legal."""
    units, slots, nearest, shard, _ = search = prepare(table, k, seed, shards)
    work = build_workspace(table.records, units.weight.size, seed)
    for b in range(table.records):
        if best_swap(units, slots, nearest, shard, work, b, EVERY_PLACE) > 0:
            continue
        gain = best_chain(units, slots, nearest, shard, work, b, EVERY_PLACE)
        if gain > 0:
            p, d, q, f, r = (int(x) for x in work.found)
            assert len({b, d, f}) == 3
            assert shard[b] == shard[d] == shard[f]
            before = naive_total(table, search)
            swap(units.features, slots, b, p, d, q)
            swap(units.features, slots, d, q, f, r)
            assert before - naive_total(table, search) == pytest.approx(gain, abs=1e-9)
            assert naive.is_legal_graph(units, slots.members, k)


@settings(derandomize=True, max_examples=50)
@arguments
def test_a_descent_never_raises_the_loss(table: Table, k: int, seed: int, shards: int) -> None:
    """It returns the change it made, at most 0, and leaves a legal graph whose state is that of its members."""
    units, slots, nearest, shard, _ = search = prepare(table, k, seed, shards)
    work = build_workspace(table.records, units.weight.size, seed)
    for slot in range(table.records):
        push(work, slot)
    before = naive_total(table, search)
    change = descend(units, slots, nearest, shard, work, EVERY_PLACE, False, 10**9, 0.0)
    assert change <= 0
    assert naive_total(table, search) - before == pytest.approx(change, abs=1e-9)
    assert slots.loss.sum() == pytest.approx(naive_total(table, search), abs=1e-9)
    assert naive.is_legal_graph(units, slots.members, k)
    again = build_slots(units, slots.members)
    assert np.allclose(again.spare, slots.spare, atol=1e-9)


@settings(derandomize=True, max_examples=50)
@arguments
def test_kicks_never_raise_the_loss(table: Table, k: int, seed: int, shards: int) -> None:
    """Without heat the change returned is at most 0 and true, the graph stays legal, the undo log loses nothing."""
    units, slots, nearest, shard, _ = search = prepare(table, k, seed, shards)
    work = build_workspace(table.records, units.weight.size, seed)
    before = naive_total(table, search)
    tour = np.arange(table.records)
    change, following = kick(units, slots, nearest, shard, tour, work, 0, 2, 3, EVERY_PLACE, 3000, 0.0)
    assert change <= 1e-9
    assert 0 <= following < table.records
    assert naive_total(table, search) - before == pytest.approx(change, abs=1e-9)
    assert naive.is_legal_graph(units, slots.members, k)
    assert np.allclose(build_slots(units, slots.members).spare, slots.spare, atol=1e-9)


@settings(derandomize=True, max_examples=30)
@arguments
def test_kicks_with_heat_say_what_they_did(table: Table, k: int, seed: int, shards: int) -> None:
    """With heat a kick may be kept that makes the loss larger; the change returned is true and the graph legal."""
    units, slots, nearest, shard, _ = search = prepare(table, k, seed, shards)
    work = build_workspace(table.records, units.weight.size, seed)
    before = naive_total(table, search)
    change, _ = kick(
        units, slots, nearest, shard, np.arange(table.records), work, 0, 2, 3, EVERY_PLACE, 3000, 0.1
    )
    assert naive_total(table, search) - before == pytest.approx(change, abs=1e-9)
    assert naive.is_legal_graph(units, slots.members, k)


def test_a_descent_pauses_at_its_limit() -> None:
    """At the limit of evaluations it stops soon, and goes on from the list it left."""
    table = tables_of(200)
    units, slots, nearest, shard, _ = prepare(table, 4, 1, 1)
    work = build_workspace(200, units.weight.size, 1)
    for slot in range(200):
        push(work, slot)
    first = descend(units, slots, nearest, shard, work, 8, False, 500, 0.0)
    assert first < 0
    assert work.evaluations[0] < 500 + 20_000
    assert work.bounds[0] != work.bounds[1]
    assert descend(units, slots, nearest, shard, work, 8, False, 10**9, 0.0) < 0
    assert work.bounds[0] == work.bounds[1]


def tables_of(n: int) -> Table:
    """One table of that many rows."""
    rng = np.random.default_rng(n)
    return Table(rng.random((n, 2)), rng.integers(0, 5, (n, 1)).astype(np.int32), np.array([5]), np.ones(3))
