"""How wide a field is published, and that in words."""

from __future__ import annotations

from typing import NamedTuple

_DAY_MS = 86_400_000
_YEAR_DAYS = 365.25
_LEAST_YEARS = 2


class FieldWidth(NamedTuple):
    """One quasi-identifier as it is published.

    median: of the rows' boxes, the end less the beginning in ``unit`` (days, ms, or the field's own numbers), or of
    sets and labels how many values ("values"), of prefixes how much is withheld ("characters", "bits"). None: no row
    has a value. ncp: mean of the boxes' share of the domain.
    """

    field: str
    unit: str
    median: float | None
    ncp: float


def in_words(width: FieldWidth, other: FieldWidth | None = None) -> str:
    """A median width for people: 2.4 years, 40 days, 6 hours, 3 values, 0.5. other: of one it stands beside, whose
    unit it has if that is the larger."""
    value = width.median
    if value is None:
        return "nothing"
    largest = max(value, (other.median or 0.0) if other is not None else 0.0)
    if width.unit in ("values", "characters", "bits"):
        return f"{value:,.0f} {width.unit.removesuffix('s') if value == 1 else width.unit}"
    if width.unit == "number":
        return f"{_round(value)}"
    days = 1.0 if width.unit == "days" else 1.0 / _DAY_MS
    for unit, size in _spans(width.unit):
        if largest * days >= _LEAST_YEARS * size or (unit, size) == _spans(width.unit)[-1]:
            number = _round(value * days / size)
            return f"{number} {unit.removesuffix('s') if number == '1' else unit}"
    raise AssertionError


def _spans(unit: str) -> tuple[tuple[str, float], ...]:
    spans = (("years", _YEAR_DAYS), ("days", 1.0), ("hours", 1 / 24), ("minutes", 1 / 1440))
    return spans[:2] if unit == "days" else spans


def _round(value: float) -> str:
    """Two digits, or all whole ones."""
    if value < 1:
        return f"{value:.2g}"
    return f"{value:,.0f}" if round(value, 1) >= 10 or value == int(value) else f"{value:.1f}"
