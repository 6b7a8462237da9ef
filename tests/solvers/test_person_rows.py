"""One row for each individual: points stay points, ranges become their ends, categories their most frequent value."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.partition import Partition
from kanonflow.solvers.person_rows import person_table
from kanonflow.solvers.table import Table
from tests.mixed_tables import mixed_table


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(0, 2**20), st.integers(2, 30), st.integers(0, 2**10))
def test_ends_and_most_frequent_values(seed: int, n: int, waiting: int) -> None:
    """Against a look at each individual's rows; some rows wait, some individuals are left out."""
    table = mixed_table(seed, n, people=max(1, n // 3))
    rng = np.random.default_rng(waiting)
    of_row = np.unique(table.individuals, return_inverse=True)[1]
    of_row = np.where(rng.random(n) < 0.2, -1, of_row)
    people = np.unique(of_row[of_row >= 0])
    if people.size == 0:
        return
    people = rng.permutation(people)[: max(1, people.size // 2)]
    found = person_table(table, of_row, people)
    column = 0
    for values in table.numeric.T:
        own = [values[of_row == person] for person in people]
        low = [np.nan if np.isnan(some).any() else some.min() for some in own]
        high = [np.nan if np.isnan(some).all() else np.nanmax(some) for some in own]
        np.testing.assert_array_equal(found.numeric[:, column], low)
        column += 1
        if not np.array_equal(low, high, equal_nan=True):
            np.testing.assert_array_equal(found.numeric[:, column], high)
            column += 1
    assert column == found.numeric.shape[1]
    assert np.isclose(found.weights.sum(), table.weights.sum())
    for place, codes in enumerate(table.categorical.T):
        for row, person in enumerate(people):
            counts = np.bincount(codes[of_row == person])
            assert counts[found.categorical[row, place]] == counts.max()
            assert found.categorical[row, place] == counts.argmax()


def test_points_cost_what_their_rows_cost() -> None:
    """Where the rows of a person are equal, the loss of a grouping of people is that of their rows."""
    base = mixed_table(5, 12)
    of_row = np.repeat(np.arange(12), 3)
    table = Table(
        base.numeric[of_row], base.categorical[of_row], base.cardinality, base.weights, of_row.copy()
    )
    labels = np.arange(12) // 3
    people = person_table(table, of_row, np.arange(12))
    assert people.attributes == table.attributes
    whole = gcp(table, Partition(labels[of_row].astype(np.int32)))
    assert np.isclose(gcp(people, Partition(labels.astype(np.int32))), whole)
