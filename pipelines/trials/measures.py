"""What a policy lost on sampled windows: shares of rows, loss, and how wide each field is published, with words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

_DAY_MS = 86_400_000
_YEAR_DAYS = 365.25
_LEAST_YEARS = 2


class FieldWidth(NamedTuple):
    """One quasi-identifier as it is published.

    median: of the rows' boxes, the end less the beginning in ``unit`` (days, ms, or the field's own numbers), or of
    sets and labels how many values ("values"). None: no row has a value. ncp: mean of the boxes' share of the domain.
    """

    field: str
    unit: str
    median: float | None
    ncp: float


@dataclass(frozen=True)
class Measures:
    """A policy on the sampled windows.

    windows, rows: tried, and rows due in them. loss: GCP of the published boxes, by rows; None: nothing went out.
    at_once: share of the feed's rows that is due with its own window. rejected: share that leaves the feed, by the
    rules of waiting and by what the sampled windows reject. held: share of the due rows that wait for another window.
    count_error, mean_error: medians of random queries (``analysis/query_error.py``); None where nothing is asked.
    fields: in the policy's order.
    """

    windows: int
    rows: int
    loss: float | None
    at_once: float
    rejected: float
    held: float
    count_error: float | None
    mean_error: float | None
    fields: tuple[FieldWidth, ...]

    @property
    def cost(self) -> float:
        """The loss, where a row that is rejected loses all."""
        return 1.0 if self.loss is None else self.loss * (1.0 - self.rejected) + self.rejected

    def of(self, field: str) -> FieldWidth:
        """Of one field. Raises KeyError."""
        return {each.field: each for each in self.fields}[field]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return told | {"cost": self.cost, "fields": [each._asdict() for each in self.fields]}


def in_words(width: FieldWidth, other: FieldWidth | None = None) -> str:
    """A median width for people: 2.4 years, 40 days, 6 hours, 3 values, 0.5. other: of one it stands beside, whose
    unit it has if that is the larger."""
    value = width.median
    if value is None:
        return "nothing"
    largest = max(value, (other.median or 0.0) if other is not None else 0.0)
    if width.unit == "values":
        return f"{value:,.0f} value" + ("s" if value != 1 else "")
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
