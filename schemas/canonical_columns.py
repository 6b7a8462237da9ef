"""Columns of an input as columns of canonical types: text by its form, typed ones by their type.

What a cell of text says stands in schemas/text_inputs.py, what becomes of a typed one in schemas/typed_values.py.
The run and the audit read by this; a second reader stands among the tests (tests/twin_values.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.canonical_types import is_text, is_uuid
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.formatted_times import as_written
from kanonflow.schemas.local_times import localize
from kanonflow.schemas.text_values import cast_text
from kanonflow.schemas.typed_values import cast_typed, uuid_texts
from kanonflow.schemas.value_units import days_beyond_the_calendar, floor_times_of_day, floor_to_unit


def as_text(column: BoundColumn, raw: pa.Array) -> pa.Array:
    """Whole numbers under a format as the text that they are read as, also where a rejected row shows them."""
    if column.from_text and column.form.format is not None and pa.types.is_integer(raw.type):
        return as_written(raw, column.form.format)
    return raw


def read_column(column: BoundColumn, raw: pa.Array, source: str | None) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Canonical values, null where there is none, and the mask of those that should have been one.

    Raises InputError: the column's type is not what the policy was bound to.
    """
    if column.own_type is not None:
        own, bad = read_column(replace(column, arrow_type=column.own_type, own_type=None), raw, source)
        values, beyond = cast_typed(own, column.arrow_type)
        return values, bad | beyond
    kind = column.arrow_type
    raw = as_text(column, raw)
    bad = np.zeros(len(raw), dtype=bool)
    if is_uuid(raw.type) and pa.types.is_string(kind):
        return uuid_texts(raw), bad
    try:
        if pa.types.is_time(kind):
            return floor_times_of_day(raw)
        if column.from_text and (is_text(raw.type) or pa.types.is_null(raw.type)):
            values, bad = cast_text(raw.cast(pa.string()), column.text_type, column.form)
            raw = values
        elif column.form.timezone is not None and _is_local(raw.type, kind):
            local = raw if pa.types.is_timestamp(raw.type) else raw.cast(pa.timestamp("s"))
            raw, bad = localize(local, column.form.timezone, column.form.fold)
        if pa.types.is_timestamp(kind):
            if pa.types.is_date(raw.type):
                raw = raw.cast(pa.timestamp("s"))
            values, beyond = floor_to_unit(raw, kind)
            return values, bad | beyond
        if pa.types.is_date(kind) and pa.types.is_timestamp(raw.type):
            # A cast takes the day in the column's own zone; days are those in UTC, as windows are.
            raw = raw.cast(pa.timestamp(raw.type.unit, tz="UTC"))
        values = raw if raw.type == kind else raw.cast(kind, safe=not pa.types.is_date(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, AttributeError):
        where = f"{source or 'a batch'}: column {column.name}"
        raise InputError(f"{where} has type {raw.type}, but the policy was bound to {kind}") from None
    if pa.types.is_date(kind):
        bad |= days_beyond_the_calendar(values)
    elif pa.types.is_floating(kind):
        bad |= np.asarray(pc.fill_null(pc.invert(pc.is_finite(values)), False))
    if bad.any():
        values = pc.if_else(pa.array(bad), pa.scalar(None, kind), values)
    return values, bad


def _is_local(typed: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of a column are times without a zone. Days that stay days are none."""
    if pa.types.is_timestamp(typed):
        return typed.tz is None
    return pa.types.is_date(typed) and pa.types.is_timestamp(kind)
