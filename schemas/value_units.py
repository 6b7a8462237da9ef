"""Between Arrow columns of numbers, dates and instants and the units that grids and domains count in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.errors import SchemaError


def to_units(array: pa.Array | pa.ChunkedArray) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values (n,) in units, and a mask (n,) of the nulls.

    float64 for floats (null: NaN), else int64 (null: 0): whole numbers, unscaled decimals of up to 18 digits,
    days or the type's own time units since 1970-01-01, of times of day since midnight. Raises SchemaError for a type
    without units. O(n).
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    nulls = np.asarray(array.is_null())
    kind = array.type
    if pa.types.is_floating(kind):
        return np.asarray(array.cast(pa.float64()).fill_null(float("nan"))), nulls
    if pa.types.is_decimal128(kind) and kind.precision <= 18:
        return np.where(nulls, 0, _low_words(array)), nulls
    if pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        array = array.cast(pa.int64())
    elif not pa.types.is_integer(kind):
        raise SchemaError(f"columns of type {kind} have no units")
    return np.asarray(array.cast(pa.int64()).fill_null(0)), nulls


def from_units(values: NDArray[Any], nulls: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """The Arrow column of type ``kind`` whose units are ``values``; the inverse of ``to_units``.

    Raises SchemaError for a type without units or a value that it cannot hold. O(n).
    """
    if pa.types.is_decimal128(kind) and kind.precision <= 18:
        if np.any(np.abs(values[~nulls]) >= 10**kind.precision):
            raise SchemaError(f"a value has more digits than {kind} holds")
        words = np.empty((len(values), 2), np.int64)
        words[:, 0] = values
        words[:, 1] = values >> 63
        valid = pa.array(~nulls).buffers()[1]
        return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(words.tobytes())])
    try:
        if pa.types.is_date32(kind):
            return pa.array(values, pa.int64(), mask=nulls).cast(pa.int32()).cast(kind)
        if pa.types.is_timestamp(kind):
            return pa.array(values, pa.int64(), mask=nulls).cast(kind)
        if pa.types.is_floating(kind):
            return pa.array(values, pa.float64(), mask=nulls).cast(kind)
        if pa.types.is_integer(kind):
            return pa.array(values, pa.int64(), mask=nulls).cast(kind)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"a value does not fit into a column of type {kind}") from error
    raise SchemaError(f"columns of type {kind} have no units")


def floor_to_unit(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Instants in the unit of ``kind``, floored, and a mask of those outside of the years 1 to 9999 (null).

    Arrow's own cast rounds towards 1970, which would move earlier instants into the next unit.
    """
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    have, want = per_second[array.type.unit], per_second[kind.unit]
    values, nulls = to_units(array)
    seconds = values // have
    outside = ~nulls & ((seconds < FIRST_SECOND) | (seconds > LAST_SECOND))
    values = np.where(nulls | outside, 0, values)
    values = values * (want // have) if want >= have else values // (have // want)
    return from_units(values, nulls | outside, kind), outside


def floor_times_of_day(array: pa.Array) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Times of day in microseconds (time64), floored, and a mask of those that no day has (null)."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[array.type.unit]
    width = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
    nulls = np.asarray(array.is_null())
    values = np.asarray(array.view(width).cast(pa.int64()).fill_null(0))
    outside = (values < 0) | (values >= 86_400 * per_second)
    values = np.where(outside, 0, values)
    values = values * (10**6 // per_second) if per_second <= 10**6 else values // (per_second // 10**6)
    return pa.array(values, pa.int64(), mask=nulls | outside).cast(pa.time64("us")), outside


def days_beyond_the_calendar(array: pa.Array) -> NDArray[np.bool_]:
    """Mask of the dates (date32) outside of the years 1 to 9999, which most Avro readers cannot hold."""
    days = pc.fill_null(array.cast(pa.int32()), 0)
    days = np.asarray(days)
    return (days < FIRST_SECOND // 86_400) | (days > LAST_SECOND // 86_400)


FIRST_SECOND = -62_135_596_800
"""0001-01-01T00:00:00 UTC."""
LAST_SECOND = 253_402_300_799
"""9999-12-31T23:59:59 UTC."""


def _low_words(array: pa.Array) -> NDArray[np.int64]:
    words = np.frombuffer(array.buffers()[1], np.int64)
    return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]
