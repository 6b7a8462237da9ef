"""The groups of a window: whole cohorts, k people each, whoever of a cohort is here."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.roster.founding import found
from kanonflow.transforms.roster.roster import Roster, RosterHead, empty_roster
from kanonflow.transforms.roster.window_groups import LastGroups, _warm, no_groups, window_groups
from tests.mixed_people import mixed_bound
from tests.transforms.roster.test_founding import pool_of

pytestmark = pytest.mark.thorough


def small_roster(people: int = 60) -> tuple[Roster, dict]:
    """A roster of one intake, and the domains of its values."""
    founded = found(pool_of(people, 5), RosterHead(0), mixed_bound(), {}, seed=1, threads=1)
    return empty_roster(0).followed_by(founded.segment), founded.domains


def window(roster: Roster, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of some of the people: whose, and of which cohort."""
    rng = np.random.default_rng(seed)
    person = rng.choice(rng.choice(roster.people.size, 25, replace=False), 70)
    return roster.cohort[person], np.unique(person, return_inverse=True)[1]


@pytest.mark.parametrize("seed", range(10))
def test_groups_are_whole_cohorts_of_k_people(seed: int) -> None:
    """Every cohort with rows in one group, every group with rows of k; exchanging two people changes nothing."""
    roster, domains = small_roster()
    cohort, person = window(roster, seed)
    groups = window_groups(roster, cohort, person, mixed_bound(), domains, no_groups(), 7)
    assert groups.cohorts.tolist() == np.unique(cohort).tolist()
    of_cohort = dict(zip(groups.cohorts, groups.groups, strict=True))
    assert [of_cohort[each] for each in cohort] == groups.of_row.tolist()
    for group in np.unique(groups.of_row):
        assert np.unique(person[groups.of_row == group]).size >= 3
    assert np.unique(groups.of_row).tolist() == list(range(int(groups.groups.max()) + 1))
    boxes, owner = roster.boxes(groups.cohorts)
    assert boxes.equals(groups.corners)
    assert np.array_equal(owner, groups.cohort_of_corner)
    # Another of the same cohort has the rows, in another order of rows: what is decided is the same.
    mixed = np.random.default_rng(seed).permutation(cohort.size)
    again = window_groups(roster, cohort[mixed], person[mixed], mixed_bound(), domains, no_groups(), 7)
    assert np.array_equal(again.groups, groups.groups)


def test_the_last_groups_are_where_the_search_begins() -> None:
    """Cohorts that were not there have no group; with nothing to search for, all groups that hold are kept."""
    roster, domains = small_roster()
    bound = mixed_bound(solver={"evaluations_per_row": 0.0001, "threads": 1})
    cohort, person = window(roster, 1)
    first = window_groups(roster, cohort, person, bound, domains, no_groups(), 7)
    again = window_groups(roster, cohort, person, bound, domains, first.last, 7)
    assert again.merged.start == "warm"
    assert again.merged.groups_kept == int(first.groups.max()) + 1
    other = LastGroups(np.array([999]), np.array([0]))
    assert window_groups(roster, cohort, person, bound, domains, other, 7).merged.groups_kept == 0


def test_before_the_first_release_there_are_no_groups() -> None:
    """And nothing to begin with."""
    assert no_groups().cohorts.size == no_groups().groups.size == 0
    assert _warm(np.array([0, 3]), no_groups()) is None


def test_a_cohort_that_was_not_there_has_no_group() -> None:
    """Before, between and after those that were."""
    last = LastGroups(np.array([2, 5, 7]), np.array([0, 1, 0]))
    found = _warm(np.array([1, 2, 3, 5, 6, 7, 8, 9]), last)
    assert found is not None
    assert found.tolist() == [-1, 0, -1, 1, -1, 0, -1, -1]


def test_the_policy_says_how_long_is_searched() -> None:
    """So many evaluations a row; without a word of it, as many as the search thinks right."""
    roster, domains = small_roster()
    cohort, person = window(roster, 1)
    spent = {}
    for each in (0.0001, 50, None):
        bound = mixed_bound(solver={"threads": 1} | ({} if each is None else {"evaluations_per_row": each}))
        groups = window_groups(roster, cohort, person, bound, domains, no_groups(), 7)
        spent[each] = groups.merged.evaluations
    assert spent[0.0001] < spent[50]
    assert spent[0.0001] < spent[None]


def test_boxes_lie_within_the_domains_of_the_intake() -> None:
    """Merging sees no value that the founding has not: domains do not grow with windows."""
    roster, domains = small_roster()
    boxes, owner = roster.boxes(np.arange(roster.head.cohorts))
    after = encode(boxes, mixed_bound(), owner, domains).domains
    assert {name: str(domain) for name, domain in after.items()} == {
        name: str(domain) for name, domain in domains.items()
    }
