"""Cells of payload on the grid that the policy gives them (schemas/payload_grids.py).

This is the one place that does it: where input cells become canonical rows. Windows, state, checks, metrics and
releases know coarse cells only.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.local_times import shown_seconds
from kanonflow.schemas.payload_grids import PARTS_OF_DAY, WEEKDAYS, grid_keys
from kanonflow.schemas.policy_fields import PartOfTime

_DIGITS = Context(prec=1_000)
"""More than the quotient of any two numbers of ours has."""
_HOUR, _DAY = 3_600, 86_400
_THURSDAY = 3
"""1970-01-01."""


def coarse_cells(column: BoundColumn, values: pa.Array) -> pa.Array:
    """The cells as the field's grid has them, of ``column.arrow_type``; themselves where it has none.

    values: as ``read_column`` gives them, null where there is none. O(n), and O(distinct numbers) in Python.
    """
    field = column.field
    if not grid_keys(field):
        return values
    if field.part_of_time is not None:
        return _parts_of_time(field.part_of_time, values, column)
    if field.truncate is not None:
        return pc.utf8_slice_codeunits(values, 0, field.truncate)
    coded = values.dictionary_encode()
    numbers = pa.array(list(_on_grid(column, coded.dictionary)), column.arrow_type)
    return numbers.take(coded.indices)


def _on_grid(column: BoundColumn, distinct: pa.Array) -> Iterator[Any]:
    """Each number on the grid, as pyarrow takes it. A float is taken as the shortest text that is read as it."""
    field, form = column.field, form_of(distinct.type)
    limits = form.limits
    for text, number in zip(form.texts(distinct).to_pylist(), distinct.to_pylist(), strict=True):
        exact = Decimal(text)
        if field.round is not None:
            exact = _nearest(exact, field.round, limits)
        if field.bottom is not None:
            exact = max(exact, field.bottom)
        if field.top is not None:
            exact = min(exact, field.top)
        # What the grid leaves alone stays as it came, to the sign of a zero.
        yield number if exact == Decimal(text) and field.round is None else type(number)(exact)


def _nearest(number: Decimal, step: Decimal, limits: tuple[Decimal, Decimal]) -> Decimal:
    """The nearest multiple within the limits, half way the even one. A zero has no sign."""
    near = _DIGITS.subtract(number, _DIGITS.remainder_near(number, step))
    if not limits[0] <= near <= limits[1]:
        near = _DIGITS.subtract(near, step.copy_sign(near))
    return _DIGITS.plus(near)


def _parts_of_time(part: PartOfTime, instants: pa.Array, column: BoundColumn) -> pa.Array:
    seconds = shown_seconds(instants, column.clocks)
    nulls = np.asarray(instants.is_null())
    hours = seconds // _HOUR % 24
    if part is PartOfTime.HOUR:
        return pa.array(hours, column.arrow_type, mask=nulls)
    weekday = part is PartOfTime.WEEKDAY
    words, places = (WEEKDAYS, (seconds // _DAY + _THURSDAY) % 7) if weekday else (PARTS_OF_DAY, hours // 6)
    return pa.array(words, column.arrow_type).take(pa.array(places, mask=nulls))
