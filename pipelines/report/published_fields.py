"""What is published of each field: how wide its boxes are, in a sample of the released rows, and an invented example.

Nothing but ``release/`` is read. The sample is evenly spread over the files, and in each of them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.analysis.release_formats import damaged, reader_of
from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField, release_form
from kanonflow.pipelines.analysis.released_files import release_paths, release_schema, rows_of_release
from kanonflow.schemas.kinds.category import Truths
from kanonflow.schemas.kinds.date import Days, Instants
from kanonflow.schemas.kinds.form import Form
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.number import DecimalForm, FloatForm, Whole

SAMPLE = 5_000
"""Rows that are read, about; of Avro at least one block of each of the files it takes."""

_DAY = 86_400.0
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


def published_fields(release: Path, sample: int = SAMPLE) -> Fields:
    """What is published of each field of the releases in a folder. Deterministic.

    sample: rows to read, about. Raises InputError: a file is damaged, or no release.
    """
    paths = release_paths(release)
    if not paths:
        return Fields((), 0, 0, 0)
    form = None
    rows: list[Mapping[str, Any]] = []
    read = 0
    for path in _spread(paths, sample):
        schema, sampled = _sampled(path, max(1, sample - len(rows)))
        form = form or release_form(schema)
        rows += sampled
        read += 1
        if len(rows) >= sample:
            break
    assert form is not None
    fields = [
        _field(field, [row.get(field.name) for row in rows])
        for field in form.fields
        if field.kind is not Kind.OWN
    ]
    return Fields(tuple(fields), len(rows), read, len(paths))


def _spread(paths: Sequence[Path], sample: int) -> Iterator[Path]:
    """Some of the files, evenly over all of them: as many as have ``sample`` rows if they are like the first."""
    first = rows_of_release(paths[0])
    wanted = min(len(paths), max(1, math.ceil(sample / max(first, 1))))
    for number in range(wanted):
        yield paths[number * len(paths) // wanted]


def _sampled(path: Path, most: int) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """The schema of a file and some of its rows."""
    schema = release_schema(path)
    try:
        with path.open("rb") as stream:
            return (schema if isinstance(schema, dict) else {}), reader_of(path).some(stream, most)
    except Exception as error:  # whatever the decoder trips over, the file is damaged
        raise damaged(path, error) from None


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
    return PublishedField(field.name, "quasi-identifier", _example(field, median), median, ninth, unit)


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
