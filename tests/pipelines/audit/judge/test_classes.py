"""Which classes of individuals the audit refuses, against trying every number of rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.audit.judge.classes import ClassFaults, can_be_shared, check_classes
from kanonflow.pipelines.audit.judge.concealment import conceal, group_members
from kanonflow.pipelines.audit.judge.matching import place
from tests import naive
from tests.pipelines.audit.judge.test_candidate_graph import graph_of

bounds = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted)


@given(st.lists(bounds, min_size=1, max_size=6), st.integers(1, 12), st.integers(2, 3))
@settings(max_examples=400, derandomize=True)
def test_only_impossible_classes_are_refused(people: list, rows: int, k: int) -> None:
    """Whenever some numbers of rows within the bounds fill the class with every number shared by k, it
    passes."""
    least, most = (list(ends) for ends in zip(*people, strict=True))
    if naive.shared_counts(least, most, rows, k):
        assert can_be_shared(np.array(least), np.array(most), rows, k) == (True, True)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=7), st.integers(2, 3))
@settings(max_examples=300, derandomize=True)
def test_known_counts_are_checked_exactly(counts: list[int], k: int) -> None:
    """Where the boxes leave no choice, a class passes exactly when every number of rows is shared by k."""
    known = np.array(counts)
    shared, filled = can_be_shared(known, known, int(known.sum()), k)
    assert (shared and filled) == naive.shared_counts(counts, counts, sum(counts), k)


def test_what_is_wrong_is_told_apart() -> None:
    """Somebody must have a number that too few can have; or all can, and their numbers do not sum up."""
    assert can_be_shared(np.array([1]), np.array([1]), 1, 2) == (False, False)
    assert can_be_shared(np.array([1, 1]), np.array([1, 1]), 2, 2) == (True, True)
    assert can_be_shared(np.array([1, 1]), np.array([1, 1]), 3, 2) == (True, False)
    assert can_be_shared(np.array([2, 2]), np.array([2, 2]), 3, 2) == (True, False)
    assert can_be_shared(np.array([0, 1]), np.array([0, 1]), 1, 2) == (False, False)


def faults(fits: list[list[bool]], records: list[list[int]], *, resting: tuple[int, ...] = ()) -> ClassFaults:
    """Of two classes of two rows in one release, for k = 2; of each group of records whose they are."""
    graph = graph_of(np.array(fits), [2, 2], [len(own) for own in records])
    group = np.repeat(np.arange(len(records)), [len(own) for own in records])
    members = group_members(group, np.concatenate(records), len(records))
    told = conceal(graph, place(graph), members, np.zeros(len(records), np.int64))
    rests = np.array([number in resting for number in range(len(records))])
    return check_classes(graph, told, members, np.zeros(2, np.int32), 2, rests)


def test_an_individual_is_scattered_only_where_it_must_be() -> None:
    """Two classes that four people may be in either way; two people who have a row in each of them."""
    anywhere = faults([[True], [True]], [[0, 1, 2, 3]])
    assert [len(found) for found in vars(anywhere).values()] == [0, 0, 0]
    both = faults([[True, False], [False, True]], [[0, 1], [0, 1]])
    assert (len(both.unshared), len(both.unfilled), both.scattered.tolist()) == (0, 0, [0])
    # Where one of the two may wait for another release it need not be in this one.
    assert len(faults([[True, False], [False, True]], [[0, 1], [0, 1]], resting=(1,)).scattered) == 0
