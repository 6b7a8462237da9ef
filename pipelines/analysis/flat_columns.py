"""Releases with one value a cell: ranges as columns or text, sets as text.

What a range means. Both ends belong to it, for every type: a release's ranges are closed. ``[20, 30]`` of whole numbers
are the eleven values 20 to 30, of days both days and what is between, of fractions also every number between. A range
whose ends are equal is that value. ``nulls``: some member of the group had no value; without ends all of them had none.

How a set is written. Members in the order of the release with ``|`` between them. In a member a backslash is doubled
and ``|`` is written ``\\|``; a missing value is ``\\N``. No two sets have one text (``split_set`` reads it back): the
empty text is the set of the empty text, and a member that is the text ``\\N`` is written ``\\\\N``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kanonflow.pipelines.analysis.released_fields import Kind, ReleasedField
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.value_units import from_units, to_units

MISSING = "\\N"
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_RANGE = re.compile(r"\[(.*), (.*)\](\|\\N)?", re.DOTALL)


class Flat(StrEnum):
    """columns: a range is four columns. label: it is one text. mid: it is its middle, and nothing says how wide it
    was."""

    COLUMNS = "columns"
    LABEL = "label"
    MID = "mid"


def flat_table(table: pa.Table, fields: Sequence[ReleasedField], form: Flat | str = Flat.COLUMNS) -> pa.Table:
    """Rows of releases with one value a cell, O(cells).

    ``columns``: a range ``born`` becomes ``born_min``, ``born_max`` (in its own type), ``born_mid`` (their middle: a
    double, of days and instants the one at or before it) and ``born_nulls`` (bool). ``label``: ``born`` is a text,
    ``[1980-01-01, 1984-12-31]``, with ``|\\N`` behind it when somebody had no value, and ``\\N`` when nobody had one.
    ``mid``: ``born`` is the middle. Sets are texts (see above); labels of hierarchies and exact values stay as they
    are, and a null is a null. Raises InputError: two columns would have one name, or a set is empty.
    """
    form = _flat(form)
    names: dict[str, str] = {}
    columns: list[pa.Array] = []
    for field in fields:
        column = table.column(field.name)
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        for name, values in _flat_field(array, field, form):
            if (other := names.setdefault(name, field.name)) != field.name:
                raise InputError(
                    f"the fields {other} and {field.name} would both have a column {name}; lay it flat as label or mid,"
                    " or rename a field in the input"
                )
            columns.append(values)
    return pa.table(columns, names=list(names))


def with_lists(fields: Sequence[ReleasedField]) -> tuple[ReleasedField, ...]:
    """Fields of which ``flat_table`` leaves sets as lists."""
    return tuple(replace(field, kind=_AS_LISTS.get(field.kind, field.kind)) for field in fields)


def split_set(text: str) -> list[str | None]:
    """The members of a set that ``flat_table`` wrote; None is a missing value. The inverse, for members as text."""
    return [None if member == MISSING else _ESCAPED.sub(r"\1", member) for member in _split(text)]


def split_range(text: str) -> tuple[str | None, str | None, bool]:
    """The ends, as text, and whether somebody had no value, of a range that ``flat_table`` wrote as a label.

    Raises InputError: it is none.
    """
    if text == MISSING:
        return None, None, True
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InputError("is no label of a range, as in [20, 30]")
    return match[1], match[2], match[3] is not None


def _flat(form: Flat | str) -> Flat:
    try:
        return Flat(form)
    except ValueError:
        raise InputError(f"flat: {form} is none of {', '.join(Flat)}") from None


def _flat_field(array: pa.Array, field: ReleasedField, form: Flat) -> Iterator[tuple[str, pa.Array]]:
    return _LAID.get(field.kind, _as_it_is)(array, field, form)


def _as_it_is(array: pa.Array, field: ReleasedField, form: Flat) -> Iterator[tuple[str, pa.Array]]:
    yield field.name, array


def _flat_set(array: pa.Array, field: ReleasedField, form: Flat) -> Iterator[tuple[str, pa.Array]]:
    yield field.name, _set_text(array, field.name)


def _flat_range(array: pa.Array, field: ReleasedField, form: Flat) -> Iterator[tuple[str, pa.Array]]:
    if form is Flat.LABEL:
        yield field.name, _range_text(array)
    elif form is Flat.MID:
        yield field.name, _middle(array, field.value)
    else:
        # flatten() also takes a slice's offset into account.
        low, high, nulls = array.flatten()
        yield f"{field.name}_min", low
        yield f"{field.name}_max", high
        yield f"{field.name}_mid", _middle(array, field.value)
        yield f"{field.name}_nulls", nulls


_LAID = {Kind.SET: _flat_set, Kind.RANGE: _flat_range}
_AS_LISTS = {Kind.SET: Kind.EXACT}


def _middle(array: pa.Array, kind: pa.DataType) -> pa.Array:
    low, high, _ = array.flatten()
    (least, none), (most, _) = to_units(low), to_units(high)
    form = form_of(kind)
    if form.per_day is not None:
        return from_units(least + (most - least) // 2, none, kind)
    # Halved first where the width would not fit; else the middle of [x, x] is x itself.
    ends = least.astype(np.float64), most.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        width = ends[1] - ends[0]
        middle = np.where(np.isfinite(width), ends[0] + width / 2, ends[0] / 2 + ends[1] / 2)
    return pa.array(form.widths(middle), pa.float64(), mask=none)


def _range_text(array: pa.Array) -> pa.Array:
    low, high, nulls = array.flatten()
    ends = [low.cast(pa.string()), high.cast(pa.string())]
    text = pc.binary_join_element_wise("[", pc.binary_join_element_wise(*ends, ", "), "]", "")
    text = pc.if_else(nulls, pc.binary_join_element_wise(text, "|" + MISSING, ""), text)
    return pc.fill_null(text, MISSING)


def _set_text(array: pa.Array, name: str) -> pa.Array:
    offsets = np.asarray(array.offsets)
    if array.null_count or np.any(np.diff(offsets) == 0):
        raise InputError(f"field {name}: an empty set; the release is damaged")
    values = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    members = values.cast(pa.string())
    for sign, written in (("\\", "\\\\"), ("|", "\\|")):
        members = pc.replace_substring(members, sign, written)
    members = pc.fill_null(members, MISSING)
    lists = pa.ListArray.from_arrays(pa.array(offsets - offsets[0], pa.int32()), members)
    return pc.binary_join(lists, "|")


def _split(text: str) -> list[str]:
    """At each ``|`` that is not escaped."""
    parts, start, at = [], 0, 0
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text[at] == "|":
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]
