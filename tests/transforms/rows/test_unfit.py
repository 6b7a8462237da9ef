"""Rows that do not fit: what is counted, under which name, and what of a stream is judged together."""

from __future__ import annotations

from collections import Counter

import pytest

from kanonflow.transforms.release.rejected import MESSAGES
from kanonflow.transforms.rows.unfit import (
    JUDGED_ROWS,
    LEAST_ROWS,
    UNFIT,
    LastRows,
    count_unfit,
    unfit_counter,
    unfit_of_counters,
)


def test_only_reasons_that_lie_in_the_input_count() -> None:
    """What depends on other people, on time or on this software is no fault of the input."""
    assert not set(UNFIT) & MESSAGES.keys()
    records = [
        {"reason": "bad_value", "field": "age"},
        {"reason": "bad_value", "field": "age"},
        {"reason": "unparseable", "field": None},
        {"reason": "ahead", "field": "when"},
        {"reason": "too_few_peers", "field": None},
    ]
    assert count_unfit(records) == {("bad_value", "age"): 2, ("unparseable", None): 1}


@pytest.mark.parametrize("field", [None, "age", "bad_value", "salary class", "a_missing_value", "_"])
@pytest.mark.parametrize("reason", UNFIT)
def test_a_counters_name_tells_reason_and_field(reason: str, field: str | None) -> None:
    """Whatever the field is called; other counters are none of them."""
    counters = {unfit_counter(reason, field): 3, f"rows_rejected_{reason}": 3, "rows_unfit": 9, "windows": 1}
    assert unfit_of_counters(counters) == {(reason, field): 3}


def bad(rows: int) -> Counter[tuple[str, str | None]]:
    """So many rows with a wrong date."""
    return Counter({("bad_value", "date"): rows}) if rows else Counter()


def test_what_came_last_is_judged() -> None:
    """A change of format shows once it fills the last rows; good rows afterwards take it away."""
    last = LastRows()
    for _ in range(30):
        last.add(1000, bad(0))
    assert (last.rows, last.share) == (JUDGED_ROWS, 0.0)
    shares = []
    for _ in range(10):
        last.add(1000, bad(1000))
        shares.append(last.share)
    assert shares == pytest.approx([n / 10 for n in range(1, 11)])
    assert last.unfit == {("bad_value", "date"): JUDGED_ROWS}
    for _ in range(10):
        last.add(1000, bad(0))
    assert (last.share, last.unfit) == (0.0, Counter())


def test_whole_batches_are_judged() -> None:
    """No fewer rows than asked for once they came; a large batch is one."""
    last = LastRows()
    last.add(7_000, bad(7))
    last.add(7_000, bad(14))
    last.add(7_000, bad(21))
    assert (last.rows, last.unfit.total()) == (14_000, 35)
    last.add(50_000, bad(50))
    assert (last.rows, last.unfit.total()) == (50_000, 50)


def test_a_few_rows_are_not_judged() -> None:
    """A file of ten broken rows at the start of a stream is no share of anything."""
    last = LastRows()
    last.add(LEAST_ROWS - 1, bad(LEAST_ROWS - 1))
    assert last.share == 0.0
    last.add(1, bad(0))
    assert last.share == pytest.approx(0.999)
