"""Payload as something to be guessed: values as classes, of rows that are released and of people's own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.text_values import render_text
from kanonflow.schemas.value_units import to_units

Numbers = NDArray[np.int64]
RATIO = 1.1
"""Numbers of a class are within 5% of its middle."""
COMMON = 0.5


class PayloadValues(NamedTuple):
    """released: int64 (n,), the class of each released row, 0 .. classes-1. own: int64 (r,), of each row of people.

    common: the class of more than half of people's own rows, which anybody would guess; -1: there is none. Of what is
    released it would be one in one release and none in another, where half of the rows have a value.
    """

    name: str
    released: Numbers
    own: Numbers
    classes: int
    common: int


def payload_values(column: BoundColumn, released: pa.ChunkedArray, own: pa.ChunkedArray) -> PayloadValues:
    """Numbers within 5% of each other's middle are one class, everything else only what is equal. O(n log n)."""
    both = pa.concat_arrays([released.combine_chunks(), own.combine_chunks()])
    if column.values.measured and column.values.per_day is None:
        units, none = to_units(both)
        number = np.where(none, 0.0, units.astype(np.float64))
        size = np.floor(np.log(np.maximum(np.abs(number), 1e-300)) / np.log(RATIO)).astype(np.int64)
        sign = np.sign(number).astype(np.int64)
        keys = np.stack([none.astype(np.int64), sign, np.where(number == 0, 0, size)], axis=1)
        _, code = np.unique(keys, axis=0, return_inverse=True)
    else:
        texts = render_text(both).dictionary_encode("encode").indices
        _, code = np.unique(np.asarray(texts), return_inverse=True)
    code = code.reshape(-1).astype(np.int64)
    n = len(released)
    counts = np.bincount(code[n:], minlength=1)
    common = int(counts.argmax()) if len(own) and counts.max() > COMMON * len(own) else -1
    return PayloadValues(column.name, code[:n], code[n:], int(code.max(initial=-1)) + 1, common)
