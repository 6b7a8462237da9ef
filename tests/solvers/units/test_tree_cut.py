"""A cut by a tree: no piece too large or small, few cohorts parted, a function of values, and good for new people."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.tree_cut import (
    Codes,
    Node,
    Pivot,
    Threshold,
    TreeCut,
    are_first,
    even_sample,
    make_cut,
    mixed_words,
)
from tests import naive_tree_cut as naive
from tests.mixed_tables import mixed_table


def near_cohorts(table: Table, rows: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Cohorts of some rows along the first column, or along the categories where there are no numbers."""
    column = table.numeric[rows, 0] if table.numeric.shape[1] else table.categorical[rows, 0]
    labels = np.empty(rows.size, dtype=np.int64)
    labels[np.argsort(column, kind="stable")] = np.arange(rows.size) // size
    return labels


def made(table: Table, pieces: int, size: int = 5, sample: int = 200) -> TreeCut:
    """A cut with cohorts of so many people of a sample."""
    rows = even_sample(table, sample)
    return make_cut(table, rows, near_cohorts(table, rows, size), pieces)


def permuted(table: Table, order: NDArray[np.int64]) -> Table:
    """The rows in another order."""
    return replace(table, numeric=table.numeric[order], categorical=table.categorical[order])


def values_by_piece(table: Table, piece: NDArray[np.int64]) -> list[list[tuple[float, ...]]]:
    """Of each piece whose values are in it."""
    return [
        sorted(naive.person(table, row) for row in np.flatnonzero(piece == number))
        for number in range(int(piece.max()) + 1)
    ]


any_table = st.builds(
    mixed_table,
    st.integers(0, 10**6),
    st.integers(60, 400),
    numeric=st.integers(0, 2),
    cardinality=st.sampled_from([(3, 70), (2,), (2, 2)]),
    kinds=st.one_of(st.none(), st.integers(1, 40)),
)


@settings(derandomize=True, max_examples=150)
@given(table=any_table, pieces=st.integers(1, 6), size=st.integers(2, 6), seed=st.integers(0, 2**20))
def test_pieces_have_what_they_should(table: Table, pieces: int, size: int, seed: int) -> None:
    """Everybody is in one piece; none is too large or too small; who is where is a function of values."""
    cut = made(table, pieces, size)
    piece = cut.piece_of(table)
    least, most = naive.limits(table.records, pieces)
    sizes = np.bincount(piece, minlength=cut.pieces)
    assert sizes.size == cut.pieces
    assert sizes.sum() == table.records
    assert least <= sizes.min()
    assert sizes.max() <= most
    order = np.random.default_rng(seed).permutation(table.records)
    other = permuted(table, order)
    again = make_cut(other, *(each for each in _same_sample(table, other, size)), pieces)
    assert again == cut
    assert values_by_piece(other, again.piece_of(other)) == values_by_piece(table, piece)


