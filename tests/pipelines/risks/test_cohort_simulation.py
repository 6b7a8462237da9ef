"""Simulated cohorts: sizes, losses and candidates, where they can be counted by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kanonflow.pipelines.risks.cohort_simulation import (
    Simulation,
    after_churn,
    after_matches,
    after_plants,
    sampled_windows,
    simulate,
    simulated_members,
    window_loss,
)
from kanonflow.pipelines.risks.intakes import NEVER
from tests.pipelines.risks.toy_feeds import toy

PAIRS = [("a", 10), ("b", 12), ("c", 40), ("d", 46), ("e", 90), ("f", 90)]


def of_sizes(*sizes: int) -> Simulation:
    """Cohorts of these sizes and nothing else."""
    none = np.empty(0, dtype=np.int64)
    return Simulation(min(sizes, default=2), none, none, np.array(sizes, dtype=np.int64), 0.0, (), (), None)


def test_one_known_match_leaves_one_less() -> None:
    """Two of five and one of ten people: means by people, and half of the people are left with four."""
    found = after_matches(of_sizes(5, 5, 10), 5, 1)
    assert found == (pytest.approx((5 * 4 + 5 * 4 + 10 * 9) / 20), 0.5)
    assert after_matches(of_sizes(), 5, 1) is None


def test_churn_leaves_a_binomial_number_of_the_others() -> None:
    """Of five, all four others must be there: 1 - .8^4 after a year, 1 - .512^4 after three."""
    year, three = after_churn(of_sizes(5), 5, 1.0), after_churn(of_sizes(5), 5, 3.0)
    assert year is not None
    assert three is not None
    assert year.below == pytest.approx(1 - 0.8**4)
    assert three.below == pytest.approx(1 - 0.512**4)
    assert year.mean == pytest.approx(1 + 4 * 0.8)
    six = after_churn(of_sizes(6), 5, 1.0)
    assert six is not None
    assert six.below == pytest.approx(1 - 0.8**5 - 5 * 0.8**4 * 0.2)


def test_near_people_found_cohorts_and_lose_their_widths() -> None:
    """Three pairs of width 2, 6 and 0 of 120: mean loss (2 + 6 + 0) / 3 / 120."""
    trails, bound = toy([(who, 0, age) for who, age in PAIRS])
    found = simulate(trails, simulated_members(trails), bound, 2)
    assert found.intakes == (6,)
    assert found.sizes.tolist() == [2, 2, 2]
    assert found.cohort[0] == found.cohort[1] != found.cohort[2] == found.cohort[3]
    assert found.loss == pytest.approx(8 / 3 / 120)


def test_who_comes_later_founds_cohorts_of_its_own() -> None:
    """The near ones of hour 1 do not join the pairs of hour 0; the last one alone stays outside."""
    rows = [(who, 0, age) for who, age in PAIRS] + [("g", 1, 11), ("h", 1, 89), ("i", 2, 11)]
    trails, bound = toy(rows)
    found = simulate(trails, simulated_members(trails), bound, 2)
    assert found.intakes == (6, 2)
    assert found.cohort[6] == found.cohort[7] == 3
    assert found.cohort[8] == -1
    assert found.entered[8] == NEVER
    assert found.loss == pytest.approx((6 * 8 / 3 / 120 + 2 * 78 / 120) / 8)


def test_partitions_have_cohorts_of_their_own() -> None:
    """Twins in two towns are apart."""
    rows = [("a", 0, 10), ("b", 0, 20), ("c", 0, 10), ("d", 0, 20)]
    trails, bound = toy(rows, columns={"town": ["x", "x", "y", "y"]}, payload=["town"], partition_by=["town"])
    found = simulate(trails, simulated_members(trails), bound, 2)
    assert found.cohort.tolist() == [0, 0, 1, 1]


def test_windows_merge_what_has_too_few_people_there() -> None:
    """In hour 1 a and c come alone: their cohorts go out as one group, from 10 to 46."""
    rows = [(who, 0, age) for who, age in PAIRS] + [("a", 1, 10), ("c", 1, 40)]
    trails, bound = toy(rows)
    found = simulate(trails, simulated_members(trails), bound, 2)
    assert sampled_windows(trails, [found]) == [int(trails.window[0]), int(trails.window[0]) + 1]
    begin = int(trails.window[0])
    assert window_loss(trails, found, [begin], bound) == pytest.approx(8 / 3 / 120)
    assert window_loss(trails, found, [begin + 1], bound) == pytest.approx(36 / 120)
    assert window_loss(trails, found, [begin + 7], bound) is None


def test_planted_accounts_take_the_places_of_real_ones() -> None:
    """With four accounts like the person, cohorts of two leave it alone; cohorts of ten leave it others."""
    rng = np.random.default_rng(1)
    rows = [(f"p{number}", 0, int(age)) for number, age in enumerate(rng.permutation(100)[:80])]
    trails, bound = toy(rows)
    members = simulated_members(trails)
    small = after_plants(simulate(trails, members, bound, 2), bound)
    large = after_plants(simulate(trails, members, bound, 10), bound)
    assert small is not None
    assert large is not None
    assert small.mean < 1.5
    assert small.below > 0.5
    assert large.mean > 5
    assert large.below == 0
    nobody = dataclasses.replace(simulate(trails, members, bound, 2), largest=None)
    assert after_plants(nobody, bound) is None


def test_of_many_people_the_largest_partitions_are_simulated() -> None:
    """Whole ones as long as they fit; of a single one that is too large, who came first."""
    rows = [("a", 0, 1), ("b", 0, 1), ("c", 0, 1), ("d", 0, 1), ("e", 1, 1), ("f", 0, 1)]
    towns = {"town": ["x", "x", "x", "y", "y", "z"]}
    trails, _ = toy(rows, columns=towns, payload=["town"], partition_by=["town"])
    assert simulated_members(trails, 5).tolist() == [0, 1, 2, 3, 4]
    assert simulated_members(trails, 4).tolist() == [0, 1, 2]
    whole, _ = toy(rows)
    assert simulated_members(whole, 5).tolist() == [0, 1, 2, 3, 5]
