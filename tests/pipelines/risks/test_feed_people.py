"""Counts of people over windows, on feeds that are counted by hand."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kanonflow.pipelines.risks.feed_people import in_several, varying_fields, window_people, with_equals
from tests.pipelines.risks.toy_feeds import toy

FEED = [
    ("a", 0, 30), ("b", 0, 40), ("c", 0, 50), ("a", 0, 30),
    ("a", 1, 30), ("d", 1, 30),
    # Nobody in hour 2.
    ("a", 3, 31), ("b", 3, None), ("e", 3, 60), ("f", 3, 60),
]  # fmt: skip


def test_newcomers_returning_and_who_comes_once() -> None:
    """Newcomers 3 1 0 2, returning 0 1 0 2; c, d, e, f come in one window; hour 1 has fewer than three people."""
    feed, _ = toy(FEED)
    found = window_people(feed, 3)
    assert found.windows == 4
    assert (found.newcomers, found.returning) == (1.5, 0.5)
    assert found.later_newcomers == 1.0
    assert (found.once, found.small) == (4, 1)


def test_windows_are_counted_by_partition() -> None:
    """In the north hours 0 and 1 with newcomers 2 and 1, in the south hour 0 with 1; nobody comes later there."""
    rows = [("a", 0, 1), ("b", 0, 1), ("c", 1, 1), ("d", 0, 1)]
    feed, _ = toy(
        rows,
        columns={"town": ["north", "north", "north", "south"]},
        payload=["town"],
        partition_by=["town"],
    )
    found = window_people(feed, 2)
    assert found.windows == 3
    assert found.newcomers == 1.0
    assert found.later_newcomers == 1.0
    assert found.small == 2


def test_a_single_window_has_no_later_newcomers() -> None:
    """Nothing to judge by."""
    feed, _ = toy(FEED[:4])
    assert window_people(feed, 2).later_newcomers is None


def test_no_rows_at_all() -> None:
    """All zero."""
    feed, bound = toy([])
    found = window_people(feed, 2)
    assert found == (0, 0.0, 0.0, None, 0, 0)
    assert with_equals(feed, bound) == 0
    assert varying_fields(feed, bound)[0].share == 0.0


def test_a_value_differs_from_the_first_of_its_person() -> None:
    """One row of nine with an age differs, that of a in hour 3; a missing one is no other value."""
    feed, bound = toy(FEED)
    (age,) = varying_fields(feed, bound)
    assert (age.field, age.people, age.rows, age.valued) == ("age", 1, 1, 9)
    assert age.share == pytest.approx(1 / 9)


def test_the_first_value_is_that_of_the_first_window_not_of_the_first_row() -> None:
    """Rows in another order, the same counts; of two values in the first window the least is the first."""
    rows = [("a", 2, 9), ("a", 0, 7), ("a", 0, 8), ("a", 1, 7)]
    assert varying_fields(*toy(rows))[0][1:] == (1, 2, 4)
    assert varying_fields(*toy(rows[::-1]))[0][1:] == (1, 2, 4)


def test_people_in_two_partitions_are_counted_by_field() -> None:
    """a is in two towns, nobody has two regions."""
    rows = [("a", 0, 1), ("a", 1, 1), ("b", 0, 1), ("b", 1, 1)]
    columns = {"town": ["x", "y", "x", "x"], "region": pa.array(["r"] * 4)}
    feed, bound = toy(rows, columns=columns, payload=["town", "region"], partition_by=["town", "region"])
    assert in_several(feed, bound) == {"town": 1, "region": 0}
    assert feed.partitions == 2
    assert feed.home.size == 3


def test_equals_share_all_values_of_their_first_window() -> None:
    """a and d begin at 30, e and f at 60; b and c are alone. A null equals a null."""
    assert with_equals(*toy(FEED)) == 4
    assert with_equals(*toy([("a", 0, None), ("b", 1, None), ("c", 0, 3)])) == 2
    assert with_equals(*toy([("a", 0, 3), ("b", 1, 4), ("b", 2, 3)])) == 0


def test_somebody_of_two_partitions_who_has_an_equal_in_each_counts_once() -> None:
    """A share of people is never above 1: a and b are alike in the north and in the south."""
    rows = [("a", 0, 3), ("b", 0, 3), ("a", 1, 3), ("b", 1, 3)]
    towns = {"town": ["north", "north", "south", "south"]}
    feed, bound = toy(rows, columns=towns, payload=["town"], partition_by=["town"])
    assert with_equals(feed, bound) == feed.people == 2
