"""Which records lie in which boxes: read from the file and the quasi-identifiers alone, whatever published it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.kinds.range_values import range_values


def in_boxes(file: pa.Table, quasi: pa.Table, bound: BoundPolicy) -> NDArray[np.bool_]:
    """Whether record i lies in the box of row j, bool (rows, records). O(rows records d)."""
    inside = np.ones((file.num_rows, quasi.num_rows), dtype=np.bool_)
    for column in bound.quasis:
        boxes = file.column(column.published_name).combine_chunks()
        values = quasi.column(column.name).combine_chunks()
        inside &= _in_sets(boxes, values) if not column.in_ranges else _in_ranges(boxes, values)
    return inside


def _in_ranges(boxes: pa.StructArray, values: pa.Array) -> NDArray[np.bool_]:
    low, known = range_values(boxes.field("min"))
    high, _ = range_values(boxes.field("max"))
    nulls = np.asarray(boxes.field("nulls"))
    own, valid = range_values(values)
    within = (low[:, None] <= own) & (own <= high[:, None]) & known[:, None]
    return np.where(valid, within, nulls[:, None])


def _in_sets(boxes: pa.ListArray, values: pa.Array) -> NDArray[np.bool_]:
    encoded = values.dictionary_encode(null_encoding="encode")
    code = {value: index for index, value in enumerate(encoded.dictionary.to_pylist())}
    held = np.zeros((len(boxes), len(code)), dtype=np.bool_)
    for row, names in enumerate(boxes.to_pylist()):
        held[row, [code[name] for name in names if name in code]] = True
    return held[:, np.asarray(encoded.indices)]
