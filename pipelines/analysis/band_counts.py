"""How far a count by bands of a field is off: the parts that people group by, and what an answer's errors come to.

Of a field in ranges a band holds a tenth of the rows. Where the tenths begin is anybody's choice, so all of them are
asked that begin at a multiple of a fiftieth: they overlap, and their errors are those of any ten. Of two fields
together bands are fifths, of three thirds, so that cells have rows enough. Missing values are one more band, and
categories are taken one by one. A band is judged that holds ``LEAST_SHARE`` of the rows or more; where none does, the
ten largest are.

    error of a band = |counted - true| / true
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kanonflow.pipelines.estimates.coverage import (
    LEAST,
    MOST,
    Float64s,
    Int64s,
    Interval,
    Missing,
    PrefixColumn,
    RangeColumn,
    SetColumn,
    every_row,
)
from kanonflow.pipelines.estimates.distinct_boxes import box_codes, distinct_boxes
from kanonflow.pipelines.estimates.group_product import GroupProduct, parts_of_column, parts_of_cover
from kanonflow.pipelines.estimates.query_parts import Part

Column = RangeColumn | SetColumn | PrefixColumn
LEAST_SHARE = 0.01
_LARGEST = 10
_BANDS = {1: 10, 2: 5, 3: 3}
_STEPS = {1: 5, 2: 2, 3: 2}
MOST_FIELDS = max(_BANDS)
"""Fields that are asked for together."""


class Bands(NamedTuple):
    """The parts of a field. width: of a range's bands that lie between others, the median in the column's units; None:
    there is none, or they are categories."""

    name: str
    parts: tuple[Part, ...]
    width: float | None


class BandErrors(NamedTuple):
    """Errors of the bands that are judged: median, and what of ten bands nine are not above. bands: how many."""

    median: float
    ninth: float
    bands: int


def bands_of(name: str, column: Column, together: int = 1) -> Bands:
    """The bands of a field.

    column: of the input, or of a release, whose rows count at both ends of their ranges. together: with how many fields
    it is asked for, 1 to ``MOST_FIELDS``. O(n log n).
    """
    if not isinstance(column, RangeColumn):
        values = tuple(Part(frozenset([value]), value=value) for value in column.each())
        rows = counts_by([column], [Bands(name, values, None)])
        return Bands(name, tuple(values[place] for place in judged(rows, rows.sum())), None)
    valued = column.valued
    ends = np.concatenate([column.low[valued], column.high[valued]])
    parts: list[Part] = []
    wide = None
    if ends.size:
        number, steps = _BANDS[together], _STEPS[together]
        # Of doubles a band ends before its end, of whole numbers with it.
        levels = np.arange(number * steps + 1) / (number * steps)
        borders = np.quantile(ends, levels, method="higher").tolist()
        borders[0], borders[-1] = (LEAST, MOST) if column.whole else (-np.inf, np.inf)
        for first, end in zip(borders, borders[steps:], strict=False):
            if first < end:
                parts.append(
                    Part(Interval(first, end - 1 if column.whole else end, column.whole), (None, None))
                )
        # Halved first: the width of two finite doubles can be infinite.
        inner = np.array(borders[1:-1], np.float64) / 2
        halves = (inner[steps:] - inner[:-steps])[inner[steps:] > inner[:-steps]]
        if halves.size:
            wide = min(float(np.median(halves)), float(np.finfo(np.float64).max) / 2) * 2
    if column.nulls.any():
        parts.append(Part(Missing(), (None, None)))
    return Bands(name, tuple(dict.fromkeys(parts)), wide)


def counts_by(columns: Sequence[Column], bands: Sequence[Bands]) -> Float64s:
    """Rows in each combination of bands, the last field's fastest, as ``estimate`` counts them: by shares of boxes.

    columns: n rows of each field, of an input or a release. float64 (groups,). O(n log n + one product).
    """
    rows = columns[0].keys[0].size
    codes = [box_codes(column) for column in columns]
    boxes = distinct_boxes(codes, rows)
    fields = [
        parts_of_column(each.name, column.of(boxes.first), code[boxes.first], each.parts)
        for each, column, code in zip(bands, columns, codes, strict=True)
    ]
    count = boxes.first.size
    product = GroupProduct((parts_of_cover(every_row(count), count), *fields), boxes.sizes)
    return product.shares(boxes.sizes)


def judged(true: Float64s, rows: float) -> Int64s:
    """The bands whose errors count, ascending. true: rows of each. rows: of all."""
    enough = np.flatnonzero((true > 0) & (true >= LEAST_SHARE * rows))
    if enough.size:
        return enough
    largest = np.argsort(-true, kind="stable")[:_LARGEST]
    return np.sort(largest[true[largest] > 0])


def band_errors(counted: Float64s, true: Float64s, rows: int) -> BandErrors | None:
    """Of counts by bands. rows: of the input. None: there is nobody to count."""
    these = judged(true, rows)
    if not these.size:
        return None
    errors = np.abs(counted[these] - true[these]) / true[these]
    return BandErrors(float(np.median(errors)), float(np.quantile(errors, 0.9)), int(these.size))
