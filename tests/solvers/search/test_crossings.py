"""Mending two-edge cuts: the cheapest crossing is that of brute force, and what comes out is a legal graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.matching.two_edge_cuts import cuts_of, two_edge_cuts
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search import crossings
from kanonflow.solvers.search.crossings import mend_cuts
from kanonflow.solvers.search.slots import Slots, build_slots
from kanonflow.solvers.shapes.untied import units_of_rows
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from tests.mixed_tables import mixed_table
from tests.naive import box_loss
from tests.regular_graphs import ring, searched, side_by_side

pytestmark = pytest.mark.thorough


def everybody_near(units: Units) -> np.ndarray:
    """All units as neighbours of each, int32 (u, u)."""
    return np.tile(np.arange(units.weight.size, dtype=np.int32), (units.weight.size, 1))


def pieces(members: np.ndarray, left_out: set[int]) -> list[int]:
    """The naive twin of what hangs together: labels spread along edges until nothing changes."""
    n, k = members.shape
    label = list(range(2 * n))
    changed = True
    while changed:
        changed = False
        for edge in range(n * k):
            slot, record = edge // k, n + int(members[edge // k, edge % k])
            least = min(label[slot], label[record])
            if edge not in left_out and (label[slot], label[record]) != (least, least):
                label[slot] = label[record] = least
                changed = True
    return label


def swapped_total(table: Table, members: np.ndarray, b: int, p: int, d: int, q: int) -> float | None:
    """Total loss after a swap; None where a slot would hold an individual twice."""
    who = np.arange(table.records) if table.individuals is None else table.individuals
    changed = members.copy()
    changed[b, p], changed[d, q] = members[d, q], members[b, p]
    if any(np.unique(who[changed[slot]]).size < members.shape[1] for slot in (b, d)):
        return None
    return sum(box_loss(table, changed[slot]) for slot in range(len(changed)))


def naive_crossings(table: Table, members: np.ndarray) -> dict[int, float]:
    """By piece: the least rise of a swap that joins it to another piece of its component by two more edges."""
    n, k = members.shape
    whole = pieces(members, set())
    piece = pieces(members, set(two_edge_cuts(members).tolist()))
    total = sum(box_loss(table, members[slot]) for slot in range(n))
    least: dict[int, float] = {}
    for b in range(n):
        for d in range(n):
            if piece[b] == piece[d] or whole[b] != whole[d]:
                continue
            for p in range(k):
                for q in range(k):
                    inside = piece[n + members[b, p]] == piece[b] and piece[n + members[d, q]] == piece[d]
                    after = swapped_total(table, members, b, p, d, q) if inside else None
                    if after is not None:
                        least[piece[b]] = min(least.get(piece[b], np.inf), after - total)
    return least


def state(table: Table, members: np.ndarray) -> tuple[Units, Slots, Units]:
    """Rows as units, the state over them, the distinct rows."""
    units = group_rows(table)
    rows = units_of_rows(units, table.individuals is not None)
    return rows, build_slots(rows, members), units


def crossed(blocks: int, k: int, seed: int, people: bool) -> tuple[Table, np.ndarray]:
    """Complete components that have exchanged a member each with the next, over rows in random order.

    people: two members of different components that stayed at home are one person's.
    """
    members = side_by_side(*[ring(k, k) for _ in range(blocks)])
    for block in range(blocks - 1):
        one, other = block * k, (block + 1) * k + 1
        members[one, 0], members[other, 0] = members[other, 0], members[one, 0]
    order = np.random.default_rng(seed).permutation(blocks * k).astype(np.int32)
    table = mixed_table(seed, blocks * k)
    if people:
        individuals = np.arange(blocks * k)
        individuals[order[2]] = individuals[order[2 * k + 2]] if blocks > 2 else individuals[order[2]]
        table = replace(table, individuals=individuals)
    return table, order[members]


@settings(max_examples=25, derandomize=True)
@given(seed=st.integers(0, 10_000), people=st.booleans())
def test_the_cheapest_crossing_is_that_of_the_naive_twin(seed: int, people: bool) -> None:
    """With all rows as candidates, for every piece but the largest of its component."""
    n, k = 12, 3
    table, members = crossed(4, k, seed, people)
    rows, slots, units = state(table, members)
    cuts = cuts_of(members)
    whole = cuts.component
    assert whole.tolist() == pieces(members, set())
    piece, main, tried = crossings._pieces(members, cuts.tied, whole)
    assert piece.tolist() == pieces(members, set(cuts.tied.tolist()))
    rise, places = crossings._crossings(rows, slots, units, everybody_near(units), piece, whole, tried)
    expected = {own: least for own, least in naive_crossings(table, members).items() if not main[own]}
    assert {int(own) for own in np.flatnonzero(rise < np.inf)} == set(expected)
    total = sum(box_loss(table, members[slot]) for slot in range(n))
    for own, least in expected.items():
        assert rise[own] == pytest.approx(least, abs=1e-9)
        assert swapped_total(table, members, *places[own]) == pytest.approx(total + least, abs=1e-9)


@settings(max_examples=30, derandomize=True)
@given(blocks=st.integers(2, 9), k=st.integers(3, 5), seed=st.integers(0, 10_000), people=st.booleans())
def test_a_mended_graph_is_legal_and_has_fewer_cuts(blocks: int, k: int, seed: int, people: bool) -> None:
    """The state is that of its members, and its cuts are as many as are told, fewer than before."""
    table, members = crossed(blocks, k, seed, people)
    before = two_edge_cuts(members).size
    rows, slots, units = state(table, members)
    left = mend_cuts(rows, slots, units, everybody_near(units)).tied.size
    assert left == two_edge_cuts(slots.members).size < before
    GeneralizationGraph(slots.members).check(table.individuals)
    fresh = build_slots(rows, slots.members)
    np.testing.assert_array_equal(slots.loss, fresh.loss)
    np.testing.assert_array_equal(slots.rest, fresh.rest)


def test_no_bound_changes_what_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of everything, without a bound, the crossings are the same ones, place by place."""
    for seed in range(12):
        table, members = crossed(8, 3, seed, bool(seed % 2))
        rows, slots, units = state(table, members)
        near = everybody_near(units)
        cuts = cuts_of(slots.members)
        whole = cuts.component
        piece, _, _ = crossings._pieces(slots.members, cuts.tied, whole)
        tried = np.ones(len(slots.members), dtype=np.bool_)
        found = crossings._crossings(rows, slots, units, near, piece, whole, tried)
        # Where any member may give up any loss, no bound holds anything back.
        loose = slots._replace(spare=np.full_like(slots.spare, 1e9))
        plain = crossings._crossings(rows, loose, units, near, piece, whole, tried)
        assert np.isfinite(found[0]).any()
        for one, other in zip(found, plain, strict=True):
            np.testing.assert_array_equal(one, other)


def test_equal_rows_cross_a_cut_for_nothing() -> None:
    """Two blocks of equal rows that have exchanged one: a crossing by equal rows keeps the loss, parting does not."""
    k = 4
    table = Table(
        np.zeros((8, 1)), np.zeros((8, 0), dtype=np.int32), np.zeros(0, dtype=np.int64), np.ones(1), None
    )
    table.numeric[:, 0] = [0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 1]
    members = side_by_side(ring(k, k), ring(k, k)).copy()
    members[0, 0], members[7, 3] = members[7, 3], members[0, 0]
    rows, slots, units = state(table, members)
    before = float(slots.loss.sum())
    assert mend_cuts(rows, slots, units, everybody_near(units)).tied.size == 0
    assert float(slots.loss.sum()) <= before + 1e-12


def test_a_searched_graph_of_degree_3_loses_its_cuts() -> None:
    """What a search leaves at k = 3 has many; the crossings leave hardly any."""
    members = searched(60, 3, 5)
    before = two_edge_cuts(members).size
    table = mixed_table(5, 60)
    rows, slots, units = state(table, members)
    left = mend_cuts(rows, slots, units, everybody_near(units)).tied.size
    assert before >= 4
    assert left <= before // 4
