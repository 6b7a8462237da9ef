"""Values of typed columns as another type: a field's ``as`` in an input that has types of its own.

    whole numbers, fractions and decimals become each other; they, booleans, days and times of day become text;
    days become instants (their midnight), and instants days (in UTC)

A value that the other type cannot hold as it is, is none (``bad_value``):

    to whole numbers    a fraction; what is beyond the type; of floats what is not within their whole numbers
    to floats           whole numbers beyond theirs. Decimals are rounded to the nearest.
    to decimals         digits beyond the type. Floats are taken at the shortest text that is read as them.

The whole numbers of a double are those below 2^53 (of a float: 2^24): from there on two of them have one double, and
two people would have one id.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.kinds.forms import form_of


def cast_typed(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Values of a canonical type as another one, and a mask (n,) of those that it cannot hold, null in the result.

    The types are numbers, or ``kind`` is text; ``Form.becomes`` says which. O(n) vectorised.
    """
    return form_of(kind).of_other(array, form_of(array.type))
