"""Intervals of rates and of what is left beyond controls."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from kanonflow.pipelines.assess.rates import Excess, Rate, rate_of


@pytest.mark.parametrize(("hits", "trials"), [(0, 200), (1, 200), (37, 250), (250, 250), (999, 1000)])
def test_intervals_are_those_of_clopper_and_pearson(hits: int, trials: int) -> None:
    """As a library that is not ours works them out."""
    exact = binomtest(hits, trials).proportion_ci(0.95, "exact")
    assert Rate(hits, trials).interval == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize(
    ("rate", "control", "figure"), [(0.5, 0.2, 0.375), (0.2, 0.2, 0.0), (0.1, 0.3, 0.0), (1.0, 0.5, 1.0)]
)
def test_the_figure_is_what_is_left_of_what_controls_miss(rate: float, control: float, figure: float) -> None:
    """(r - c) / (1 - c), never below 0."""
    assert Excess(Rate(rate * 1000, 1000), Rate(control * 1000, 1000)).figure == pytest.approx(figure)


def test_an_advantage_is_a_difference() -> None:
    """And may be had where nearly everybody is hit."""
    assert Excess(Rate(1000, 1000), Rate(900, 1000), advantage=True).figure == pytest.approx(0.1)


@pytest.mark.parametrize(("right", "chance"), [(0.02, 0.02), (0.3, 0.2), (0.06, 0.01), (0.5, 0.45)])
def test_intervals_hold_the_truth_in_ninety_five_of_a_hundred(right: float, chance: float) -> None:
    """Drawn 2,000 times; exact intervals are wide, so more often than that is no fault."""
    rng = np.random.default_rng(1)
    truth, inside = (right - chance) / (1 - chance), 0
    for people, controls in rng.binomial(400, [right, chance], (2000, 2)).tolist():
        low, high = Excess(Rate(people, 400), Rate(controls, 400)).interval
        inside += low - 1e-12 <= truth <= high + 1e-12
    assert inside >= 0.945 * 2000


def test_too_few_trials_tell_nothing() -> None:
    """Two hundred of either side."""
    assert not Excess(Rate(10, 199), Rate(10, 500)).enough
    assert Excess(Rate(10, 200), Rate(10, 200)).enough


def test_controls_of_another_kind_are_seen() -> None:
    """They are hit more often than people, by more than chance."""
    assert Excess(Rate(10, 500), Rate(100, 500)).odd
    assert not Excess(Rate(10, 500), Rate(15, 500)).odd


def test_rows_of_a_person_are_worth_what_they_vary() -> None:
    """Equal rows of a person are one trial; independent ones are as many as they are."""
    rng = np.random.default_rng(1)
    ten = np.full(2000, 10.0)
    alike = 10.0 * (rng.random(2000) < 0.3)
    assert rate_of(alike, ten).trials == pytest.approx(2000, rel=0.01)
    independent = rng.binomial(10, 0.3, 2000).astype(float)
    assert rate_of(independent, ten).trials == pytest.approx(20_000, rel=0.1)
    assert rate_of(independent, ten).share == pytest.approx(independent.mean() / 10)
    few = rate_of(np.zeros(2000), ten)
    assert (few.hits, few.trials) == (0, 2000)
