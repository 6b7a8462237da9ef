"""Numbers, days and instants between Arrow and numpy, in the units in which ranges are snapped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.transforms.columns.sort_keys import decimal_words, whole_numbers


def range_values(array: pa.Array) -> tuple[NDArray[np.int64] | NDArray[np.float64], NDArray[np.bool_]]:
    """Values (n,) and which of them are not null, bool (n,); a null's value is 0.

    Floats as float64; integers, days, milliseconds and unscaled decimals (at most 18 digits) as int64.
    """
    valid = np.asarray(array.is_valid())
    if pa.types.is_floating(array.type):
        return np.asarray(array.cast(pa.float64()).fill_null(0.0)), valid
    if pa.types.is_decimal(array.type):
        return np.where(valid, decimal_words(array)[1].view(np.int64), 0), valid
    return whole_numbers(array), valid


def range_array(
    values: NDArray[np.int64] | NDArray[np.float64], valid: NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    """The inverse: an Arrow array of type ``kind``, null where ``valid`` is False.

    An end beyond what the type can hold becomes the last value it can hold: every member still lies inside.
    """
    null = ~valid
    if pa.types.is_float32(kind):
        limit = np.finfo(np.float32).max
        return pa.array(np.clip(values, -limit, limit).astype(np.float32), kind, mask=null)
    if pa.types.is_float64(kind):
        return pa.array(values, kind, mask=null)
    if pa.types.is_decimal(kind):
        limit = 10**kind.precision - 1
        low = np.clip(values, -limit, limit).astype("<i8")
        pairs = np.stack([low, low >> 63], axis=1)
        validity = pa.array(valid).buffers()[1]
        return pa.Array.from_buffers(kind, len(low), [validity, pa.py_buffer(pairs.tobytes())])
    if pa.types.is_int32(kind) or pa.types.is_date32(kind):
        bounds = np.iinfo(np.int32)
        narrow = np.clip(values, bounds.min, bounds.max).astype(np.int32)
        return pa.array(narrow, pa.int32(), mask=null).view(kind)
    return pa.array(values, pa.int64(), mask=null).view(kind)
