"""A second reading of cells of text; which cell says what stands in schemas/text_inputs.py.

Formats are Python's regular expressions and dates, where the product has Arrow's expressions and numpy. The offsets of
time zones are Python's ``zoneinfo`` in both (decision 057): what they are made into is not.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.read.values import Unreadable
from kanonflow.schemas.text_form import BLANKS, EPOCH, ISO, Directive, Fold, TextForm, directives_of

EPOCH_DAY = date(1970, 1, 1)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 to 9999."""
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


def read_text(text: str | None, kind: pa.DataType, form: TextForm = ISO) -> Any:
    """A cell of text as a value of type ``kind``, None: null. Spaces around anything but text are no matter.

    form: how the cell is written.
    """
    if text is None or text == "" or (form.nulls and text.strip() in _bare_words(form.nulls)):
        return None
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return text.encode()
    try:
        value = _parse(text.strip(), kind, form)
    except (ValueError, KeyError, OverflowError, InvalidOperation):
        return Unreadable(text)
    return Unreadable(text) if value is None else value


def _bare_words(words: tuple[str, ...]) -> set[str]:
    return {word.strip() for word in words} - {""}


def digits_under(whole: int, form: str | None) -> str:
    """A whole number of a typed column as a cell of text, with the zeros in front that its format takes."""
    parts = () if form is None or form in EPOCH else directives_of(form)
    widths = [_width(part) for part in parts]
    if any(width is None for width in widths):
        return str(whole)
    return str(whole).zfill(sum(width or 0 for width in widths))


def since_epoch(local: datetime, form: TextForm) -> int | None:
    """Microseconds since 1970 UTC of a time without a zone; None: in the field's zone there is none, or two.

    There is one exactly where the zone's offset does not depend on ``fold`` (PEP 495): only in what clocks skip or
    repeat does it, and there ``fold=0`` has the offset from before the change, ``fold=1`` that from after.
    """
    naive = (local - _NAIVE_EPOCH) // timedelta(microseconds=1)
    if form.timezone is None:
        return naive
    zone = ZoneInfo(form.timezone)
    before, after = (local.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    if before != after and form.fold is None:
        return None
    return naive - (after if form.fold is Fold.SECOND else before) // timedelta(microseconds=1)


def since_midnight(clock: time) -> int:
    """Microseconds."""
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 10**6 + clock.microsecond


def within_calendar(value: int, kind: pa.DataType) -> bool:
    """Whether days or an instant in the unit of ``kind`` lie in the years 1 to 9999."""
    per_second = {"ms": 10**3, "us": 10**6}
    seconds = value * 86_400 if pa.types.is_date(kind) else value // per_second[kind.unit]
    return _FIRST_SECOND <= seconds <= _LAST_SECOND


def rounded(number: float, kind: pa.DataType) -> float:
    """The number as a floating type holds it."""
    if kind != pa.float32():
        return number
    with np.errstate(over="ignore"):
        return float(np.float32(number))


_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")
_INSTANT = re.compile(
    _DATE.pattern + r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-5][0-9])?)?"
)


def _parse(text: str, kind: pa.DataType, form: TextForm) -> Any:
    """None or an exception when the text is no value of the type. Python's own parsers take more than a text input
    may say (underscores, other digits, weeks), so its form comes first."""
    if pa.types.is_integer(kind):
        whole = _whole(text, form)
        return (
            whole
            if whole is not None and -1 << kind.bit_width - 1 <= whole < 1 << kind.bit_width - 1
            else None
        )
    if pa.types.is_boolean(kind):
        return _TRUTH[text.lower()]
    if pa.types.is_date(kind):
        return _day(text, form)
    if pa.types.is_timestamp(kind):
        nanoseconds = _instant(text, form)
        value = None if nanoseconds is None else nanoseconds // (10**6 if kind.unit == "ms" else 10**3)
        return value if value is None or within_calendar(value, kind) else None
    if pa.types.is_time(kind):
        return since_midnight(time.fromisoformat(text)) if _TIME.fullmatch(text) else None
    number = _number(text, form)
    if number is None:
        return None
    if pa.types.is_decimal(kind):
        unscaled = Fraction(Decimal(number)) * 10**kind.scale
        fits = unscaled.denominator == 1 and abs(unscaled) < 10**kind.precision
        return unscaled.numerator if fits else None
    held = rounded(float(number), kind)
    return held if math.isfinite(held) else None


def _whole(text: str, form: TextForm) -> int | None:
    found = _numbers(form.decimal, form.thousands)[0].fullmatch(text)
    return None if found is None else int(_bare(found[1], form.thousands))


