"""Parts of a table: every record once, individuals whole, even, near, and the same however often they are cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.locality_cut import cut_near
from kanonflow.solvers.units.trimming import row_limit


def points(numbers: list[float], individuals: list[int] | None = None) -> Table:
    """Records with one numeric value each."""
    return Table(
        numeric=np.array(numbers, dtype=np.float64)[:, None],
        categorical=np.empty((len(numbers), 0), dtype=np.int32),
        cardinality=np.empty(0, dtype=np.int64),
        weights=np.ones(1),
        individuals=None if individuals is None else np.array(individuals),
    )


def mixed(seed: int, n: int, people: int | None = None) -> Table:
    """Records with two numeric and two categorical values, some of them null or equal; heavy individuals among them."""
    rng = np.random.default_rng(seed)
    who = None if people is None else (people * rng.random(n) ** 3).astype(np.int64)
    numeric = np.round(rng.random((n, 2)), 1)
    numeric[rng.random(n) < 0.1, 0] = np.nan
    categorical = np.stack([rng.integers(0, 2, n), rng.integers(0, 9, n)], axis=1).astype(np.int32)
    return Table(numeric, categorical, np.array([2, 9]), np.array([1.0, 2.0, 1.0, 0.5]), who)


@settings(derandomize=True, max_examples=120)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 400),
    people=st.one_of(st.none(), st.integers(1, 60)),
    k=st.integers(2, 5),
    tens=st.integers(1, 6),
    distinct=st.booleans(),
)
def test_parts_have_what_they_should(
    seed: int, n: int, people: int | None, k: int, tens: int, distinct: bool
) -> None:
    """Each record in one part, each individual too; k individuals in each; nobody has to wait who need not."""
    table, limit = mixed(seed, n, people), 10 * k * tens
    parts = cut_near(table, limit, k, distinct=distinct)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    who = np.arange(n) if table.individuals is None else table.individuals
    assert sum(np.unique(who[part]).size for part in parts) == np.unique(who).size
    counts = np.unique(who, return_counts=True)[1]
    most = row_limit(counts, k)
    for part in parts:
        own = np.unique(who[part], return_counts=True)[1]
        assert np.all(np.diff(part) > 0)
        assert len(parts) == 1 or own.size >= k
        if distinct and len(parts) > 1:
            assert row_limit(own, k) >= min(own.max(), most)
    if people is None:
        sizes = [part.size for part in parts]
        assert len(sizes) == -(-n // limit)
        assert max(sizes) <= min(limit, min(sizes) + len(sizes))


def test_near_records_are_together() -> None:
    """A line is cut into its thirds; the parts follow each other along it."""
    order = np.random.default_rng(1).permutation(90)
    parts = cut_near(points(list(order / 90)), 30, 3, distinct=False)
    assert [sorted(order[part]) for part in parts] == [
        list(range(30)),
        list(range(30, 60)),
        list(range(60, 90)),
    ]


def test_a_part_that_is_small_enough_is_left_whole() -> None:
    """Exactly at the limit nothing is cut, one row above it is."""
    table = points([number / 31 for number in range(31)])
    assert [part.size for part in cut_near(table, 31, 3, distinct=False)] == [31]
    assert [part.size for part in cut_near(table, 30, 3, distinct=False)] == [15, 16]


def test_parts_of_individuals_are_even_where_the_rows_fill_them_exactly() -> None:
    """Three rows a person do not make five parts of 200 rows: there are six, none of them half as large."""
    rng = np.random.default_rng(2)
    people = rng.permutation(np.repeat(np.arange(333), 3))
    table = points(list(np.append(people, 333) / 333), [*people, 333])
    sizes = [part.size for part in cut_near(table, 200, 3, distinct=True)]
    assert len(sizes) == 6
    assert max(sizes) - min(sizes) <= 6


def test_equal_records_are_cut_too() -> None:
    """A thousand equal rows are no reason to solve them in one go."""
    parts = cut_near(points([0.5] * 1000), 300, 3, distinct=False)
    assert [part.size for part in parts] == [250] * 4
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(1000))


def test_records_with_equal_values_are_cut_by_the_other_attributes() -> None:
    """Two values of the first attribute do not fill two parts evenly: the rest is taken from the near end."""
    first = [0.0] * 60 + [1.0] * 40
    second = [number / 60 for number in range(60)] + [0.5] * 40
    table = Table(
        np.array([first, second]).T, np.empty((100, 0), np.int32), np.empty(0, np.int64), np.array([9.0, 1.0])
    )
    left, right = cut_near(table, 50, 3, distinct=False)
    np.testing.assert_array_equal(left, np.arange(50))
    np.testing.assert_array_equal(right, np.arange(50, 100))


@pytest.mark.parametrize("heavy", [40, 400])
def test_an_individual_with_more_rows_than_the_limit_has_a_part_that_is_larger(heavy: int) -> None:
    """And k - 1 others in it; everybody else is cut as usual."""
    individuals = [0] * heavy + list(range(1, 101))
    numbers = [0.0] * heavy + [number / 100 for number in range(100)]
    parts = cut_near(points(numbers, individuals), 30, 3, distinct=False)
    sizes = sorted(part.size for part in parts)
    assert sizes[-1] == heavy + 2
    assert max(sizes[:-1]) <= 30
    assert len(sizes) <= 6


def test_a_heavy_individual_keeps_the_peers_that_it_needs() -> None:
    """20 of 100 rows can be hidden among four others with as many; a part of 50 rows would make half of them wait."""
    individuals = [0] * 20 + list(range(1, 101))
    table = points([0.0] * 20 + [number / 100 for number in range(100)], individuals)
    assert [part.size for part in cut_near(table, 50, 5, distinct=False)] == [40, 40, 40]
    largest, *others = cut_near(table, 50, 5, distinct=True)
    assert largest.size == 100
    assert [part.size for part in others] == [20]


def test_fewer_individuals_than_two_parts_need_are_not_cut() -> None:
    """However many rows they have."""
    table = points([number / 500 for number in range(500)], [number % 5 for number in range(500)])
    assert len(cut_near(table, 30, 3, distinct=False)) == 1
    assert len(cut_near(table, 30, 2, distinct=False)) == 2
