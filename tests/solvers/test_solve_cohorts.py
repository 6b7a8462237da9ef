"""Classes that keep given cohorts whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.budget import Budget
from kanonflow.solvers.errors import BudgetError, InfeasibleError
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.solve import solve
from kanonflow.solvers.solve_cohorts import MUST_WAIT, NEWCOMER, FixedCohorts, solve_cohorts
from kanonflow.solvers.table import Table
from tests.mixed_tables import mixed_table, tables

QUICK = Budget(60.0)
feasible = tables(trees=True, individuals=True, k=4, most=60)


def classes_of(table: Table, labels: np.ndarray) -> np.ndarray:
    """The class of each individual, -1 for those all of whose rows wait."""
    who = np.unique(table.individuals, return_inverse=True)[1]
    found = np.full(who.max() + 1, -1)
    np.maximum.at(found, who, labels)
    return found


@settings(derandomize=True, deadline=None, max_examples=80)
@given(feasible, st.integers(2, 4), st.integers(0, 2**20), st.booleans())
def test_cohorts_stay_whole(table: Table, k: int, seed: int, search: bool) -> None:
    """All of a cohort of k share a class, and with nobody of another one; who must wait waits; the loss is true."""
    u = np.unique(table.individuals).size
    given_labels = np.random.default_rng(seed).integers(-2, max(u // k, 1), u)
    solution = solve_cohorts(table, k, budget=QUICK, seed=5, search=search, warm=FixedCohorts(given_labels))
    solution.partition.check(k, table.individuals)
    now = classes_of(table, solution.partition.labels)
    assert np.all(now[given_labels == MUST_WAIT] < 0)
    for label in range(max(u // k, 1)):
        own = now[given_labels == label]
        if own.size >= k:
            assert np.unique(own).size == 1
            assert own[0] >= 0
            assert not np.any(now[(given_labels >= 0) & (given_labels != label)] == own[0])
        else:
            assert np.all(own < 0)
    waiting = float((solution.partition.labels < 0).mean())
    assert solution.loss == pytest.approx(waiting + (1 - waiting) * gcp(table, solution.partition))


def test_newcomers_form_classes_that_absences_do_not_break() -> None:
    """Without any cohort classes have 2k individuals or more."""
    table = mixed_table(4, 200, people=60)
    solution = solve(table, 4, shape="cohorts", budget=QUICK, seed=1)
    now = classes_of(table, solution.partition.labels)
    assert np.bincount(now[now >= 0]).min() >= 8


def test_few_newcomers_join_or_form_one_class() -> None:
    """Less than 2k: with nobody else there they are one class, beside a cohort they join it."""
    points = np.zeros((9, 1))
    table = Table(points, np.empty((9, 0), np.int32), np.empty(0, np.int64), np.ones(1), np.arange(9))
    alone = solve_cohorts(table, 5, budget=QUICK, seed=1)
    assert alone.partition.labels.tolist() == [0] * 9
    labels = np.array([0] * 5 + [NEWCOMER] * 3 + [MUST_WAIT])
    beside = solve_cohorts(table, 5, budget=QUICK, seed=1, warm=FixedCohorts(labels))
    assert beside.partition.labels.tolist() == [0] * 8 + [-1]


def test_who_would_cost_others_their_rows_joins_with_equals_or_waits() -> None:
    """Beside a cohort with three rows each, one newcomer with one row waits; k of them are a level of their own."""
    for newcomers, expected in ((1, [-1]), (3, [0, 0, 0])):
        who = np.concatenate([np.repeat(np.arange(4), 3), np.arange(4, 4 + newcomers)])
        table = Table(
            np.zeros((who.size, 1)), np.empty((who.size, 0), np.int32), np.empty(0, np.int64), np.ones(1), who
        )
        labels = np.array([0] * 4 + [NEWCOMER] * newcomers)
        found = solve_cohorts(table, 3, budget=QUICK, seed=1, warm=FixedCohorts(labels)).partition.labels
        assert found.tolist() == [0] * 12 + expected


def test_what_cannot_be_is_refused() -> None:
    """Fewer than k individuals; a k whose double is beyond the search."""
    table = mixed_table(1, 80, people=4)
    with pytest.raises(InfeasibleError, match="4 individuals"):
        solve_cohorts(table, 5, budget=QUICK, seed=1)
    with pytest.raises(BudgetError, match="between 2 and 127"):
        solve_cohorts(table, 128, budget=QUICK, seed=1)