def _number(text: str, form: TextForm) -> str | None:
    """The number as Python's parsers take it."""
    if not _numbers(form.decimal, form.thousands)[1].fullmatch(text):
        return None
    return _bare(text, form.thousands).replace(form.decimal, ".")


def _bare(text: str, thousands: str | None) -> str:
    """Without the signs between groups."""
    return text if thousands is None else re.sub(f"[{_signs(thousands)}]", "", text)


def _signs(thousands: str) -> str:
    return re.escape(BLANKS if thousands == " " else thousands)


@cache
def _numbers(decimal: str, thousands: str | None) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What whole numbers look like, digits and sign apart from zeros behind the point, and what all numbers do."""
    point, digits = re.escape(decimal), "[0-9]+"
    if thousands is not None:
        digits = f"(?:[0-9]{{1,3}}(?:[{_signs(thousands)}][0-9]{{3}})+|[0-9]+)"
    return (
        re.compile(rf"([+-]?{digits})(?:{point}0*)?"),
        re.compile(rf"[+-]?(?:{digits}(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]{{1,3}})?"),
    )


def _day(text: str, form: TextForm) -> int | None:
    if form.format is None:
        return (date.fromisoformat(text) - EPOCH_DAY).days if _DATE.fullmatch(text) else None
    found = _pattern(form.format).fullmatch(text)
    return None if found is None else (_local(found).date() - EPOCH_DAY).days


def _instant(text: str, form: TextForm) -> int | None:
    """Nanoseconds since 1970 UTC."""
    if form.format in EPOCH:
        since = _whole(text, ISO)
        return None if since is None else since * EPOCH[form.format] * 10**6
    nanosecond, offset = 0, None
    if form.format is None:
        if not _INSTANT.fullmatch(text):
            return None
        told = datetime.fromisoformat(text)
        local, offset = told.replace(tzinfo=None), told.utcoffset()
    else:
        found = _pattern(form.format).fullmatch(text)
        if found is None:
            return None
        local, parts = _local(found), found.groupdict()
        nanosecond = int(parts.get("f", "0").ljust(9, "0"))
        if "z" in parts:
            offset = _offset(parts["z"])
    if offset is None:
        microseconds = since_epoch(local, form)
    else:
        microseconds = (local - _NAIVE_EPOCH - offset) // timedelta(microseconds=1)
    return None if microseconds is None else microseconds * 1_000 + nanosecond


def _local(found: re.Match[str]) -> datetime:
    """What a format's directives say but for fractions of seconds and zones. Raises ValueError: there is no such day or
    time."""
    parts = found.groupdict()
    year = int(parts["Y"]) if "Y" in parts else (int(parts["y"]) + 31) % 100 + 1969
    named = parts.get("b") or parts.get("B")
    month = _month(named) if named else int(parts["m"])
    hour = int(parts.get("H", "0"))
    if "I" in parts:
        hour = int(parts["I"])
        if not 1 <= hour <= 12:
            raise ValueError("no hour of a clock with twelve")
        hour = hour % 12 + (12 if parts["p"].lower() == "pm" else 0)
    return datetime(year, month, int(parts["d"]), hour, int(parts.get("M", "0")), int(parts.get("S", "0")))


def _month(name: str) -> int:
    return [month[:3] for month in _MONTHS].index(name[:3].lower()) + 1


def _offset(zone: str) -> timedelta:
    """Raises ValueError: no clock is so far off."""
    if zone == "Z":
        return timedelta()
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or "0")
    if hours > 23 or minutes > 59:
        raise ValueError("no offset")
    return timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)


@cache
def _pattern(form: str) -> re.Pattern[str]:
    """What a format takes, a group for each directive, by its letter."""
    parts = (
        f"(?P<{part.letter}>{_taken(part)})" if part.letter else re.escape(part.text)
        for part in directives_of(form)
    )
    return re.compile("".join(parts), re.ASCII)


def _taken(part: Directive) -> str:
    match part.letter:
        case "Y":
            return "[0-9]{4}"
        case "f":
            return "[0-9]{1,9}"
        case "b":
            return f"(?i:{'|'.join(month[:3] for month in _MONTHS)})"
        case "B":
            return f"(?i:{'|'.join(_MONTHS)})"
        case "p":
            return "(?i:am|pm)"
        case "z":
            return "Z|[+-][0-9]{2}(?::?[0-9]{2})?"
    return "[0-9]{1,2}" if part.short else "[0-9]{2}"


def _width(part: Directive) -> int | None:
    """How many characters stand for a part; None: not always as many."""
    if not part.letter:
        return len(part.text)
    if part.short or part.letter in "fbBpz":
        return None
    return 4 if part.letter == "Y" else 2
