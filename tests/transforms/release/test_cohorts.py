"""Who was together: found back, forgotten in time, counted as an obvious count would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.schemas.policy import COHORT_WINDOWS
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.structures.partition import Partition
from kanonflow.transforms.release.cohorts import (
    class_cohorts,
    graph_cohorts,
    guaranteed_candidates,
    peer_retention,
    person_digests,
    warm_classes,
    warm_graph,
)
from kanonflow.transforms.release.warm_state import Cohorts
from tests import naive

pytestmark = pytest.mark.thorough

KEY = bytes(32)
checked = settings(derandomize=True, max_examples=150)
Window = dict[int, int]
"""Who was released, in which class."""


def digests(people: list[int]) -> NDArray[np.uint64]:
    """Digests that are not in the order of the numbers, one a person."""
    return np.array([(person * 0x9E3779B97F4A7C15) % 2**64 for person in people], dtype=np.uint64)


def after(windows: list[Window], forget_after: int = 1000) -> list[Cohorts]:
    """The cohorts after each of some windows, one row a person, window n ending at n."""
    cohorts = [Cohorts()]
    for end, window in enumerate(windows):
        people = list(window)
        _, labels = np.unique([window[person] for person in people], return_inverse=True)
        cohorts.append(
            class_cohorts(
                cohorts[-1],
                Partition(labels.astype(np.int32)),
                np.arange(len(people)),
                digests(people),
                end,
                end - forget_after,
            )
        )
    return cohorts[1:]


windows_of_people = st.lists(
    st.dictionaries(st.integers(0, 11), st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=6
)


def test_digests_are_keyed() -> None:
    """Without the key nobody can tell whose they are."""
    one, other = person_digests(["a", "b"], KEY), person_digests(["a", "b"], b"x" * 32)
    assert len({*one.tolist(), *other.tolist()}) == 4
    np.testing.assert_array_equal(one, person_digests(["a", "b"], KEY))
    assert person_digests([], KEY).size == 0


def test_a_class_is_found_back_by_its_members() -> None:
    """Whoever returns has the old label, newcomers have none, whatever their place in the new table."""
    (cohorts,) = after([{1: 0, 2: 0, 3: 1, 4: 1}])
    warm = warm_classes(cohorts, digests([4, 9, 1, 3, 2]))
    assert warm is not None
    four, new, one, three, two = warm.labels
    assert (four, one, new) == (three, two, -1)
    assert four != one


@pytest.mark.parametrize("cohorts", [Cohorts(), after([{1: 0, 2: 0}])[0]])
def test_without_anybody_who_returns_there_is_no_warm_start(cohorts: Cohorts) -> None:
    """Neither of classes nor of a graph; the solver is not asked to start from nothing."""
    assert warm_classes(cohorts, digests([7, 8])) is None
    graph = graph_cohorts(
        GeneralizationGraph(np.array([[0, 1], [1, 0]], np.int32)), np.arange(2), digests([1, 2]), 5
    )
    assert warm_graph(graph, digests([7, 8])) is None
    assert warm_graph(Cohorts(), digests([7, 8])) is None


def test_a_graph_is_found_back_over_the_individuals_of_another_table() -> None:
    """Slots name people; those who are absent leave a hole."""
    members = np.array([[0, 1], [1, 2], [2, 3], [3, 0]], dtype=np.int32)
    individuals = np.array([0, 1, 2, 0])
    cohorts = graph_cohorts(GeneralizationGraph(members), individuals, digests([5, 6, 7]), 9)
    warm = warm_graph(cohorts, digests([8, 7, 5]))
    assert warm is not None
    person = {0: 2, 1: -1, 2: 1}
    expected = [[person[int(individuals[record])] for record in slot] for slot in members]
    np.testing.assert_array_equal(warm.members, expected)
    assert cohorts.seen.tolist() == [9, 9, 9]


def test_a_class_that_goes_on_keeps_its_label() -> None:
    """Labels last as long as most returning members stay; two classes never share one; new ones are never reused."""
    first, second, third = after(
        [{1: 0, 2: 0, 3: 0, 4: 1, 5: 1}, {1: 7, 2: 7, 4: 8, 5: 8, 6: 8}, {3: 0, 6: 1, 7: 2}]
    )

    def label(cohorts: Cohorts, person: int) -> int:
        return int(cohorts.labels[np.searchsorted(cohorts.people, digests([person])[0])])

    assert label(first, 1) == label(second, 1) == label(third, 3) != label(second, 4)
    assert label(second, 6) == label(second, 4) == label(third, 6)
    assert label(third, 7) not in {*first.labels.tolist(), *second.labels.tolist()}


def test_the_absent_are_remembered_until_they_are_forgotten() -> None:
    """Cohorts, and the history of windows, end with the time that state is kept."""
    cohorts = after([{1: 0, 2: 0}, {3: 0, 4: 0}, {5: 0, 6: 0}, {5: 0, 6: 0}], forget_after=2)
    assert [each.people.size for each in cohorts] == [2, 4, 6, 4]
    assert [end for end, _, _ in cohorts[-1].history] == [1, 2, 3]
    assert len(after([{1: 0, 2: 0}] * 9)[-1].history) == COHORT_WINDOWS


@checked
@given(windows_of_people)
def test_cohorts_are_sorted_and_hold_each_person_once(windows: list[Window]) -> None:
    """Whoever was released last has the class of that release."""
    for cohorts, window in zip(after(windows), windows, strict=True):
        assert np.all(np.diff(cohorts.people.astype(object)) > 0)
        at = np.searchsorted(cohorts.people, digests(list(window)))
        labels = dict(zip(window, cohorts.labels[at].tolist(), strict=True))
        for one in window:
            for other in window:
                assert (window[one] == window[other]) == (labels[one] == labels[other])
        assert cohorts.labels.max() < cohorts.next_label


@checked
@given(windows_of_people)
def test_guaranteed_candidates_are_those_of_a_plain_count(windows: list[Window]) -> None:
    """For each person: who shared the class in every remembered window that the person was released in."""
    result = guaranteed_candidates(after(windows)[-1])
    assert result is not None
    assert result == pytest.approx(naive.guaranteed_candidates(windows[-COHORT_WINDOWS:]))


@checked
@given(windows_of_people)
def test_peer_retention_is_that_of_a_plain_count(windows: list[Window]) -> None:
    """Share of old pairs, both of whom are here again, that are pairs again."""
    cohorts = after(windows)
    if len(windows) >= 2:
        expected = naive.peer_retention(windows[-2], windows[-1])
        assert peer_retention(cohorts[-2], cohorts[-1]) == pytest.approx(expected)
    assert peer_retention(Cohorts(), cohorts[0]) is None


def test_peer_retention_of_graphs_counts_pairs_of_slots() -> None:
    """Two of the three old pairs are in a slot together again."""
    old = graph_cohorts(
        GeneralizationGraph(np.array([[0, 1], [1, 2], [2, 0]], np.int32)), np.arange(3), digests([1, 2, 3]), 0
    )
    new = graph_cohorts(
        GeneralizationGraph(np.array([[0, 1], [1, 2], [2, 3], [3, 0]], np.int32)),
        np.arange(4),
        digests([1, 2, 3, 4]),
        1,
    )
    assert peer_retention(old, new) == pytest.approx(2 / 3)


def test_a_class_that_is_cut_apart_gives_its_label_once() -> None:
    """Two parts of one window continue one class: taken for one, its people would count as each other's peers."""
    (whole,) = after([dict.fromkeys(range(6), 0)])
    first = class_cohorts(whole, Partition(np.zeros(3, np.int32)), np.arange(3), digests([0, 1, 2]), 1, -9)
    second = class_cohorts(first, Partition(np.zeros(3, np.int32)), np.arange(3), digests([3, 4, 5]), 1, -9)
    label = dict(zip(second.people.tolist(), second.labels.tolist(), strict=True))
    of = [label[int(digest)] for digest in digests(list(range(6)))]
    assert (len(set(of[:3])), len(set(of[3:])), of[0] != of[3]) == (1, 1, True)
