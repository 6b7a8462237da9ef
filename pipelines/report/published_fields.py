"""What is published of each field: how wide its boxes are, in a sample of released rows, and an invented example."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField
from kanonflow.pipelines.pictures.released_sample import ReleasedSample
from kanonflow.schemas.kinds.category import Truths
from kanonflow.schemas.kinds.date import Days, Instants
from kanonflow.schemas.kinds.form import Form
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.number import DecimalForm, FloatForm, Whole

_DAY, _YEAR = 86_400.0, 365.2425
_IN_YEARS = 2 * _YEAR
"""Days that nine of ten widths may have before all are told in years."""
_NUMBERS = "20", "3.50"


class PublishedField(NamedTuple):
    """role: quasi-identifier, as it is, or what made it coarse. example: invented. median, ninth: widths of its boxes,
    of ten rows nine are no wider; None where there are none. unit: what they are counted in, "" for that of the
    field."""

    name: str
    role: str
    example: str
    median: float | None
    ninth: float | None
    unit: str


class Fields(NamedTuple):
    """fields: in the order of the release. rows, files: read; all_files: there are."""

    fields: tuple[PublishedField, ...]
    rows: int
    files: int
    all_files: int


def published_fields(sample: ReleasedSample) -> Fields:
    """What is published of each field of some releases."""
    if sample.form is None:
        return Fields((), 0, 0, 0)
    fields = [
        _field(field, [row.get(field.name) for row in sample.rows])
        for field in sample.form.fields
        if field.kind is not Kind.OWN
    ]
    return Fields(tuple(fields), len(sample.rows), sample.files, sample.all_files)


def _field(field: ReleasedField, cells: Sequence[Any]) -> PublishedField:
    if field.kind is Kind.EXACT:
        example = _EXACT_EXAMPLES.get(type(form_of(field.value)), "a word")
        return PublishedField(field.name, field.coarse or "as it is", example, None, None, "")
    if field.kind is Kind.LABEL:
        example = "a label of its hierarchy, which stands for all values below it"
        return PublishedField(field.name, "quasi-identifier", example, None, None, "")
    widths, unit = _widths(field, cells)
    median = ninth = None
    if widths:
        median, ninth = np.quantile(widths, [0.5, 0.9], method="higher").tolist()
    example = _example(field, median)
    if unit == "days" and median is not None and ninth is not None and ninth > _IN_YEARS:
        median, ninth, unit = median / _YEAR, ninth / _YEAR, "years"
    role = "quasi-identifier" + (f", widths count by {field.scale}" if field.scale else "")
    return PublishedField(field.name, role, example, median, ninth, unit)


def _widths(field: ReleasedField, cells: Sequence[Any]) -> tuple[list[float], str]:
    """Of boxes with values; of sets how many values they have."""
    if field.kind is Kind.SET:
        return [float(len(cell)) for cell in cells], "values"
    widths = [cell["max"] - cell["min"] for cell in cells if cell["min"] is not None]
    if form_of(field.value).per_day is not None:
        return [width.total_seconds() / _DAY for width in widths], "days"
    return [float(width) for width in widths], ""


def _example(field: ReleasedField, width: float | None) -> str:
    """Of a quasi-identifier, with the median width; its place is invented and follows from the declared domain."""
    if field.kind is Kind.SET:
        named = "ABCDEFGH"[: max(1, min(int(width or 3), 8))]
        more = ", ..." if (width or 3) > len(named) else ""
        return "A" if named == "A" else f"one of {', '.join(named)}{more}"
    if form_of(field.value).per_day is not None:
        first = dt.date(1980, 1, 1)
        return f"{first} to {first + dt.timedelta(days=int(min(width or 0, 36_000)))}"
    low = _quarter(field)
    high = low + (width or 0)
    return f"{_short(low)} to {_short(high)}"


def _quarter(field: ReleasedField) -> float:
    """A round number a quarter into the declared domain; without one, 20."""
    if field.domain is None:
        return 20.0
    try:
        first, last = (float(Decimal(end)) for end in field.domain)
    except ArithmeticError:
        return 20.0
    place = first + (last - first) / 4
    step = 10.0 ** math.floor(math.log10(max(abs(last - first), 1e-12) / 4))
    return round(place / step) * step


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


_EXACT_EXAMPLES: dict[type[Form], str] = {
    Truths: "true",
    Whole: _NUMBERS[0],
    FloatForm: _NUMBERS[1],
    DecimalForm: _NUMBERS[1],
    Days: "1980-01-01",
    Instants: "1980-01-01 08:00",
}
