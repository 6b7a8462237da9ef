"""Between text and canonical types: casting cells of text files, and writing values as canonical text."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.formatted_times import cast_formatted
from kanonflow.schemas.local_times import localize
from kanonflow.schemas.text_form import BLANKS, ISO, TextForm

_ZONE = r"(Z|[+-]\d\d:?\d\d)$"
_NOTHING = pa.scalar(None, pa.string())


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
    if pc.any(nothing).as_py():
        array = pc.if_else(nothing, _NOTHING, array)
    if pa.types.is_string(kind):
        return array, np.zeros(len(array), dtype=bool)
    if pa.types.is_binary(kind):
        return array.cast(kind), np.zeros(len(array), dtype=bool)
    if form.format is not None and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return cast_formatted(pc.utf8_trim_whitespace(array), kind, form)
    if pa.types.is_timestamp(kind):
        formed = _well_formed(array, _form(kind), signed=False)
        values = _cast_instants(formed, kind, form)
    else:
        written = array if pa.types.is_date(kind) or pa.types.is_boolean(kind) else _with_point(array, form)
        formed = _well_formed(written, _form(kind), signed=not pa.types.is_boolean(kind))
        if pa.types.is_integer(kind):
            formed = _without_zeros(formed)
        cast = _cast_decimals if pa.types.is_decimal(kind) else _cast_halves
        values = cast(formed, kind)
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind))
    bad = np.asarray(pc.and_(pc.is_valid(array), pc.is_null(values)))
    return values, bad


def _means_null(array: pa.StringArray, words: tuple[str, ...]) -> pa.BooleanArray:
    """Which cells are empty, or one of the words with or without spaces around it."""
    empty = pc.equal(array, "")
    if not words:
        return empty
    bare = [word.strip() for word in words if word.strip()]
    return pc.or_(empty, pc.is_in(pc.utf8_trim_whitespace(array), value_set=pa.array(bare, pa.string())))


def _with_point(array: pa.StringArray, form: TextForm) -> pa.StringArray:
    """Numbers in another form as they are written in ours. A cell that breaks the form gets a sign that no number has.

    Groups are of three digits with the sign between all of them, or there are none.
    """
    if form.decimal == "." and form.thousands is None:
        return array
    array = pc.utf8_trim_whitespace(array)
    if form.thousands is not None:
        sign = f"[{BLANKS}]" if form.thousands == " " else re.escape(form.thousands)
        grouped = pc.match_substring_regex(
            array, rf"^[+-]?\d{{1,3}}({sign}\d{{3}})+({re.escape(form.decimal)}\d*)?([eE][+-]?\d{{1,3}})?$"
        )
        array = pc.if_else(grouped, pc.replace_substring_regex(array, sign, ""), array)
    if form.decimal != ".":
        array = pc.replace_substring(array, ".", "!")
        array = pc.replace_substring(array, form.decimal, ".")
    return array


def _without_zeros(array: pa.StringArray) -> pa.StringArray:
    """Whole numbers without a fraction of zeros, as in 17850.0."""
    if not pc.any(pc.match_substring(array, ".")).as_py():
        return array
    return pc.replace_substring_regex(array, r"\.0*$", "")


def render_text(array: pa.Array | pa.ChunkedArray) -> pa.StringArray:
    """Values as canonical text that ``cast_text`` reads back: ISO dates and instants, shortest floats.

    Bytes are written as hexadecimal, which is not read back. Nulls stay null.
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.array([None if value is None else value.hex() for value in array.to_pylist()], pa.string())
    try:
        return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # Nested values, and instants beyond the calendar: only ever seen in rejected rows.
        return pa.array([_as_text(value) for value in array], pa.string())


def _as_text(value: pa.Scalar) -> str | None:
    if not value.is_valid:
        return None
    try:
        return str(value.as_py())
    except (ValueError, OverflowError):
        return str(value.value)


def _cast_halves(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast whole where that works, else in halves, down to the single cells that no cast accepts."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        pass
    if len(array) == 1:
        return pa.nulls(1, kind)
    half = len(array) // 2
    return pa.concat_arrays([_cast_halves(part, kind) for part in (array[:half], array[half:])])


def _cast_decimals(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Decimals as they are written; null where the type cannot hold one without rounding.

    Long ones and those with an exponent are read here: pyarrow's cast gives 0 for some of them.
    """
    odd = pc.match_substring_regex(array, r"[eE]|^.{38}")
    if not pc.any(odd).as_py():
        return _cast_halves(array, kind)
    plain = _cast_halves(pc.if_else(odd, _NOTHING, array), kind)
    read = [
        _exact(text, kind) if one else None
        for text, one in zip(array.to_pylist(), odd.to_pylist(), strict=True)
    ]
    return pc.if_else(odd, pa.array(read, kind), plain)


def _exact(text: str, kind: pa.DataType) -> Decimal | None:
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits)).lstrip("0")
    significant = written.rstrip("0")
    zeros = exponent + len(written) - len(significant) + kind.scale
    if not significant:
        return Decimal(0).scaleb(-kind.scale)
    if zeros < 0 or len(significant) + zeros > kind.precision:
        return None
    return Decimal((sign, tuple(map(int, significant + "0" * zeros)), -kind.scale))


def _cast_instants(array: pa.Array, kind: pa.DataType, form: TextForm) -> pa.Array:
    """Instants with and without a zone apart, because a cast accepts only one of the two; local times of no instant are
    null."""
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[kind.unit]
    if pc.any(pc.match_substring_regex(array, rf"\.\d{{{digits + 1}}}")).as_py():
        array = pc.replace_substring_regex(array, rf"(\.\d{{{digits}}})\d+", r"\1")
    zoned = pc.match_substring_regex(array, _ZONE)
    if not pc.any(zoned).as_py():
        return _cast_local(array, kind, form)
    with_zone = _cast_halves(pc.if_else(zoned, array, _NOTHING), kind)
    without = _cast_local(pc.if_else(zoned, _NOTHING, array), kind, form)
    return pc.if_else(zoned, with_zone, without)


def _cast_local(array: pa.Array, kind: pa.DataType, form: TextForm) -> pa.Array:
    """Times without a zone as instants."""
    local = _cast_halves(array, pa.timestamp(kind.unit))
    if form.timezone is None:
        return local.cast(kind)
    return localize(local, form.timezone, form.fold)[0].cast(kind)


def _well_formed(array: pa.Array, form: str, *, signed: bool) -> pa.Array:
    """The cells that have the form, some of them only without spaces around and a leading plus; else null.

    The form decides what is accepted, not the cast: a cast takes more (hexadecimal, NaN, underscores), and
    which of its rules applied would depend on the other cells.
    """
    matches = pc.match_substring_regex(array, form)
    if pc.all(matches).as_py() is not False:
        return array
    array = pc.utf8_trim_whitespace(array)
    if signed:
        array = pc.replace_substring_regex(array, r"^\+(\d|\.)", r"\1")
    matches = pc.match_substring_regex(array, form)
    return pc.if_else(matches, array, _NOTHING)


def _form(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return r"^-?\d+(\.0*)?$"
    if pa.types.is_boolean(kind):
        return r"^(?i:true|false|0|1)$"
    if pa.types.is_date(kind):
        return r"^\d{4}-\d\d-\d\d$"
    if pa.types.is_timestamp(kind):
        return rf"^\d{{4}}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{{1,9}})?)?({_ZONE[:-1]})?)?$"
    return r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$"
