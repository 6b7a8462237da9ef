"""Widths of boxes, their median, and their words, where they can be counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.pipelines.dry_run.field_width import FieldWidth, in_words
from kanonflow.pipelines.dry_run.measures import _median


def test_a_median_counts_weights() -> None:
    """The least value that half of the weight is not above; boxes without a value have no say."""
    values = np.array([5.0, 1.0, np.nan, 3.0])
    assert _median(values, np.ones(4)) == 3.0
    assert _median(values, np.array([1.0, 5.0, 100.0, 1.0])) == 1.0
    assert _median(values[:2], np.ones(2)) == 1.0
    assert _median(values[2:3], np.ones(1)) is None


@pytest.mark.parametrize(
    ("unit", "median", "words"),
    [
        ("days", 876.6, "2.4 years"),
        ("days", 365.25 * 9.97, "10 years"),
        ("days", 5479.0, "15 years"),
        ("days", 400.0, "400 days"),
        ("days", 0.0, "0 days"),
        ("ms", 6 * 3_600_000.0, "6 hours"),
        ("ms", 90_000.0, "1.5 minutes"),
        ("ms", 3 * 365.25 * 86_400_000.0, "3 years"),
        ("values", 1.0, "1 value"),
        ("values", 3.0, "3 values"),
        ("number", 0.25, "0.25"),
        ("number", 4.4, "4.4"),
        ("number", 150_000.0, "150,000"),
        ("number", None, "nothing"),
    ],
)
def test_words(unit: str, median: float | None, words: str) -> None:
    """Years from two on, else days; of instants what is smaller, too."""
    assert in_words(FieldWidth("f", unit, median, 0.1)) == words


def test_two_widths_have_one_unit() -> None:
    """A year beside fifteen is told in years."""
    near, far = FieldWidth("f", "days", 365.25, 0.1), FieldWidth("f", "days", 15 * 365.25, 0.5)
    assert in_words(near, far) == "1 year"
    assert in_words(near) == "365 days"
