"""Individuals: hulls of their rows, and who is near whom."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.individuals import gather_individuals, hull_loss, pair_class_loss
from tests import naive
from tests.mixed_tables import mixed_table, tables

pytestmark = pytest.mark.thorough


def rows_of(table: Table, *people: int) -> list[int]:
    """Rows of individuals given by their position in the sorted distinct ones."""
    numbers = np.unique(table.individuals)
    return [row for row, who in enumerate(table.individuals) if who in numbers[list(people)]]


@settings(derandomize=True)
@given(tables(trees=True, individuals=True))
def test_hulls_of_two_cost_the_box_of_all_their_rows(table: Table) -> None:
    """NCP over every row of both, for several values and nulls of one individual, narrow and wide categories."""
    people = gather_individuals(table)
    for a in range(people.rows.size):
        for b in range(people.rows.size):
            box = naive.box_loss(table, rows_of(table, a, b))
            assert hull_loss(people, a, b) == pytest.approx(box, abs=1e-12)


@settings(derandomize=True)
@given(tables(trees=True, individuals=True))
def test_individuals_are_numbered_in_order_and_counted(table: Table) -> None:
    """of_row are positions in the sorted distinct individuals, rows their numbers of rows."""
    people = gather_individuals(table)
    numbers, counts = np.unique(table.individuals, return_counts=True)
    assert numbers[people.of_row].tolist() == table.individuals.tolist()
    assert people.rows.tolist() == counts.tolist()


def test_without_individuals_each_row_is_one() -> None:
    """As many individuals as rows, with one row each."""
    people = gather_individuals(mixed_table(1, 9, kinds=2))
    assert people.rows.tolist() == [1] * 9
    assert people.of_row.tolist() == list(range(9))


@settings(derandomize=True)
@given(tables(trees=True, individuals=True, most=16))
def test_a_class_of_two_keeps_what_both_have(table: Table) -> None:
    """Loss per row: as many rows of each as the other has at the box's loss, the others at 1."""
    people = gather_individuals(table)
    numbers = np.unique(table.individuals).tolist()
    for a in range(people.rows.size):
        for b in range(a):
            loss = naive.class_loss(table, [numbers[a], numbers[b]], 2) / (people.rows[a] + people.rows[b])
            assert pair_class_loss(people, a, b) == pytest.approx(loss, abs=1e-12)