def _same_sample(table: Table, other: Table, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sample of rows in another order, in the cohorts of the first."""
    rows = even_sample(other, 200)
    first = even_sample(table, 200)
    assert [naive.person(other, row) for row in rows] == [naive.person(table, row) for row in first]
    return rows, near_cohorts(table, first, size)


@settings(derandomize=True, max_examples=100)
@given(table=any_table, pieces=st.integers(2, 6), size=st.integers(2, 6))
def test_each_test_is_the_best_that_leaves_room(table: Table, pieces: int, size: int) -> None:
    """Counted cohort by cohort, threshold by threshold; sets of categories are no worse; a pivot is the last resort."""
    rows = even_sample(table, 200)
    cohorts = near_cohorts(table, rows, size)
    cut = make_cut(table, rows, cohorts, pieces)
    numeric = table.numeric.shape[1]
    cell = [tuple(table.categorical[row, list(cut.columns)].tolist()) for row in range(table.records)]
    bounds = naive.limits(table.records, pieces)
    counted = 0
    for root in sorted(set(cut.roots)):
        own = {place for place, other in zip(cut.cells, cut.roots, strict=True) if other == root}
        crowd = naive.Crowd(
            [naive.person(table, row) for row in range(table.records) if cell[row] in own],
            [
                (naive.person(table, row), cohort)
                for row, cohort in zip(rows.tolist(), cohorts.tolist(), strict=True)
                if cell[row] in own
            ],
        )
        counted += naive.check_tree(cut, root, crowd, bounds, numeric)
    assert counted == cut.pieces


@settings(derandomize=True, max_examples=60)
@given(table=any_table, pieces=st.integers(1, 6), seed=st.integers(0, 2**20))
def test_a_cut_is_written_and_read(table: Table, pieces: int, seed: int) -> None:
    """As JSON; what is read is the same, and places new people alike."""
    cut = made(table, pieces)
    again = TreeCut.from_dict(json.loads(json.dumps(cut.to_dict())))
    assert again == cut
    rng = np.random.default_rng(seed)
    new = mixed_table(
        seed, 100, numeric=table.numeric.shape[1], cardinality=tuple(map(int, table.cardinality))
    )
    digests = rng.integers(0, 2**63, 100).astype(np.uint64)
    piece = cut.piece_of(new, digests)
    np.testing.assert_array_equal(piece, again.piece_of(new, digests))
    assert 0 <= piece.min() <= piece.max() < cut.pieces
    some = rng.permutation(100)[:40]
    np.testing.assert_array_equal(
        piece[some], cut.piece_of(permuted(new, some), digests[some]), "each by itself"
    )


def points(numbers: list[float], codes: list[list[int]], cardinality: list[int]) -> Table:
    """One number a row, and categories."""
    return Table(
        numeric=np.array(numbers)[:, None],
        categorical=np.array(codes, dtype=np.int32).reshape(len(numbers), len(cardinality)),
        cardinality=np.array(cardinality),
        weights=np.ones(1 + len(cardinality)),
    )


def test_a_cut_goes_between_cohorts() -> None:
    """Two towns of 46 and 54 people: the border is there, not in the middle."""
    numbers = [place / 1000 for place in range(46)] + [0.9 + place / 1000 for place in range(54)]
    table = points(numbers, [[] for _ in numbers], [])
    cut = make_cut(table, np.arange(100), np.arange(100) // 46, 2)
    assert cut.nodes[0].test == Threshold(0, 0.045)
    assert np.bincount(cut.piece_of(table)).tolist() == [46, 54]


def test_categories_that_share_cohorts_stay_together() -> None:
    """Eight jobs, cohorts of each even and the next odd one; numbers tell nothing."""
    rng = np.random.default_rng(3)
    jobs = np.repeat(np.arange(8), 50)
    numbers = rng.random(400)
    table = replace(points(numbers.tolist(), jobs[:, None].tolist(), [200]), weights=np.array([50.0, 1.0]))
    labels = (jobs // 2) * 100 + np.tile(np.arange(50) // 5, 8)
    cut = make_cut(table, np.arange(400), labels, 4)
    piece = cut.piece_of(table)
    assert [set((jobs[piece == number] // 2).tolist()) for number in range(4)] == [
        {0},
        {1},
        {2},
        {3},
    ] or sorted(set((jobs[piece == number] // 2).tolist()).pop() for number in range(4)) == [0, 1, 2, 3]
    assert all(isinstance(node.test, Codes) for node in cut.nodes if node.test)
    for cohort in np.unique(labels):
        assert np.unique(piece[labels == cohort]).size == 1


def test_dear_attributes_are_cut_first_and_cells_packed_whole() -> None:
    """A second sex costs more than a box: no piece has both where cells fit; the dearest comes first."""
    rng = np.random.default_rng(4)
    sex, race = rng.integers(0, 2, 600), rng.integers(0, 3, 600)
    table = points(rng.random(600).tolist(), np.stack([race, sex], axis=1).tolist(), [3, 2])
    rows = np.arange(600)
    order = np.lexsort((table.numeric[:, 0], race, sex))
    labels = np.empty(600, dtype=np.int64)
    labels[order] = np.arange(600) // 5
    cut = make_cut(table, rows, labels, 6)
    assert cut.columns == (1, 0)
    assert cut.cells == tuple((a, b) for a in range(2) for b in range(3))
    piece = cut.piece_of(table)
    assert cut.pieces == 6
    for number in range(6):
        assert np.unique(sex[piece == number]).size == np.unique(race[piece == number]).size == 1
    few = make_cut(table, rows, labels, 2).piece_of(table)
    assert all(np.unique(sex[few == number]).size == 1 for number in range(2))


def test_an_unseen_cell_goes_where_it_is_cheapest() -> None:
    """By the price of what differs; of equally near cells to the first one."""
    leaf = (Node(piece=0), Node(piece=1), Node(piece=2))
    cut = TreeCut((0, 1), (0.5, 0.1), ((0, 0), (1, 1), (1, 3)), (0, 1, 2), leaf, 3)
    table = points([0.0] * 5, [[0, 0], [1, 3], [0, 3], [1, 2], [2, 2]], [3, 4])
    assert cut.piece_of(table).tolist() == [0, 2, 0, 1, 0]


def test_equal_people_part_by_order_or_by_digest() -> None:
    """A thousand equal people in three pieces: even by order; by digest nearly so, and each by himself."""
    table = points([0.5] * 1000, [[1]] * 1000, [2])
    cut = make_cut(table, np.arange(200), np.arange(200) // 5, 3)
    assert isinstance(cut.nodes[0].test, Pivot)
    piece = cut.piece_of(table)
    assert np.bincount(piece).tolist() == [333, 333, 334]
    assert np.all(np.diff(piece) >= 0)
    digests = np.random.default_rng(1).integers(0, 2**63, 1000).astype(np.uint64)
    drawn = cut.piece_of(table, digests)
    assert np.bincount(drawn).min() > 280
    one = points([0.5], [[1]], [2])
    assert all(cut.piece_of(one, digests[[row]])[0] == drawn[row] for row in range(50))
    assert np.bincount(cut.piece_of(table, np.arange(1000).astype(np.uint64))).min() > 280, (
        "digests need not be spread"
    )


def test_nulls_stand_below_all_numbers() -> None:
    """And are a side of their own where cohorts are of nulls alone."""
    numbers = [np.nan] * 50 + [place / 50 for place in range(50)]
    table = points(numbers, [[] for _ in numbers], [])
    cut = make_cut(table, np.arange(100), np.arange(100) // 50, 2)
    assert cut.nodes[0].test == Threshold(0, -1.0)
    assert cut.piece_of(table).tolist() == [0] * 50 + [1] * 50


@pytest.mark.parametrize("size", [0, 1, 7, 20, 50])
def test_a_sample_has_everybodys_share(size: int) -> None:
    """At even places of the order; of everybody at most."""
    table = points([place / 20 for place in range(20)][::-1], [[] for _ in range(20)], [])
    rows = even_sample(table, size)
    assert rows.size == np.unique(rows).size == min(size, 20)
    assert np.all(np.diff(table.numeric[rows, 0]) > 0)
    assert size < 7 or np.diff(table.numeric[rows, 0]).max() <= 0.16


@pytest.mark.parametrize(("first", "equal"), [(1, 2), (3, 2048), (1, 2049), (5_000, 10_000), (10**6, 10**7)])
def test_so_many_of_equal_people_go_first(first: int, equal: int) -> None:
    """Whatever their number: in whole numbers, as who checks it reckons (an overflow sent all of 10,000 one way)."""
    digests = np.random.default_rng(equal).integers(0, 2**63, 20_000).astype(np.uint64)
    went = are_first(digests, first, equal, 7)
    drawn = mixed_words(digests + np.uint64(7)) >> np.uint64(11)
    assert went.tolist() == [word * equal < first << 53 for word in drawn.tolist()]
    assert abs(went.mean() - first / equal) < 0.02
    assert are_first(digests, equal, equal, 7).all()
    assert not are_first(digests, 0, equal, 7).any()


def test_many_equal_people_part_evenly() -> None:
    """Ten thousand in four pieces: more than a product of a word has room for."""
    table = points([0.5] * 10_000, [[1]] * 10_000, [2])
    cut = make_cut(table, np.arange(200), np.arange(200) // 5, 4)
    sizes = np.bincount(cut.piece_of(table, np.arange(10_000).astype(np.uint64)))
    assert sizes.size == 4
    assert sizes.min() > 2_300


@settings(derandomize=True, max_examples=100)
@given(table=any_table, pieces=st.integers(1, 6), tests=st.booleans())
def test_equal_people_stay_together_where_they_may_not_part(table: Table, pieces: int, tests: bool) -> None:
    """Whatever their digests; no piece is too small, and one that is too large has nothing to be cut at."""
    rows = even_sample(table, 200)
    cut = make_cut(table, rows, near_cohorts(table, rows, 5), pieces, tests=tests, part_equal=False)
    piece = cut.piece_of(table)
    drawn = np.random.default_rng(1).integers(0, 2**63, table.records).astype(np.uint64)
    np.testing.assert_array_equal(piece, cut.piece_of(table, drawn))
    where: dict[tuple[float, ...], int] = {}
    for row in range(table.records):
        assert where.setdefault(naive.person(table, row), int(piece[row])) == piece[row]
    sizes = np.bincount(piece, minlength=cut.pieces)
    assert cut.pieces == sizes.size
    assert sizes.min() >= int(0.5 * table.records / pieces)


def test_what_is_all_equal_is_one_piece() -> None:
    """And of two values one border is there."""
    table = points([0.5] * 100, [[1]] * 100, [2])
    assert make_cut(table, np.arange(100), np.arange(100) // 5, 4, part_equal=False).pieces == 1
    table = points([0.2] * 70 + [0.9] * 30, [[1]] * 100, [2])
    cut = make_cut(table, np.arange(100), np.arange(100) // 5, 4, tests=False, part_equal=False)
    assert np.bincount(cut.piece_of(table)).tolist() == [70, 30]
