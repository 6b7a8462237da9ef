"""Budgets: evaluations for a window, and what is refused."""

from __future__ import annotations

import pytest

from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError


def test_a_given_rate_counts_for_each_row() -> None:
    """evaluations_per_row times rows, whatever k and the shape."""
    assert Budget(20.0).evaluations(30, 50) == 600
    assert Budget(20.0).evaluations(30, 2, classes=True) == 600
    assert Budget(0).evaluations(30, 5) == 0


def test_the_default_grows_with_k_beyond_five() -> None:
    """Boxes with more members get more evaluations; for small k the number stays."""
    for classes in (False, True):
        each = [Budget().evaluations(1000, k, classes=classes) for k in (2, 5, 10, 20)]
        assert each[0] == each[1]
        assert each[2:] == [2 * each[1], 4 * each[1]]


@pytest.mark.parametrize("wrong", [-1.0, float("nan")])
def test_evaluations_below_zero_are_refused(wrong: float) -> None:
    """A budget is 0 or more."""
    with pytest.raises(BudgetError, match="evaluations_per_row"):
        Budget(wrong)


@pytest.mark.parametrize("wrong", [0.0, -5.0, float("nan")])
def test_a_deadline_in_the_past_is_refused(wrong: float) -> None:
    """A deadline is positive."""
    with pytest.raises(BudgetError, match="deadline_ms"):
        Budget(deadline_ms=wrong)
