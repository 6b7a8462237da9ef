"""Strict cohorts against plain counts: who can be released with whom, and which classes would break the promise."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.partition import Partition
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.solve_cohorts import MUST_WAIT, NEWCOMER, FixedCohorts
from kanonflow.solvers.table import Table
from kanonflow.transforms.cohorts import History
from kanonflow.transforms.strict_cohorts import fixed_cohorts, without_risk

checked = settings(derandomize=True, deadline=None, max_examples=200)
Window = dict[int, int]
"""Who was released, in which class."""
windows_of_people = st.lists(
    st.dictionaries(st.integers(0, 8), st.integers(0, 1), min_size=1, max_size=9), max_size=4
)


def digests(people: list[int]) -> NDArray[np.uint64]:
    """Digests that are not in the order of the numbers, one a person."""
    return np.array([(person * 0x9E3779B97F4A7C15) % 2**64 for person in people], dtype=np.uint64)


def remembered(windows: list[Window]) -> History:
    """Windows as the state holds them."""
    history = []
    for end, window in enumerate(windows):
        people = digests(list(window))
        order = np.argsort(people)
        history.append((end, people[order], np.array(list(window.values()), dtype=np.int64)[order]))
    return tuple(history)


def candidates(person: int, here: set[int], windows: list[Window]) -> set[int]:
    """Of those who are here, who was released in the person's class wherever the person was released."""
    found = here
    for window in windows:
        if person in window:
            found = {other for other in found if window.get(other) == window[person]}
    return found


def connected(person: int, windows: list[Window]) -> frozenset[int]:
    """Everybody who shared a class with the person, directly or over others."""
    found = {person}
    while True:
        more = {
            other
            for window in windows
            for one in found & window.keys()
            for other in window
            if window[other] == window[one]
        } - found
        if not more:
            return frozenset(found)
        found |= more


@checked
@given(windows_of_people, st.sets(st.integers(0, 10), min_size=1), st.integers(1, 3), st.integers(2, 6))
def test_the_largest_part_that_can_be_released(
    windows: list[Window], here: set[int], k: int, reach: int
) -> None:
    """Newcomers were in none of the last windows; of each cohort the largest set in which all have k candidates."""
    people = sorted(here)
    labels = fixed_cohorts(remembered(windows), digests(people), k, reach).labels
    recent = windows[-(reach - 1) :]
    returning = {person for person in here if any(person in window for window in recent)}
    assert {p for p, label in zip(people, labels, strict=True) if label == NEWCOMER} == here - returning
    for cohort in {connected(person, recent) & returning for person in returning}:
        safe: set[int] = set()
        for size in range(1, len(cohort) + 1):
            for some in itertools.combinations(sorted(cohort), size):
                if all(len(candidates(person, set(some), recent)) >= k for person in some):
                    safe |= set(some)
        own = {person: int(labels[people.index(person)]) for person in cohort}
        assert {person for person, label in own.items() if label != MUST_WAIT} == safe
        assert len({own[person] for person in safe}) <= 1
    kept = {int(label) for label in labels if label >= 0}
    assert len(kept) == len(
        {connected(p, recent) for p, label in zip(people, labels, strict=True) if label >= 0}
    )


@checked
@given(windows_of_people, st.lists(st.integers(-1, 2), min_size=9, max_size=9), st.integers(1, 3))
def test_classes_that_break_the_promise_go_whole(windows: list[Window], now: list[int], k: int) -> None:
    """Every class in which somebody has fewer than k candidates waits; every other one is as it was."""
    used = sorted({label for label in now if label >= 0})
    labels = np.array([used.index(label) if label >= 0 else -1 for label in now] * 2, dtype=np.int32)
    who = np.array([*range(9), *range(9)])
    table = Table(np.zeros((18, 1)), np.empty((18, 0), np.int32), np.empty(0, np.int64), np.ones(1), who)
    solution = Solution(Partition(labels), 0.0, 0.0, 0.0, "", 0)
    given_labels = FixedCohorts(np.where(np.arange(9) % 3 == 0, NEWCOMER, 1))
    tested = without_risk(solution, table, digests(list(range(9))), remembered(windows), given_labels, k, 5)
    kept = tested.solution.partition.labels
    for label in range(len(used)):
        members = {int(person) for person in who[labels == label]}
        fine = all(len(candidates(person, members, windows)) >= k for person in members)
        assert (kept[labels == label] >= 0).all() == fine
        assert np.unique(kept[labels == label]).size == 1
        assert fine or tested.at_risk[labels == label].all()
    released = kept[kept >= 0]
    assert set(released.tolist()) == set(range(np.unique(released).size))
    assert np.all(kept[labels < 0] < 0)
    assert np.isclose(tested.solution.loss, (kept < 0).mean()) or np.all(kept == labels)


def test_only_the_last_windows_count() -> None:
    """With W = 3 a class of three windows ago binds nobody, one of two windows ago does."""
    windows = [{1: 0, 2: 0, 3: 1}, {4: 0, 5: 0}, {4: 0, 5: 0}]
    people = digests([1, 2])
    assert fixed_cohorts(remembered(windows), people, 2, 3).labels.tolist() == [NEWCOMER] * 2
    assert fixed_cohorts(remembered(windows), people, 2, 4).labels.min() >= 0
    assert fixed_cohorts(remembered(windows), digests([1, 3]), 2, 4).labels.tolist() == [MUST_WAIT] * 2
    assert fixed_cohorts((), people, 2, 4).labels.tolist() == [NEWCOMER] * 2
