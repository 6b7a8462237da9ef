"""Dates and instants as a policy's ``format`` spells them; the forms are those of schemas/text_inputs.py."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.local_times import FIRST_SECOND, LAST_SECOND, localize
from kanonflow.schemas.text_form import EPOCH, TextForm, directives_of

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_PATTERNS = {
    "Y": r"\d{4}",
    "y": r"\d\d",
    "m": r"\d\d",
    "d": r"\d\d",
    "b": "[A-Za-z]{3}",
    "B": "[A-Za-z]{3,9}",
    "H": r"\d\d",
    "I": r"\d\d",
    "M": r"\d\d",
    "S": r"\d\d",
    "f": r"\d{1,9}",
    "p": "[AaPp][Mm]",
    "z": r"Z|[+-]\d\d(?::?\d\d)?",
}
_DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "b": 3, "H": 2, "I": 2, "M": 2, "S": 2, "p": 2}
_PIVOT = 69
"""Years of two digits from here on are of the twentieth century."""
_DAY_US = 86_400_000_000


def formatted_days(array: pa.StringArray, spelling: str) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Cells as days (date32) by a format, and a mask (n,) of the cells that are none, null in the result.

    array: text without spaces around it, null where nothing is to be read. O(n) vectorised.
    """
    parts, good = _parts(array, spelling)
    days, within = _days(parts)
    good &= within & _microseconds(parts)[1]
    values = pa.array(np.where(good, days, 0), pa.int64(), mask=~good).cast(pa.int32()).cast(pa.date32())
    return values, np.asarray(array.is_valid()) & ~good


def formatted_instants(
    array: pa.StringArray, kind: pa.DataType, form: TextForm
) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Cells as instants by ``form.format``, and a mask (n,) of the cells that are none, null in the result.

    array: text without spaces around it, null where nothing is to be read.     kind: a timestamp in UTC, ms or us.
    O(n) vectorised.
    """
    assert form.format is not None
    if form.format in EPOCH:
        values, good = _since_1970(array, kind, EPOCH[form.format])
        unclear = np.zeros(len(array), dtype=bool)
    else:
        values, good, unclear = _spelled(array, kind, form, form.format)
    bad = np.asarray(array.is_valid()) & (~good | unclear)
    return pc.if_else(pa.array(bad), pa.scalar(None, kind), values), bad


def fixed_width(form: str) -> int | None:
    """How many characters a format takes, where that is always the same number; else None."""
    if form in EPOCH:
        return None
    width = 0
    for part in directives_of(form):
        if part.short or (part.letter and part.letter not in _DIGITS):
            return None
        width += _DIGITS[part.letter] if part.letter else len(part.text)
    return width


def as_written(numbers: pa.Array, form: str) -> pa.StringArray:
    """Whole numbers as the text that ``form`` is about: 70315 of a column of days is 070315 under %y%m%d."""
    text = numbers.cast(pa.string())
    width = fixed_width(form)
    if width is None:
        return text
    # As Python's zfill: a sign stays in front.
    below = pc.starts_with(text, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), width - 1, "0")
    return pc.if_else(below, pc.binary_join_element_wise("-", digits, ""), pc.utf8_lpad(text, width, "0"))


def _since_1970(array: pa.Array, kind: pa.DataType, milliseconds: int) -> tuple[pa.Array, NDArray[np.bool_]]:
    """Instants from whole numbers, and which cells are such within the calendar."""
    # Leading zeros are digits like others; 13 others reach beyond the calendar in milliseconds.
    formed = pc.match_substring_regex(array, r"^[+-]?0*\d{1,15}(\.0*)?$")
    whole = pc.replace_substring_regex(array, r"^\+|\.0*$", "")
    numbers = pc.if_else(formed, whole, pa.scalar(None, pa.string())).cast(pa.int64())
    values = np.asarray(pc.fill_null(numbers, 0))
    seconds = values // (1_000 // milliseconds)
    good = np.asarray(pc.fill_null(formed, False)) & (seconds >= FIRST_SECOND) & (seconds <= LAST_SECOND)
    per_tick = {"ms": 1, "us": 1_000}[kind.unit]
    ticks = np.where(good, values, 0) * milliseconds * per_tick
    return pa.array(ticks, pa.int64(), mask=~good).cast(kind), good


def _spelled(
    array: pa.Array, kind: pa.DataType, form: TextForm, spelling: str
) -> tuple[pa.Array, NDArray[np.bool_], NDArray[np.bool_]]:
    """Values, which cells have the form and are of the calendar, and which of those are local times of no instant."""
    parts, good = _parts(array, spelling)
    days, within = _days(parts)
    of_day, timely = _microseconds(parts)
    good &= within & timely
    ahead, sound = _ahead(parts)
    good &= sound
    ticks = np.where(good, days * _DAY_US + of_day - ahead * 1_000_000, 0)
    per_tick = {"ms": 1_000, "us": 1}[kind.unit]
    local = pa.array(ticks // per_tick, pa.int64(), mask=~good).cast(pa.timestamp(kind.unit))
    if "z" in parts or form.timezone is None:
        return local.cast(kind), good, np.zeros(len(array), dtype=bool)
    instants, unclear = localize(local, form.timezone, form.fold)
    return instants.cast(kind), good, unclear


def _parts(array: pa.StringArray, spelling: str) -> tuple[dict[str, pa.Array], NDArray[np.bool_]]:
    """The directives' texts by letter, and which cells have the form."""
    cells = pc.extract_regex(array, _pattern(spelling))
    valid = np.array(cells.is_valid())
    return {field.name: pc.struct_field(cells, field.name) for field in cells.type}, valid


