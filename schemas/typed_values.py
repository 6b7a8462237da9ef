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

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.text_values import cast_text, render_text

WHOLE_FLOATS = {pa.float32(): 2**24, pa.float64(): 2**53}
"""The least whole number from which on a floating type does not hold each."""


def cast_typed(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Values of a canonical type as another one, and a mask (n,) of those that it cannot hold, null in the result.

    The types are numbers, or ``kind`` is text; ``canonical_types.can_become`` says which. O(n) vectorised.
    """
    own = array.type
    if pa.types.is_string(kind):
        # -0.0 and 0.0 are one number, and would be two texts.
        array = pc.add(array, pa.scalar(0.0, own)) if pa.types.is_floating(own) else array
        return render_text(array), np.zeros(len(array), dtype=bool)
    if pa.types.is_decimal(kind):
        return cast_text(render_text(array), kind)
    if pa.types.is_decimal(own) and pa.types.is_integer(kind):
        whole, bad = cast_text(render_text(array), pa.decimal128(38, 0))
        low, high = (pa.scalar(Decimal(end), whole.type) for end in (_least(kind), _most(kind)))
        fits = pc.and_(pc.greater_equal(whole, low), pc.less_equal(whole, high))
        values = pc.if_else(fits, whole, pa.scalar(None, whole.type)).cast(kind)
        return values, bad | np.asarray(pc.fill_null(pc.invert(fits), False))
    if pa.types.is_decimal(own):
        # By text: Arrow's own cast multiplies by a power of ten, which is rounded already.
        numbers, bad = cast_text(render_text(array), pa.float64())
        return numbers.cast(kind, safe=False), bad
    if pa.types.is_floating(own) and pa.types.is_floating(kind):
        fits = pc.is_finite(array.cast(kind, safe=False))
    else:
        low, high = max(_least(own), _least(kind)), min(_most(own), _most(kind))
        fits = pc.and_(
            pc.greater_equal(array, pa.scalar(low, own)), pc.less_equal(array, pa.scalar(high, own))
        )
    if pa.types.is_floating(own) and pa.types.is_integer(kind):
        fits = pc.and_(fits, pc.equal(pc.trunc(array), array))
    bad = np.asarray(pc.fill_null(pc.invert(fits), False))
    return pc.if_else(fits, array, pa.scalar(None, own)).cast(kind, safe=False), bad


def uuid_texts(array: pa.Array) -> pa.StringArray:
    """UUIDs as text, in lower case. O(n) vectorised."""
    stored = array.storage if isinstance(array, pa.ExtensionArray) else array
    raw = b"".join(value or bytes(16) for value in stored.to_pylist())
    digits = np.frombuffer(raw.hex().encode(), np.uint8).reshape(-1, 32)
    text = np.full((len(digits), 36), ord("-"), np.uint8)
    text[:, [n for n in range(36) if n not in _DASHES]] = digits
    ends = np.arange(len(digits) + 1, dtype=np.int32) * 36
    whole = pa.StringArray.from_buffers(len(digits), pa.py_buffer(ends), pa.py_buffer(text.tobytes()))
    return pc.if_else(stored.is_valid(), whole, pa.scalar(None, pa.string()))


_DASHES = (8, 13, 18, 23)


def _least(kind: pa.DataType) -> int:
    return 1 - WHOLE_FLOATS[kind] if kind in WHOLE_FLOATS else -(2 ** (kind.bit_width - 1))


def _most(kind: pa.DataType) -> int:
    """The largest whole number of a type of which all smaller ones are values too."""
    return (WHOLE_FLOATS[kind] if kind in WHOLE_FLOATS else 2 ** (kind.bit_width - 1)) - 1
