"""Which classes of individuals the audit refuses, against trying every number of rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.audit.judge.classes import can_be_shared
from tests import naive

bounds = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted)


@given(st.lists(bounds, min_size=1, max_size=6), st.integers(1, 12), st.integers(2, 3))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_only_impossible_classes_are_refused(people: list, rows: int, k: int) -> None:
    """Whenever some numbers of rows within the bounds fill the class with every number shared by k, it
    passes."""
    least, most = (list(ends) for ends in zip(*people, strict=True))
    if naive.shared_counts(least, most, rows, k):
        assert can_be_shared(np.array(least), np.array(most), rows, k) == (True, True)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=7), st.integers(2, 3))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_known_counts_are_checked_exactly(counts: list[int], k: int) -> None:
    """Where the boxes leave no choice, a class passes exactly when every number of rows is shared by k."""
    known = np.array(counts)
    shared, filled = can_be_shared(known, known, int(known.sum()), k)
    assert (shared and filled) == naive.shared_counts(counts, counts, sum(counts), k)
