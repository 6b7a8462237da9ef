"""Identical rows of one individual become one unit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.distinct_rows import group_rows, renumbered
from tests.mixed_tables import tables


def content(table: Table, row: int) -> tuple:
    """What makes two rows the same: values, nulls being equal, and the individual."""
    numbers = ["null" if np.isnan(x) else float(x) for x in table.numeric[row]]
    who = -1 if table.individuals is None else int(table.individuals[row])
    return (*numbers, *table.categorical[row].tolist(), who)


@settings(derandomize=True)
@given(tables())
def test_rows_share_a_unit_iff_they_are_equal(table: Table) -> None:
    """Same unit = same values and same individual; units come in the order of their first row."""
    units = group_rows(table)
    number: dict[tuple, int] = {}
    expected = [number.setdefault(content(table, row), len(number)) for row in range(table.records)]
    assert units.of_row.tolist() == expected
    assert units.weight.tolist() == np.bincount(expected).tolist()
    for unit in range(len(number)):
        rows = units.rows[units.first[unit] : units.first[unit + 1]].tolist()
        assert rows == [row for row, of in enumerate(expected) if of == unit]


@settings(derandomize=True)
@given(tables())
def test_a_slot_may_name_a_row_once_and_an_individual_once(table: Table) -> None:
    """Without individuals the limit is the number of equal rows, with them it is 1 and codes are dense."""
    units = group_rows(table)
    if table.individuals is None:
        assert units.limit.tolist() == units.weight.tolist()
        assert units.individual.tolist() == list(range(units.weight.size))
    else:
        ordered = sorted(set(table.individuals.tolist()))
        first_rows = units.rows[units.first[:-1]]
        assert units.limit.tolist() == [1] * units.weight.size
        assert [ordered[code] for code in units.individual] == table.individuals[first_rows].tolist()


@settings(derandomize=True)
@given(tables())
def test_features_are_those_of_any_row_of_the_unit(table: Table) -> None:
    """The codes of a unit are the codes of each of its rows."""
    units = group_rows(table)
    assert units.features.codes[units.of_row].tolist() == table.categorical.tolist()


def test_nothing_gives_no_units() -> None:
    """An empty table has no units."""
    units = group_rows(Table(np.empty((0, 1)), np.empty((0, 1), np.int32), np.array([3]), np.ones(2)))
    assert units.weight.size == 0
    assert units.first.tolist() == [0]


@settings(derandomize=True)
@given(tables(), st.integers(0, 2**20))
def test_renumbered_units_are_the_same_units(table: Table, seed: int) -> None:
    """Each row keeps its unit's features, weight, limit, individual and companions; numbers follow the order."""
    units = group_rows(table)
    order = np.random.default_rng(seed).permutation(units.weight.size)
    moved = renumbered(units, order)
    assert np.array_equal(order[moved.of_row], units.of_row)
    for name in ("weight", "limit", "individual"):
        assert np.array_equal(getattr(moved, name)[moved.of_row], getattr(units, name)[units.of_row]), name
    for name in ("numeric", "words", "wide", "codes"):
        before, after = getattr(units.features, name), getattr(moved.features, name)
        assert np.array_equal(after[moved.of_row], before[units.of_row]), name
    for name in ("numeric_weight", "bit_weight", "wide_weight", "code_weight"):
        assert np.array_equal(getattr(moved.features, name), getattr(units.features, name)), name
    for new, old in enumerate(order):
        rows = moved.rows[moved.first[new] : moved.first[new + 1]]
        assert np.array_equal(rows, units.rows[units.first[old] : units.first[old + 1]])
