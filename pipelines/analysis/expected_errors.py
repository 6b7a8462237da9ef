"""What a count by bands of each field of a release will be off, told from the released rows alone.

A row's record lies in a band with the share w of its box (``coverage.py``). Rows of one box are of p people, each of
whom is in the band or not, and whose shares of the rows differ as by chance (uniform Dirichlet: the mean of the sum of
their squares is 2 / (p + 1)). So of R rows R w are counted, with the variance

    2 R^2 w (1 - w) / (p + 1)     p = R where rows are promised for, else k
    of a band: the sum over boxes, in all quasi-identifiers together: a cohort that lasts has one box in all windows,
    other people have one in each

What is expected is |z| times the root of it, of a standard normal z, over the rows that are counted in the band. It is
a model, and no bound: what it told beside what was met is in ``benchmarks/results/expected_errors.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from kanonflow.pipelines.analysis.band_counts import BandErrors, bands_of, judged
from kanonflow.pipelines.analysis.released_fields import Kind
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.coverage import Float64s
from kanonflow.pipelines.estimates.distinct_boxes import box_codes, distinct_boxes
from kanonflow.pipelines.estimates.group_product import parts_of_column
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.kinds.forms import form_of

_QUANTILES = 100
_KINDS = (Kind.RANGE, Kind.SET, Kind.LABEL)


class ExpectedErrors(NamedTuple):
    """Of a count by one field. width: of a range's bands, in ``unit``; None: categories."""

    field: str
    errors: BandErrors
    width: float | None
    unit: str


def expected_errors(released: ReleasedTable, *, lasts: bool, share: float = 1.0) -> Iterator[ExpectedErrors]:
    """Of each quasi-identifier, but those whose labels only a hierarchy could tell apart. Deterministic.

    lasts: whether its cohorts do. share: of all boxes that these rows have: of a sample of all released rows, where
    cohorts last of those of its windows. O(fields x boxes x bands).
    """
    columns = {}
    for field in released.fields:
        try:
            if field.kind in _KINDS:
                columns[field] = released.column(field.name)
        except InputError:
            continue
    if not columns or not len(released):
        return
    form = released.form
    codes = {field: box_codes(column) for field, column in columns.items()}
    together = list(codes.values())
    if not lasts:
        windows = released.arrow().column("window_start").combine_chunks().dictionary_encode("encode")
        together.append(np.asarray(windows.indices).astype(np.int64))
    boxes = distinct_boxes(together, len(released))
    sizes = boxes.sizes.astype(np.float64)
    people = sizes if form.single_rows else np.minimum(sizes, form.k)
    # Boxes that stand for others beside them, which are independent of them, add up.
    scale = np.sqrt(share)
    for field, column in columns.items():
        bands = bands_of(field.name, column)
        parts = parts_of_column(field.name, column.of(boxes.first), codes[field][boxes.first], bands.parts)
        count = len(bands.parts)
        counted = np.bincount(parts.parts, parts.share * sizes[parts.boxes], count).astype(np.float64)
        spread = parts.share * (1.0 - parts.share) * (2.0 * sizes**2 / (people + 1.0))[parts.boxes]
        errors = _told(counted, np.sqrt(np.bincount(parts.parts, spread, count)) * scale, len(released))
        if errors is not None:
            form_of_values = form_of(field.value)
            width = None
            if bands.width is not None:
                width = float(form_of_values.widths(np.array([bands.width]))[0])
            yield ExpectedErrors(field.name, errors, width, form_of_values.width_unit)


def _told(counted: Float64s, deviation: Float64s, rows: int) -> BandErrors | None:
    """Median and 90% of what normal errors of the judged bands are, as shares of what is counted."""
    these = judged(counted, rows)
    if not these.size:
        return None
    levels = 0.5 + (np.arange(_QUANTILES) + 0.5) / (2 * _QUANTILES)
    scores = [NormalDist().inv_cdf(level) for level in levels.tolist()]
    errors = np.outer(deviation[these] / counted[these], scores)
    median, ninth = np.quantile(errors, [0.5, 0.9]).tolist()
    return BandErrors(median, ninth, int(these.size))
