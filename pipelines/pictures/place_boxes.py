"""The boxes of two fields of numbers, drawn on the plane: where on a map, or in what corner, people are hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.coverage import Float64s
from kanonflow.pipelines.pages.charts import plane_of_boxes
from kanonflow.pipelines.pages.pages import Figure
from kanonflow.pipelines.pictures.value_parts import as_numbers
from kanonflow.pipelines.terminal.table import Table, count, quantity, rows_of
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.value_units import from_units

MOST_BOXES = 150
"""That are drawn: those with the most rows."""
_RANGES = frozenset({Kind.RANGE})
_ACROSS = re.compile(r"(^|[^a-z])(lon|lng|long|longitude|x)([^a-z]|$)", re.IGNORECASE)
_UP = re.compile(r"(^|[^a-z])(lat|latitude|y)([^a-z]|$)", re.IGNORECASE)


class _Ends(NamedTuple):
    """Of one field, float64 (n,): where the range of each row begins and ends; NaN where it has no value."""

    name: str
    low: Float64s
    high: Float64s

    @property
    def width(self) -> float:
        """Mean width of a range, as a share of all that the ranges span."""
        # As shares of the largest first: the width of two finite doubles can be infinite.
        largest = max(float(np.nanmax(np.abs([self.low, self.high]))), np.finfo(np.float64).tiny)
        low, high = self.low / largest, self.high / largest
        span = np.nanmax(high) - np.nanmin(low)
        return float(np.nanmean(high - low) / span) if span > 0 else np.inf


def place_boxes(release: ReleasedTable) -> Iterator[Figure]:
    """A figure, of longitude and latitude where names say so, else of the two fields that lose least; none where fewer
    than two fields are ranges of numbers."""
    fields = [ends for ends in (_ends(release, field) for field in release.fields) if ends is not None]
    if len(fields) < 2:
        return
    narrow = sorted(fields, key=lambda ends: ends.width)
    x = next((ends for ends in fields if _ACROSS.search(ends.name)), None)
    y = next((ends for ends in fields if _UP.search(ends.name) and ends is not x), None)
    if x is None or y is None:
        x, y = narrow[:2]
    corners = np.stack([x.low, y.low, x.high, y.high], axis=1)
    boxes, rows = np.unique(corners[~np.isnan(corners).any(axis=1)], axis=0, return_counts=True)
    most = np.argsort(-rows, kind="stable")[:MOST_BOXES]
    if not most.size:
        return
    shown = [(float(a), float(b), float(c), float(d)) for a, b, c, d in boxes[most]]
    left = "" if len(rows) <= MOST_BOXES else f", the {MOST_BOXES} of {len(rows):,} with the most rows"
    table = Table(
        "place",
        "Boxes in numbers",
        (f"{x.name} from", "to", f"{y.name} from", "to", "rows"),
        rows_of(
            (quantity(box[0]), quantity(box[2]), quantity(box[1]), quantity(box[3]), count(int(rows[at])))
            for box, at in zip(shown, most, strict=True)
        ),
    )
    said = f"Boxes over {x.name} and {y.name}"
    yield Figure(f"{y.name} over {x.name}{left}", plane_of_boxes(said, shown, x.name, y.name), table)


def _ends(release: ReleasedTable, field: ReleasedField) -> _Ends | None:
    if field.kind not in _RANGES or form_of(field.value).per_day is not None:
        return None
    column: Any = release.column(field.name)
    none = np.zeros(len(release), bool)
    ends = [as_numbers(from_units(each, none, field.value)) for each in (column.low, column.high)]
    numbers = [np.where(column.valued, each, np.nan) for each in ends if each is not None]
    return _Ends(field.name, *numbers) if numbers and column.valued.any() else None
