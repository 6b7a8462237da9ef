"""Individuals: hulls of their rows, and who is near whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.features import build_features
from kanonflow.solvers.units.individuals import (
    gather_individuals,
    hull_loss,
    pair_class_loss,
    point_features,
)
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


@settings(derandomize=True)
@given(tables(trees=True, individuals=False), st.booleans(), st.integers(0, 2**20))
def test_features_of_points_are_those_of_their_rows(table: Table, named: bool, seed: int) -> None:
    """With one row each, named or not: every array as it is made of the table, in the order of the individuals."""
    if named:
        table = replace(table, individuals=np.random.default_rng(seed).permutation(table.records))
    people = gather_individuals(table)
    rows = np.argsort(people.of_row)
    mine, theirs = point_features(table, people), build_features(table, rows)
    assert (mine.orders is None) == (theirs.orders is None)
    for one, other in zip(
        (*mine[:-1], *(mine.orders or ())), (*theirs[:-1], *(theirs.orders or ())), strict=True
    ):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.flags.c_contiguous
        assert one.tolist() == other.tolist()
