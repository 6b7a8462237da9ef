"""Between Arrow columns of numbers, dates and instants and the units that grids and domains count in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.errors import SchemaError
from kanonflow.schemas.kinds.forms import form_of


def to_units(array: pa.Array | pa.ChunkedArray) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Values (n,) in units, and a mask (n,) of the nulls.

    float64 for floats (null: NaN), else int64 (null: 0): whole numbers, unscaled decimals of up to 18 digits,
    days or the type's own time units since 1970-01-01, of times of day since midnight. Raises SchemaError for a type
    without units. O(n).
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    nulls = np.asarray(array.is_null()) if array.null_count else np.zeros(len(array), dtype=np.bool_)
    return form_of(array.type).units(array), nulls


def from_units(values: NDArray[Any], nulls: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """The Arrow column of type ``kind`` whose units are ``values``; the inverse of ``to_units``.

    Raises SchemaError for a type without units or a value that it cannot hold. O(n).
    """
    try:
        return form_of(kind).of_units(values, nulls)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"a value does not fit into a column of type {kind}") from error
