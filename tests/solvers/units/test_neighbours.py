"""Nearest units are the nearest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.neighbours import nearest_units, pair_loss
from tests import naive
from tests.mixed_tables import mixed_table, tables, unit_rows

pytestmark = pytest.mark.thorough


@settings(derandomize=True)
@given(tables(trees=True, most=16))
def test_pair_loss_is_the_loss_of_the_box_of_both(table: Table) -> None:
    """NCP of two records, for numbers, nulls, narrow and wide categories; symmetric, 0 with itself."""
    units = group_rows(table)
    rows = unit_rows(units)
    for a, row in enumerate(rows):
        for b, other in enumerate(rows):
            assert pair_loss(units.features, a, b) == pytest.approx(
                naive.box_loss(table, [row, other]), abs=1e-12
            )


@settings(derandomize=True)
@given(tables(trees=True, most=40), st.integers(1, 9), st.integers(1, 12))
def test_neighbours_agree_with_brute_force(table: Table, m: int, leaf: int) -> None:
    """Exactly the m smallest losses to units of other individuals, in order; -1 at infinity where there are fewer."""
    units = group_rows(table)
    rows = unit_rows(units)
    tree = build_tree(units.features, units.weight, units.individual, leaf=leaf)
    nearest, distance = nearest_units(units.features, tree, units.individual, m)
    for unit, row in enumerate(rows):
        others = [v for v in range(len(rows)) if units.individual[v] != units.individual[unit]]
        losses = sorted(naive.box_loss(table, [row, rows[v]]) for v in others)[:m]
        found = nearest[unit][: len(losses)].tolist()
        assert distance[unit][: len(losses)].tolist() == pytest.approx(losses, abs=1e-12)
        assert len(set(found)) == len(found)
        assert set(found) <= set(others)
        assert [naive.box_loss(table, [row, rows[v]]) for v in found] == pytest.approx(losses, abs=1e-12)
        assert np.all(nearest[unit][len(losses) :] == -1)
        assert np.all(np.isinf(distance[unit][len(losses) :]))


def test_ranges_of_the_tour_fill_one_result() -> None:
    """Pieces filled one after the other, in any order, give what one call gives."""
    units = group_rows(mixed_table(5, 300, people=150))
    tree = build_tree(units.features, units.weight, units.individual)
    u = units.weight.size
    whole = nearest_units(units.features, tree, units.individual, 4)
    into = np.full((u, 4), -1, dtype=np.int32), np.full((u, 4), np.inf)
    for first, last in ((u // 2, u), (0, u // 3), (u // 3, u // 2)):
        nearest_units(units.features, tree, units.individual, 4, first=first, last=last, into=into)
    assert np.array_equal(whole[0], into[0])
    assert np.array_equal(whole[1], into[1])
