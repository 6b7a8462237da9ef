"""Between text and canonical types: casting cells of text files, and writing values as canonical text."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.kinds.form import NOTHING
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.text_form import ISO, TextForm


def cast_text(
    array: pa.StringArray, kind: pa.DataType, form: TextForm = ISO
) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Cells of text as values of a canonical type, and a mask (n,) of the cells that are none.

    Bad cells are null in the result, as are empty ones (which are not bad) and words that mean null. Numbers must be
    finite. Instants are in UTC, cut to the type's unit. Spaces around are allowed. Whether a cell is accepted does not
    depend on the other cells.

    The forms are those of schemas/text_inputs.py; form: what the policy says of these cells.

    O(n) vectorised, and O(b log n) casts for b bad cells.
    """
    nothing = _means_null(array, form.nulls)
    if nothing.true_count:
        array = pc.if_else(nothing, NOTHING, array)
    return form_of(kind).read(array, form)


def _means_null(array: pa.StringArray, words: tuple[str, ...]) -> pa.BooleanArray:
    """Which cells are empty, or one of the words with or without spaces around it."""
    empty = pc.equal(array, "")
    if not words:
        return empty
    return pc.or_(empty, pc.is_in(pc.utf8_trim_whitespace(array), value_set=_bare(words)))


@lru_cache
def _bare(words: tuple[str, ...]) -> pa.StringArray:
    return pa.array([word.strip() for word in words if word.strip()], pa.string())


def render_text(array: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """Values as canonical text that ``cast_text`` reads back: ISO dates and instants, shortest floats.

    Bytes are written as hexadecimal, which is not read back. Nulls stay null.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    return form_of(array.type).texts(array)
