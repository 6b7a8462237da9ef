"""A field of an input as the risks read it: numbers, texts, and what it sorts by."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.text_values import render_text
from kanonflow.schemas.value_units import to_units
from kanonflow.transforms.risks.member_guess import LARGEST, FieldValues


def field_values(rows: pa.Table, column: BoundColumn, *, steady: bool = False) -> FieldValues:
    """A field of n rows as an attacker reads it: as texts, and as numbers where nearness means something.

    steady: whether people keep it, so that it may be known of them.
    """
    array = rows.column(column.name)
    texts = np.array(render_text(array).to_pylist(), dtype=object)
    return FieldValues(_numbers(array) if _has_numbers(column) else None, texts, steady)


def _has_numbers(column: BoundColumn) -> bool:
    """Whether nearness means something: for numbers, dates and instants that are not declared as categories."""
    return column.in_ranges if column.field.quasi is not None else column.values.measured


def _numbers(array: pa.ChunkedArray) -> NDArray[np.float64]:
    units, nulls = to_units(array)
    scale = 10.0 ** getattr(array.type, "scale", 0)
    return np.where(nulls, np.nan, np.clip(units / scale, -LARGEST, LARGEST))


def ranks_of(array: pa.Array) -> NDArray[np.generic] | None:
    """What the values sort by: numbers, or texts by length and letters, as numbered ids grow; None for yes and no."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return None
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)) and not (
        pa.types.is_decimal(kind) and kind.precision > 18
    ):
        return to_units(array)[0]
    texts = render_text(array.dictionary_encode().dictionary).to_pylist()
    places = sorted(range(len(texts)), key=lambda place: (len(texts[place]), texts[place]))
    rank = np.empty(len(texts), dtype=np.int64)
    rank[places] = np.arange(len(texts))
    return rank[np.asarray(array.dictionary_encode().indices)]
