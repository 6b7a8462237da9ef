"""The graph search as a whole: legal, never worse, reproducible, and stopped in time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search.rounds import Effort, SearchResult, search_graph
from kanonflow.solvers.search.slots import Slots, build_slots
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.neighbours import nearest_units
from tests import naive
from tests.mixed_tables import mixed_table, scrambled_members, tables


def searched(
    table: Table, k: int, *, evaluations: int, seed: int = 1, shards: int | None = None, threads: int = 1
) -> tuple[Slots, float, SearchResult]:
    """Search from a random graph; the state, the loss before, the result."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, _ = nearest_units(units.features, tree, units.individual, 5)
    members = scrambled_members(units, k, distinct=table.individuals is not None, seed=seed)
    slots = build_slots(units, members)
    before = float(slots.loss.mean())
    result = search_graph(
        units,
        slots,
        nearest,
        np.arange(table.records),
        Effort(evaluations, seed),
        threads=threads,
        shards=shards,
    )
    assert naive.is_legal_graph(units, slots.members, k)
    return slots, before, result


@settings(derandomize=True, max_examples=40)
@given(
    tables(k=4, least=12, most=40), st.integers(2, 4), st.sampled_from([0, 300, 20_000]), st.integers(1, 3)
)
def test_a_search_never_raises_the_loss(table: Table, k: int, evaluations: int, shards: int) -> None:
    """Whatever the budget, and in one or several parts, the graph stays legal and costs no more than before."""
    slots, before, result = searched(table, k, evaluations=evaluations, shards=shards)
    assert slots.loss.mean() <= before + 1e-9
    if result.trace:
        assert result.trace[-1] == (result.evaluations, float(slots.loss.mean()))


def test_a_search_from_its_own_result_never_raises_the_loss() -> None:
    """A graph that a long search has left is not made worse by another search, short or long."""
    table = mixed_table(0, 12)
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, _ = nearest_units(units.features, tree, units.individual, 5)
    found, _, _ = searched(table, 2, evaluations=300_000)
    for evaluations in (500, 2000, 10_000):
        for seed in range(5):
            slots = build_slots(units, found.members)
            search_graph(units, slots, nearest, np.arange(12), Effort(evaluations, seed), threads=1)
            assert slots.loss.mean() <= found.loss.mean() + 1e-12
            assert np.allclose(slots.spare, build_slots(units, slots.members).spare, atol=1e-9)


def test_the_budget_is_kept() -> None:
    """At least the evaluations asked for are made, and hardly more; a larger budget gives less loss."""
    losses = []
    for evaluations in (1000, 20_000, 200_000):
        slots, before, result = searched(mixed_table(8, 120), 4, evaluations=evaluations)
        assert evaluations <= result.evaluations <= evaluations + 5000
        assert not result.deadline_struck
        losses.append(float(slots.loss.mean()))
    assert before > losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize("shards", [1, 3])
def test_the_result_depends_on_the_seed_only(shards: int) -> None:
    """Equal seeds give equal graphs, on one thread and on three; another seed gives another graph."""
    table = mixed_table(8, 150, kinds=90)
    graphs: list[NDArray[np.int32]] = []
    for seed, threads in ((1, 1), (1, 1), (1, 3), (2, 1)):
        units = group_rows(table)
        tree = build_tree(units.features, units.weight, units.individual)
        nearest, _ = nearest_units(units.features, tree, units.individual, 5)
        slots = build_slots(units, scrambled_members(units, 4, distinct=False, seed=0))
        search_graph(
            units,
            slots,
            nearest,
            np.arange(150),
            Effort(30_000, seed),
            threads=threads,
            shards=shards,
        )
        graphs.append(slots.members.copy())
    assert np.array_equal(graphs[0], graphs[1])
    assert np.array_equal(graphs[0], graphs[2])
    assert not np.array_equal(graphs[0], graphs[3])
