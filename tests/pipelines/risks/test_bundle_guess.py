"""Bundles: a hint that is weak in one row is strong in many, and no hint stays none."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.pipelines.risks.bundle_guess import (
    ALL_ROWS,
    Bundles,
    _tried,
    field_hints,
    joint_hints,
)
from kanonflow.transforms.risks.member_guess import FieldValues

PEOPLE, SIZE, ROWS = 300, 5, 60


def bundles() -> Bundles:
    """Cohorts of five, sixty rows a person."""
    return Bundles(np.repeat(np.arange(PEOPLE), ROWS), np.arange(PEOPLE) // SIZE)


def numbers(values: np.ndarray) -> FieldValues:
    """A numeric field."""
    return FieldValues(values.astype(np.float64), np.array([str(value) for value in values], dtype=object))


def test_sums_and_ties_by_hand() -> None:
    """Two cohorts of two. Person 0 is named by its second row alone, 1 ties, 2 is missed, 3 is named."""
    who = np.array([0, 0, 1, 2, 3])
    given = Bundles(who, np.array([0, 0, 1, 1]))
    scores = np.array([[1.0, 2.0], [3.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    guess = _tried(scores, given, "by hand", 1, 0)[-1]
    assert guess.rows == ALL_ROWS
    assert guess.rate == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert (guess.chance, guess.people) == (0.5, 4)
    assert _tried(scores, given, "by hand", 1, 0)[1].people == 0


def test_cohorts_of_other_sizes_have_no_extra_members() -> None:
    """A cohort of three beside one of two: the empty place is never guessed, and chance is their mean."""
    given = Bundles(np.arange(5), np.array([0, 0, 0, 1, 1]))
    guess = _tried(np.zeros((5, 3)), given, "none", 1, 0)[-1]
    assert guess.rate == pytest.approx((3 * (1 / 3) + 2 * (1 / 2)) / 5)
    assert guess.chance == pytest.approx(guess.rate)


def test_a_weak_hint_grows_with_the_bundle() -> None:
    """A place blurred until one row says little; all rows name the person."""
    rng = np.random.default_rng(2)
    home = rng.uniform(0, 10, PEOPLE)
    given = bundles()
    blurred = home[given.who] + rng.normal(0, 8, given.who.size)
    one, thirty, every = field_hints(numbers(blurred), {"home": numbers(home[given.who])}, given).guesses
    assert one.rate < 0.3
    assert every.rate > thirty.rate > one.rate
    assert every.rate > 0.6
    assert every.certain


def test_habits_that_have_nothing_to_do_with_attributes_stay_at_chance() -> None:
    """Everybody has shops of its own, which only links the rows; attributes tell nothing of them."""
    rng = np.random.default_rng(8)
    given = bundles()
    shops = rng.integers(0, 40, (PEOPLE, 3))[given.who, rng.integers(0, 3, given.who.size)]
    payload = FieldValues(None, np.array([f"shop {shop}" for shop in shops], dtype=object))
    job = FieldValues(None, np.array([f"job {person % 30}" for person in given.who], dtype=object))
    quasis = {"home": numbers(rng.uniform(0, 10, PEOPLE)[given.who]), "job": job}
    for guess in field_hints(payload, quasis, given).guesses:
        assert not guess.certain
        assert guess.rate < 0.3


def test_two_hints_together_are_more_than_each() -> None:
    """Two coordinates, each blurred."""
    rng = np.random.default_rng(6)
    home = rng.uniform(0, 10, (PEOPLE, 2))
    given = bundles()
    quasis = {name: numbers(home[given.who, axis]) for axis, name in enumerate(("x", "y"))}
    hints = {
        name: field_hints(numbers(home[given.who, axis] + rng.normal(0, 15, given.who.size)), quasis, given)
        for axis, name in enumerate(("x", "y"))
    }
    joint = joint_hints(hints, given)[-1].rate
    assert joint > max(each.guesses[-1].rate for each in hints.values())
