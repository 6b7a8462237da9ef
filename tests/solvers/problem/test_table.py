"""Encoded tables refuse what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import TableError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task

pytestmark = pytest.mark.thorough


def fitting() -> dict[str, Any]:
    """Three records of one number and one category."""
    return {
        "numeric": np.array([[0.0], [np.nan], [1.0]]),
        "categorical": np.array([[0], [1], [1]], dtype=np.int32),
        "cardinality": np.array([2]),
        "weights": np.ones(2),
        "individuals": np.array([4, 4, 9]),
    }


def test_a_fitting_table_counts_records_and_attributes() -> None:
    """Nulls and both ends of the domain are allowed; d counts both kinds of attributes."""
    table = Table(**fitting())
    assert (table.records, table.attributes) == (3, 2)


def test_a_table_may_be_empty_or_of_one_kind() -> None:
    """No records, no numbers or no categories are tables too."""
    empty = Table(np.empty((0, 1)), np.empty((0, 1), np.int32), np.array([2]), np.ones(2))
    assert empty.records == 0
    assert Table(np.empty((2, 0)), np.zeros((2, 1), np.int32), np.array([1]), np.ones(1)).attributes == 1
    assert (
        Table(np.zeros((2, 1)), np.empty((2, 0), np.int32), np.empty(0, np.int64), np.ones(1)).attributes == 1
    )


@pytest.mark.parametrize(
    ("faults", "named"),
    [
        ({"categorical": np.zeros((2, 1), np.int32)}, "number of rows"),
        ({"numeric": np.zeros(3)}, "number of rows"),
        ({"cardinality": np.array([2, 2])}, "cardinality"),
        ({"weights": np.ones(3)}, "weights"),
        ({"weights": np.array([1.0, 0.0])}, "weights"),
        ({"weights": np.array([1.0, np.nan])}, "weights"),
        ({"numeric": np.array([[0.0], [1.5], [1.0]])}, "scaled"),
        ({"numeric": np.array([[0.0], [-0.1], [np.nan]])}, "scaled"),
        ({"categorical": np.array([[0], [2], [1]], np.int32)}, "codes"),
        ({"categorical": np.array([[0], [-1], [1]], np.int32)}, "codes"),
        ({"individuals": np.array([1, 2])}, "individuals"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(faults: dict[str, Any], named: str) -> None:
    """Each planted fault raises TableError, which says what is wrong."""
    with pytest.raises(TableError, match=named):
        Table(**{**fitting(), **faults})


def test_a_hierarchy_of_one_leaf_may_have_nulls() -> None:
    """A null is no place of a leaf."""
    table = Table(
        np.array([[0.0], [np.nan], [0.0]]),
        np.empty((3, 0), np.int32),
        np.empty(0, np.int64),
        np.ones(1),
        heights=(np.empty(0),),
    )
    assert solve(Task(table, 3, budget=Budget(10.0), seed=1)).loss == pytest.approx(1.0)
    with pytest.raises(TableError, match="leaves"):
        Table(np.ones((3, 1)), table.categorical, table.cardinality, table.weights, heights=(np.empty(0),))


def test_a_table_without_attributes_is_refused() -> None:
    """At least one quasi-identifier."""
    with pytest.raises(TableError, match="quasi-identifier"):
        Table(np.empty((2, 0)), np.empty((2, 0), np.int32), np.empty(0, np.int64), np.empty(0))
