"""Rows that are not released: they wait or are rejected, and sums of them lose none and keep their order."""

from __future__ import annotations

from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.ledger import OVER_LIMIT, Unreleased, hold, reject, wait
from kanonflow.transforms.secret.seeds import ReleaseSlot
from tests.small_feeds import HOUR, SECRET, START, bound_feed, canonical, feed_policy, row

BOUND = bound_feed(feed_policy(max_delay="1h"))
ROWS = canonical([row(0, 0, 0.5), row(1, 1, 1.5), row(2, 2, 0.6), row(3, 3, 1.6)], BOUND)
"""Two rows of the first hour, which may leave until the end of the second, and two of the second."""


def due(hour: int = 1, *, more: bool = False) -> Due:
    """The window that ends after ``hour`` and one."""
    return Due(BOUND, SECRET, ReleaseSlot(b"p", START + (hour + 1) * HOUR, 0), more=more)


def told(rows: Unreleased) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(reference, reason) of the rows that wait, and of those that are rejected."""
    waiting = rows.waiting_rows
    names = [] if waiting is None else waiting.column("reference").to_pylist()
    rejected = [(record["row"]["reference"], record["reason"]) for record in rows.rejected]
    return list(zip(names, rows.reasons, strict=True)), rejected


def test_what_may_leave_later_waits_and_the_rest_is_rejected() -> None:
    """Each row for the same reason, in their order."""
    waiting, rejected = told(hold(due(), ROWS, "held_back"))
    assert waiting == [("r1", "held_back"), ("r3", "held_back")]
    assert rejected == [("r0", "held_back"), ("r2", "held_back")]
    assert told(hold(due(0), ROWS, "held_back"))[1] == []
    assert told(hold(due(2), ROWS, "held_back"))[0] == []


def test_without_windows_nothing_can_wait() -> None:
    """There is no later release."""
    bound = bound_feed(feed_policy(window=None))
    rows = canonical([row(0, 0, 0.5)], bound)
    held = hold(Due(bound, SECRET, ReleaseSlot(b"p", None, 0)), rows, "too_few_peers")
    assert told(held) == ([], [("r0", "too_few_peers")])


def test_the_next_part_of_the_window_takes_whatever_is_not_over_the_limit() -> None:
    """Before the last part all rows wait, at their deadline too; whose individual was released waits for a window."""
    waiting, rejected = told(hold(due(more=True), ROWS, "held_back"))
    assert (len(waiting), rejected) == (4, [])
    waiting, rejected = told(hold(due(more=True), ROWS, OVER_LIMIT))
    assert (len(waiting), len(rejected)) == (2, 2)


def test_sums_keep_every_row_in_the_order_of_the_stages() -> None:
    """Waiting and rejected rows each for themselves; what was added is as it was."""
    first = wait(ROWS.slice(2, 1), ("late",)) + reject(due(), ROWS.slice(3, 1), "late")
    second = hold(due(), ROWS.slice(0, 2), "too_few_peers")
    waiting, rejected = told(first + second)
    assert waiting == [("r2", "late"), ("r1", "too_few_peers")]
    assert rejected == [("r3", "late"), ("r0", "too_few_peers")]
    assert told(first) == ([("r2", "late")], [("r3", "late")])


def test_no_rows_are_nothing() -> None:
    """Neither a table of no rows that waits, nor a record."""
    nothing = ROWS.slice(0, 0)
    for empty in (
        hold(due(), nothing, "late"),
        hold(due(more=True), nothing, "late"),
        wait(nothing, ()),
        reject(due(), nothing, "late"),
    ):
        assert empty == Unreleased()
        assert empty.waiting_rows is None
