"""Rows with equal boxes are asked once: the same answers as row by row."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.pipelines.estimates.box_spread import around_people
from kanonflow.pipelines.estimates.coverage import (
    Cover,
    Interval,
    Missing,
    RangeColumn,
    SetColumn,
    exact_sets,
    set_column,
)
from kanonflow.pipelines.estimates.distinct_boxes import box_codes, distinct_boxes
from kanonflow.pipelines.estimates.questions import answer_count


def drawn_columns(seed: int) -> tuple[list[RangeColumn | SetColumn], int]:
    """Ranges, sets and values of some rows, few of them different; sometimes of no row at all."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 60))
    low = rng.integers(0, 3, count) * 10
    valued = rng.random(count) < 0.8
    low[~valued] = 0
    nulls = ~valued | (rng.random(count) < 0.3)
    spread = around_people(low[valued], low[valued] + 5)
    ranges = RangeColumn(low, low + 5 * valued, valued, nulls, 3, spread)
    sets = [("a",), ("a", "b"), ("b", "c"), (None, "c")]
    chosen = [sets[at] for at in rng.integers(0, len(sets), count)]
    texts = pa.array([str(at) for at in rng.integers(0, 3, count)], pa.string())
    return [ranges, set_column(pa.array(chosen, pa.list_(pa.string())), 3), exact_sets(texts)], count


def plain(cover: Cover) -> list[tuple[int, bool, float]]:
    """Its rows."""
    return list(zip(cover.rows.tolist(), cover.sure.tolist(), cover.share.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_boxes_meet_what_their_rows_meet(seed: int) -> None:
    """Each query of each column and all of them together, as rows; counts without them."""
    columns, count = drawn_columns(seed)
    boxes = distinct_boxes([box_codes(column) for column in columns], count)
    assert sorted(boxes.rows.tolist()) == list(range(count))
    queries = [
        [Interval(0, 12, True), Interval(3, 3, True), Missing()],
        [frozenset("a"), frozenset([None, "b"])],
        [frozenset("01"), frozenset("7")],
    ]
    for chosen in product(*queries):
        by_row, by_box = None, None
        for column, query in zip(columns, chosen, strict=True):
            rows, met = column.cover(query), column.of(boxes.first).cover(query)  # type: ignore[arg-type]
            assert plain(boxes.of_rows(met)) == plain(rows)
            by_row = rows if by_row is None else by_row.both(rows)
            by_box = met if by_box is None else by_box.both(met)
        assert by_row is not None
        assert by_box is not None
        assert plain(boxes.of_rows(by_box)) == plain(by_row)
        assert answer_count(by_box, boxes.sizes) == pytest.approx(answer_count(by_row))


def test_equal_boxes_are_one() -> None:
    """And different ones are not; without columns all rows are alike."""
    column = set_column(pa.array([["a", "b"], ["b"], ["a", "b"], ["a"], ["b"]]), 5)
    assert distinct_boxes([box_codes(column)], 5).sizes.tolist() == [2, 2, 1]
    assert distinct_boxes([], 5).sizes.tolist() == [5]
    assert distinct_boxes([], 0).sizes.tolist() == []


def test_sets_in_several_orders_stay_apart() -> None:
    """No release has them; a file that somebody wrote may, and is answered all the same."""
    column = set_column(pa.array([["a", "b"], ["b", "a"]]), 5)
    assert distinct_boxes([box_codes(column)], 2).first.size == 2
    assert column.cover(frozenset("a")).share.tolist() == [0.5, 0.5]
