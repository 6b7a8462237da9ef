"""What ``against`` drops, window by window: for good, never held, and counted from the first release on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kanonflow.schemas.errors import PolicyError
from kanonflow.transforms.release.account import WindowResult
from tests.small_feeds import bound_feed, feed_policy
from tests.transforms.protections.test_lasting import Windows, published, reasons, rows_of

ONE = {"known_windows": {"count": 1, "drop": True}}
TWO = {"known_windows": {"count": 2, "drop": True}}
BOUGHT = {"known_purchases": {"count": 1, "of": ["amount"], "drop": True}}


def windows_of(against: dict[str, Any] | None = None, **head: Any) -> Windows:
    """One cohort of eight, k = 3, after a first window in which all of them have a row."""
    windows = Windows(**{"cohort_size": 8, "intake": 8, "against": against} | head)
    first = windows.close(*rows_of(range(8), 0.5, amount="1"))
    assert published(first).num_rows == 8
    assert windows.roster.members.tolist() == [8]
    return windows


def dropped(result: WindowResult) -> int:
    return reasons(result).count("known_otherwise")


def test_too_few_of_a_cohort_go_out_in_no_window_of_theirs() -> None:
    """Two of one cohort, beside eight of another who enter now: their rows are rejected, those of the others go out."""
    windows = windows_of(ONE)
    result = windows.close(*rows_of([0, 1], 1.5, 20), *rows_of(range(20, 28), 1.5, 30))
    assert (dropped(result), published(result).num_rows) == (2, 8)
    without = windows_of()
    result = without.close(*rows_of([0, 1], 1.5, 20), *rows_of(range(20, 28), 1.5, 30))
    assert (dropped(result), published(result).num_rows) == (0, 10)


def test_what_two_windows_share_is_enough_or_nothing() -> None:
    """0-3 and then 4-7 may go out; 2-5 shares two people with each, who would be left."""
    windows = windows_of(TWO)
    for people, out in ((range(4), 4), (range(4, 8), 4), (range(2, 6), 0), (range(4), 4), (range(1, 8), 7)):
        result = windows.close(
            *rows_of(people, windows.hour + 0.5, 10 * windows.hour),
            *rows_of(range(20, 28), windows.hour + 0.5, 900),
        )
        assert published(result).num_rows - 8 == out, people
        assert dropped(result) == len(people) - out


def test_known_people_are_taken_away_from_those_who_are_left() -> None:
    """Three with rows are enough for k = 3, four where one of them may be known."""
    for known, out in ((0, 3), (1, 0)):
        windows = windows_of({**ONE, "known_people": known})
        result = windows.close(*rows_of(range(3), 1.5, 20), *rows_of(range(20, 28), 1.5, 30))
        assert published(result).num_rows - 8 == out


def test_a_dropped_row_never_goes_out() -> None:
    """Not when it is fed again, with or without event ids, nor when more of the cohort come late to the window."""
    for events in (False, True):
        windows = Windows(cohort_size=8, intake=8, against=ONE)
        windows.bound = bound_feed(
            feed_policy(events=events, cohort="lasting", max_delay="2h", cohort_size=8, intake=8, against=ONE)
        )
        windows.close(*rows_of(range(8), 0.5))
        others = rows_of(range(20, 28), 1.5, 30)
        assert dropped(windows.close(*rows_of([0, 1], 1.5, 20), *others)) == 2
        again = windows.close(*rows_of(range(5), 1.5, 20), *rows_of(range(20, 28), 2.5, 50))
        assert reasons(again) == (["duplicate_event"] * 2 if events else []) + ["known_otherwise"] * (
            3 if events else 5
        )
        assert published(again).num_rows == 8


def test_a_late_row_is_an_item_of_its_own() -> None:
    """One row late of a window that went out is dropped, and three together go out."""
    windows = windows_of(ONE)
    others = rows_of(range(20, 28), 1.5, 50)
    windows.close(*rows_of(range(4), 1.5, 20), *others)
    late = windows.close(*rows_of([5], 1.5, 30), *rows_of(range(20, 28), 2.5, 60))
    assert (dropped(late), published(late).num_rows) == (1, 8)
    windows = windows_of(ONE)
    windows.close(*rows_of(range(4), 1.5, 20), *others)
    late = windows.close(*rows_of([5, 6, 7], 1.5, 30), *rows_of(range(20, 28), 2.5, 60))
    assert (dropped(late), published(late).num_rows) == (0, 11)


def test_what_is_held_was_not_decided() -> None:
    """Where fewer than k people would be left, all rows wait, and go out together with others of the window."""
    windows = windows_of(ONE)
    held = windows.close(*rows_of([0, 1], 1.5, 20))
    assert (held.release, reasons(held), held.warm.waiting_reason) == (None, [], ("too_few_peers",) * 2)
    result = windows.close(*rows_of([2, 3], 1.5, 30))
    assert (dropped(result), published(result).num_rows) == (0, 4)


def test_rows_of_a_purchase_go_out_together_or_not() -> None:
    """Three of one amount go out, two of another do not; of two rows that are alike the second is another purchase."""
    windows = windows_of(BOUGHT)
    rows = [*rows_of(range(3), 1.5, 20, amount="7"), *rows_of([3, 4], 1.5, 30, amount="8")]
    result = windows.close(*rows)
    assert (dropped(result), published(result).column("amount").to_pylist()) == (2, [7.0] * 3)
    several = windows.close(*rows_of(range(4), 2.5, 40, amount="7"), *rows_of(range(2), 2.5, 50, amount="7"))
    assert dropped(several) == 0, "one is known: it may be any of both"
    windows = windows_of({"known_purchases": {"count": 2, "of": ["amount"], "drop": True}})
    several = windows.close(*rows_of(range(4), 1.5, 40, amount="7"), *rows_of(range(2), 1.5, 50, amount="7"))
    assert (dropped(several), published(several).num_rows) == (2, 4)


def test_a_clause_that_comes_later_is_refused() -> None:
    """And one that goes, comes back, or asks for more: what is out was not counted for it."""
    for first, second in ((None, ONE), (ONE, TWO), (ONE, {**ONE, "known_people": 1})):
        windows = windows_of(first)
        windows.bound = (
            bound_feed(replace(windows.bound.policy, against=None))
            if second is None
            else windows_of(second).bound
        )
        with pytest.raises(PolicyError, match="against: the cohorts here were begun without it"):
            windows.close(*rows_of(range(8), 1.5, 20))
    windows = windows_of(ONE)
    with_it, windows.bound = windows.bound, windows_of(None).bound
    windows.close(*rows_of(range(8), 1.5, 20))
    windows.bound = with_it
    with pytest.raises(PolicyError, match="begin an epoch"):
        windows.close(*rows_of(range(8), 2.5, 20))
