"""Durations are read in both ways of writing, and described to editors as they are read."""

from __future__ import annotations

import re

import pytest

from kanonflow.schemas.durations import PATTERN, UNITS, format_duration, parse_duration

MINUTE, HOUR, DAY, WEEK = (UNITS[unit] for unit in "mhdw")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("1d", DAY),
        ("2w", 2 * WEEK),
        ("P1D", DAY),
        ("P1W", WEEK),
        ("PT1H", HOUR),
        ("PT30M", 30 * MINUTE),
        ("PT90S", 90_000),
        ("PT0.25S", 250),
        ("PT1.5S", 1_500),
        ("P1DT12H", DAY + 12 * HOUR),
        ("P1W2DT3H4M5.006S", WEEK + 2 * DAY + 3 * HOUR + 4 * MINUTE + 5_006),
        ("PT0S", 0),
    ],
)
def test_both_ways_are_read(text: str, milliseconds: int) -> None:
    """And what is written back is read as the same."""
    assert parse_duration(text) == milliseconds
    assert re.search(PATTERN, text)
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "P1M",
        "P1Y",
        "PT1D",
        "P1H",
        "1D",
        "pt1h",
        "P-1D",
        "P1.5D",
        "PT1.0001S",
        "1 d",
        "d",
        "P1D ",
    ],
)
def test_what_has_no_length_is_none(text: str) -> None:
    """Months and years have none; nor has what stands in the wrong place."""
    assert parse_duration(text) is None
    assert not re.search(PATTERN, text)


@pytest.mark.parametrize("value", [True, 1, 1.0, None, ["1d"]])
def test_other_values_are_none(value: object) -> None:
    """A number has no unit; 0 needs none."""
    assert parse_duration(value) is None
    assert parse_duration(0) == 0
