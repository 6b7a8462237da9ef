"""Columns of an input as columns of canonical types: text by its form, typed ones by their type.

What a cell of text says stands in schemas/text_inputs.py, what becomes of a typed one in schemas/kinds.
The run and the audit read by this; a second reader stands among the tests (tests/twin_values.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.formatted_times import as_written
from kanonflow.schemas.kinds.form import as_type
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.text_form import ISO
from kanonflow.schemas.text_values import cast_text
from kanonflow.schemas.typed_values import cast_typed


def as_text(column: BoundColumn, raw: pa.Array) -> pa.Array:
    """Whole numbers under a format as the text that they are read as, also where a rejected row shows them."""
    column = column.as_read
    if column.from_text and column.form.format is not None and form_of(raw.type).spelled:
        return as_written(raw, column.form.format)
    return raw


def read_column(column: BoundColumn, raw: pa.Array, source: str | None) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Canonical values, null where there is none, and the mask of those that should have been one.

    Of payload with a grid, values as they are read: nothing is made coarse here.

    Raises InputError: the column's type is not what the policy was bound to.
    """
    column = column.as_read
    if column.own_type is not None:
        own, bad = read_column(replace(column, arrow_type=column.own_type, own_type=None), raw, source)
        values, beyond = cast_typed(own, column.arrow_type)
        return values, bad | beyond
    raw, form, bad = as_text(column, raw), column.form, np.zeros(len(raw), dtype=bool)
    try:
        if column.from_text and (form_of(raw.type).text or raw.type == pa.null()):
            raw, bad = cast_text(as_type(raw, pa.string()), column.text_type, form)
            form = ISO
        values, beyond = column.values.take(raw, form)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, AttributeError):
        where = f"{source or 'a batch'}: column {column.name}"
        raise InputError(
            f"{where} has type {raw.type}, but the policy was bound to {column.arrow_type}"
        ) from None
    bad = bad | beyond
    if bad.any():
        values = pc.if_else(pa.array(bad), pa.scalar(None, values.type), values)
    return values, bad
