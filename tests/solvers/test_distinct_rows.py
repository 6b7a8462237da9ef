"""Identical rows of one individual become one unit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from kanonflow.solvers.distinct_rows import group_rows
from kanonflow.solvers.table import Table
from tests.mixed_tables import tables


def content(table: Table, row: int) -> tuple:
    """What makes two rows the same: values, nulls being equal, and the individual."""
    numbers = ["null" if np.isnan(x) else float(x) for x in table.numeric[row]]
    who = -1 if table.individuals is None else int(table.individuals[row])
    return (*numbers, *table.categorical[row].tolist(), who)


@settings(derandomize=True, deadline=None)
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


@settings(derandomize=True, deadline=None)
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


@settings(derandomize=True, deadline=None)
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