def _pattern(spelling: str) -> str:
    """The regular expression of a format, with a named group for each directive."""
    parts = []
    for part in directives_of(spelling):
        if not part.letter:
            parts.append(re.escape(part.text))
        else:
            digits = r"\d\d?" if part.short else _PATTERNS[part.letter]
            parts.append(f"(?P<{part.letter}>{digits})")
    return f"^{''.join(parts)}$"


def _number(parts: dict[str, pa.Array], letter: str) -> NDArray[np.int64]:
    """A part's digits, 0 where there are none."""
    cells = parts[letter]
    return np.asarray(pc.fill_null(pc.if_else(pc.equal(cells, ""), "0", cells).cast(pa.int64()), 0))


def _days(parts: dict[str, pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Days since 1970, and which of them are in the calendar."""
    if "Y" in parts:
        years = _number(parts, "Y")
    else:
        years = _number(parts, "y")
        years = years + np.where(years >= _PIVOT, 1900, 2000)
    months = _number(parts, "m") if "m" in parts else _named_months(parts)
    good = (years >= 1) & (months >= 1) & (months <= 12)
    at = np.where(good, (years - 1970) * 12 + months - 1, 0).astype("datetime64[M]")
    first = at.astype("datetime64[D]").astype(np.int64)
    after = (at + 1).astype("datetime64[D]").astype(np.int64)
    day = _number(parts, "d")
    return first + day - 1, good & (day >= 1) & (day <= after - first)


def _named_months(parts: dict[str, pa.Array]) -> NDArray[np.int64]:
    """Months from 1, of English names; 0 for others."""
    letter = "b" if "b" in parts else "B"
    names = [name[:3] if letter == "b" else name for name in MONTHS]
    index = pc.index_in(pc.ascii_lower(parts[letter]), value_set=pa.array(names, pa.string()))
    return np.asarray(pc.fill_null(index, -1)).astype(np.int64) + 1


def _microseconds(parts: dict[str, pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds of the day, cut, and which of them are a time; 0 where the format says none."""
    none = np.zeros(len(parts["d"]), np.int64)
    minutes, seconds = (_number(parts, letter) if letter in parts else none for letter in "MS")
    if "I" in parts:
        twelve = _number(parts, "I")
        afternoon = np.asarray(pc.fill_null(pc.equal(pc.ascii_lower(parts["p"]), "pm"), False))
        hours, good = twelve % 12 + 12 * afternoon, (twelve >= 1) & (twelve <= 12)
    else:
        hours = _number(parts, "H") if "H" in parts else none
        good = hours <= 23
    fraction = none
    if "f" in parts:
        six = pc.utf8_slice_codeunits(pc.utf8_rpad(parts["f"], 9, "0"), 0, 6)
        fraction = np.asarray(pc.fill_null(six.cast(pa.int64()), 0))
    of_day = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction
    return of_day, good & (minutes <= 59) & (seconds <= 59)


def _ahead(parts: dict[str, pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Seconds that the written zones are ahead of UTC, and which of them are zones; 0 where the format says none."""
    if "z" not in parts:
        return np.zeros(len(parts["d"]), np.int64), np.ones(len(parts["d"]), dtype=bool)
    digits = pc.replace_substring_regex(parts["z"], r"[Z:+-]", "")
    digits = np.asarray(pc.fill_null(pc.utf8_rpad(digits, 4, "0").cast(pa.int64()), 0))
    west = np.asarray(pc.fill_null(pc.starts_with(parts["z"], "-"), False))
    hours, minutes = digits // 100, digits % 100
    seconds = (hours * 60 + minutes) * 60
    return np.where(west, -seconds, seconds), (hours <= 23) & (minutes <= 59)
