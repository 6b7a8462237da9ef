"""Which rows of heavy individuals wait."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.units.trimming import kept_rows, row_limit
from tests import naive

row_counts = st.lists(st.integers(1, 12), min_size=1, max_size=12)


@settings(derandomize=True, max_examples=300)
@given(row_counts, st.integers(1, 8))
def test_the_limit_is_the_largest_that_leaves_a_graph(counts: list[int], k: int) -> None:
    """The largest m with sum min(m_u, m) >= k m; 0 when there are fewer than k individuals."""
    assert row_limit(np.array(counts), k) == naive.row_limit(counts, k)


@settings(derandomize=True, max_examples=300)
@given(row_counts, st.integers(2, 8))
def test_what_the_limit_leaves_is_feasible(counts: list[int], k: int) -> None:
    """Afterwards nobody has more than a k-th of the rows; where nobody had before, nobody loses one."""
    limit = row_limit(np.array(counts), k)
    kept = [min(count, limit) for count in counts]
    assert max(kept) * k <= sum(kept)
    if max(counts) * k <= sum(counts):
        assert kept == counts


def test_cutting_once_to_a_kth_would_not_do() -> None:
    """9 + 9 + 1 + 1 rows, k = 3: a third of 20 is 6, and 6 of 14 rows are still too many; 2 of 6 are not."""
    assert row_limit(np.array([9, 9, 1, 1]), 3) == 2


@settings(derandomize=True, max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=14),
    st.lists(st.integers(0, 5), min_size=4, max_size=4),
)
def test_kept_rows_are_the_first_by_priority(rows: list[tuple[int, int]], limits: list[int]) -> None:
    """Of each individual the first rows by priority, then by position."""
    who, priority = [row[0] for row in rows], [row[1] for row in rows]
    kept = kept_rows(np.array(who, dtype=np.int64), np.array(limits), np.array(priority, dtype=np.int64))
    assert kept.tolist() == naive.kept_rows(who, limits, priority)
