"""Numbers, days and instants between Arrow and numpy, in the units in which ranges are snapped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.kinds.form import present
from kanonflow.schemas.kinds.forms import form_of


def range_values(array: pa.Array) -> tuple[NDArray[np.int64] | NDArray[np.float64], NDArray[np.bool_]]:
    """Values (n,) and which of them are not null, bool (n,); a null's value is 0.

    Floats as float64; integers, days, milliseconds and unscaled decimals (at most 18 digits) as int64.
    """
    valid, values = present(array), form_of(array.type).units(array)
    return (np.where(valid, values, values.dtype.type(0)) if array.null_count else values), valid


def range_array(
    values: NDArray[np.int64] | NDArray[np.float64], valid: NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    """The inverse: an Arrow array of type ``kind``, null where ``valid`` is False.

    An end beyond what the type can hold becomes the last value it can hold: every member still lies inside.
    """
    return form_of(kind).nearest(values, ~valid)
