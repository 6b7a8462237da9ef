"""Cohorts of some size: losses and candidates, where they can be counted by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.dry_run.dry_run import NEVER
from kanonflow.pipelines.risks.cohort_sizes import (
    after_churn,
    after_match,
    after_plants,
    figures_of,
    play,
    with_plants,
)
from tests.pipelines.risks.toy_feeds import toy

PAIRS = [("a", 0, 10), ("b", 0, 12), ("c", 0, 40), ("d", 0, 46), ("e", 0, 90), ("f", 0, 90)]


def of_sizes(*sizes: int) -> np.ndarray:
    """Cohorts of these sizes."""
    return np.array(sizes, dtype=np.int64)


def test_one_known_match_leaves_one_less() -> None:
    """Two of five and one of ten people: means by people, and half of the people are left with four."""
    found = after_match(of_sizes(5, 5, 10), 5)
    assert found == (pytest.approx((5 * 4 + 5 * 4 + 10 * 9) / 20), 0.5)


def test_churn_leaves_a_binomial_number_of_the_others() -> None:
    """Of five, all four others must be there: 1 - .8^4 after a year, 1 - .512^4 after three."""
    year, three = after_churn(of_sizes(5), 5, 1.0), after_churn(of_sizes(5), 5, 3.0)
    assert year.below == pytest.approx(1 - 0.8**4)
    assert three.below == pytest.approx(1 - 0.512**4)
    assert year.mean == pytest.approx(1 + 4 * 0.8)
    six = after_churn(of_sizes(6), 5, 1.0)
    assert six.below == pytest.approx(1 - 0.8**5 - 5 * 0.8**4 * 0.2)


def test_near_people_found_cohorts_and_lose_their_widths() -> None:
    """Three pairs of width 2, 6 and 0 of 120: mean loss (2 + 6 + 0) / 3 / 120."""
    feed, bound = toy(PAIRS)
    found = play(feed, bound, 2).cohorts
    assert found.intakes == (6,)
    assert found.sizes.tolist() == [2, 2, 2]
    assert found.cohort[0] == found.cohort[1] != found.cohort[2] == found.cohort[3]
    assert found.loss == pytest.approx(8 / 3 / 120)


def test_who_comes_later_founds_cohorts_of_its_own() -> None:
    """The near ones of hour 1 do not join the pairs of hour 0; the last one alone stays outside."""
    feed, bound = toy([*PAIRS, ("g", 1, 11), ("h", 1, 89), ("i", 2, 11)])
    found = play(feed, bound, 2).cohorts
    assert found.intakes == (6, 2)
    assert found.cohort[6] == found.cohort[7] == 3
    assert found.cohort[8] == -1
    assert found.entered[8] == NEVER
    assert found.loss == pytest.approx((6 * 8 / 3 / 120 + 2 * 78 / 120) / 8)


def test_partitions_have_cohorts_of_their_own() -> None:
    """Twins in two towns are apart."""
    rows = [("a", 0, 10), ("b", 0, 20), ("c", 0, 10), ("d", 0, 20)]
    feed, bound = toy(rows, columns={"town": ["x", "x", "y", "y"]}, payload=["town"], partition_by=["town"])
    assert play(feed, bound, 2).cohorts.cohort.tolist() == [0, 0, 1, 1]


def test_windows_merge_what_has_too_few_people_there() -> None:
    """In hour 1 a and c come alone: their cohorts go out as one group, from 10 to 46. A run says the same."""
    feed, bound = toy([*PAIRS, ("a", 1, 10), ("c", 1, 40)])
    played = play(feed, bound, 2)
    assert [each.metrics["gcp"] for each in played.run.releases] == [
        pytest.approx(8 / 3 / 120),
        pytest.approx(36 / 120),
    ]
    figures = figures_of(played, feed)
    assert figures is not None
    assert figures.loss == pytest.approx(8 / 3 / 120)
    assert figures.merged == pytest.approx((6 * 8 / 3 / 120 + 2 * 36 / 120) / 8)


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
def test_planted_accounts_take_the_places_of_real_ones(kind: pa.DataType) -> None:
    """With four accounts like the person, cohorts of two leave it alone; cohorts of ten leave it others."""
    rng = np.random.default_rng(1)
    rows = [(str(number), 0, int(age)) for number, age in enumerate(rng.permutation(100)[:80])]
    feed, bound = toy(rows, name=kind)
    small, large = (after_plants(play(feed, bound, size), feed) for size in (2, 10))
    assert small is not None
    assert large is not None
    assert small.mean < 1.5
    assert small.below > 0.5
    assert large.mean > 5
    assert large.below == 0
    one = feed.of(feed.who == 0)
    assert after_plants(play(one, bound, 2), one) is None


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
def test_planted_accounts_come_when_and_where_their_person_does(kind: pa.DataType) -> None:
    """Four new names for each, with all of its rows; whatever type names have."""
    rows = [("1", 0, 10), ("2", 0, 20), ("1", 1, 10)]
    feed, bound = toy(rows, name=kind)
    found = with_plants(feed, bound, np.array([0]))
    assert found.who.tolist() == [0, 1, 0, 2, 2, 3, 3, 4, 4, 5, 5]
    assert (found.window[3::2] == feed.window[0]).all()
    assert (found.window[4::2] == feed.window[2]).all()
    assert found.rows.column("who").to_pylist() == [str(each) for each in found.who]
    assert found.rows.column("age").to_pylist()[3:] == [10] * 8


def test_of_many_people_those_who_come_first_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their cohorts are what they would be; the others stand in none."""
    monkeypatch.setattr("kanonflow.pipelines.risks.cohort_sizes.MOST_PEOPLE", 6)
    later = [(name, 1, 10) for name in "ghij"]
    feed, bound = toy([*later, *PAIRS, ("a", 1, 10)])
    found = play(feed, bound, 2).cohorts
    assert (found.cohort[:4] == -1).all()
    assert (found.cohort[4:] >= 0).all()
