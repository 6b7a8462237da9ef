"""Row counts: how many rows each member of a class keeps."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.units.row_counts import rows_kept, shared_row_counts
from tests import naive

counts_of_a_class = st.lists(st.integers(1, 5), min_size=1, max_size=7)


@settings(derandomize=True, max_examples=200)
@given(counts_of_a_class, st.integers(1, 4))
def test_row_counts_keep_the_most_rows(counts: list[int], k: int) -> None:
    """Of all ways to lower counts so that each is shared by k, the one that keeps most; 0 for fewer than k."""
    ordered = np.array(sorted(counts, reverse=True))
    best = np.zeros(len(counts) + 1, dtype=np.int64)
    assert rows_kept(ordered, len(counts), k, best) == naive.rows_kept(counts, k)


@settings(derandomize=True, max_examples=200)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(-1, 2)), min_size=1, max_size=14), st.integers(1, 4))
def test_every_count_that_is_kept_is_shared_by_k(people: list[tuple[int, int]], k: int) -> None:
    """In every class; nobody keeps more than it has; classes below k and the pool keep nothing."""
    rows = np.array([row for row, _ in people])
    labels = np.array([label for _, label in people], dtype=np.int32)
    row_counts = shared_row_counts(rows, labels, k)
    assert np.all(row_counts <= rows)
    assert np.all(row_counts[labels < 0] == 0)
    for label in range(3):
        kept = row_counts[labels == label].tolist()
        if len(kept) < k:
            assert sum(kept) == 0
        else:
            assert min(kept) >= 1
            assert all(kept.count(row_count) >= k for row_count in kept)
        if len(kept) <= 7:
            assert sum(kept) == naive.rows_kept(rows[labels == label].tolist(), k)


def test_large_classes_are_quick() -> None:
    """20,000 individuals of one class, as pass-through makes them, are cut in linear time."""
    rows = np.random.default_rng(1).integers(1, 30, 20_000)
    row_counts = shared_row_counts(rows, np.zeros(20_000, dtype=np.int32), 5)
    _, shared = np.unique(row_counts, return_counts=True)
    assert shared.min() >= 5
    assert row_counts.sum() > 0.99 * rows.sum()
