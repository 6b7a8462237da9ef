"""How text spells values: what a policy says of its CSV files and of single fields, and the rules of both."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

EPOCH = {"epoch_s": 1_000, "epoch_ms": 1}
"""Formats of instants that are whole numbers since 1970 UTC, and their milliseconds."""
THOUSANDS = (",", ".", " ", "'", "_")
BLANKS = " \u00a0\u202f"
"""What ``thousands: " "`` stands for: a space, a no-break space, a narrow one."""
NUMBERED = "numbered"
"""``csv.header`` under which columns without a name of their own are called by their numbers."""
NAMED_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}

_DAY = "Y y m d b B"
_TIME = "H I M S f p z"
_DIRECTIVES = tuple((_DAY + " " + _TIME).split())
_TOLD = ", ".join(f"%{letter}" for letter in _DIRECTIVES)
_PART = re.compile(r"%(.)|([^%]+)|%$", re.DOTALL)


class Fold(StrEnum):
    """Which instant is meant by a local time that exists twice, or not at all: by the offset before the clocks change,
    or by that after."""

    FIRST = "first"
    SECOND = "second"


@dataclass(frozen=True)
class CsvForm:
    """How the CSV files of a feed are written; what is None or empty is found out, or is as the defaults say.

    delimiter: one character; None: that one of , ; tab | which the header has most of.
    encoding: a name that Python knows.     decimal: the sign before a number's fraction.
    thousands: the sign between groups of three digits; None: there is none.
    nulls: words that mean null, besides the empty cell.
    quote: one character; "": quotes are characters like others.
    header: NUMBERED, or None: columns without a name of their own are refused.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str | None = None
    nulls: tuple[str, ...] = ()
    quote: str = '"'
    header: str | None = None


def csv_form(
    delimiter: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    thousands: str | None = None,
    nulls: tuple[str, ...] = (),
    quote: str = '"',
    header: str | None = None,
) -> CsvForm:
    """What a policy's ``csv`` holds; a delimiter may have a name there (NAMED_DELIMITERS)."""
    named = None if delimiter is None else NAMED_DELIMITERS.get(delimiter, delimiter)
    return CsvForm(named, encoding, decimal, thousands, nulls, quote, header)


def with_delimiter(form: CsvForm | None, delimiter: str | None) -> CsvForm:
    """A policy's ``csv``, None: nothing is said, with a delimiter that is known better; None: it is not."""
    form = form or CsvForm()
    return form if delimiter is None else replace(form, delimiter=delimiter)


@dataclass(frozen=True)
class TextForm:
    """How the cells of one field are written: what ``CsvForm`` says of them, and what its own declaration says."""

    decimal: str = "."
    thousands: str | None = None
    nulls: tuple[str, ...] = ()
    format: str | None = None
    timezone: str | None = None
    fold: Fold | None = None


ISO = TextForm()
"""Text as it is written where nothing else is said."""


@dataclass(frozen=True)
class Directive:
    """A part of a format. letter: that of a directive, else "". text: what stands there literally, else "".

    short: of %d, %m, %H and %I, whether one digit will do: where no digits of another directive stand beside it.
    """

    letter: str
    text: str = ""
    short: bool = False


def directives_of(form: str) -> tuple[Directive, ...]:
    """The parts of a format, in order. O(length). A format that breaks a rule gives what can be told of it."""
    parts = [
        Directive("", "%" if found[1] == "%" else found[2] or "")
        if found[1] in (None, "%")
        else Directive(found[1])
        for found in _PART.finditer(form)
    ]
    return tuple(
        Directive(part.letter, part.text, short=_alone(parts, n))
        if part.letter in "dmHI" and part.letter
        else part
        for n, part in enumerate(parts)
    )


def has_time(form: str | None) -> bool:
    """Whether a format says a time of the day, or is one of EPOCH."""
    if form is None:
        return False
    return form in EPOCH or any(part.letter in _TIME.split() for part in directives_of(form) if part.letter)


def rules_of_csv(form: CsvForm) -> Iterator[str]:
    """Mistakes in what a policy says of its CSV files."""
    if form.delimiter is not None and not is_sign(form.delimiter):
        yield "csv.delimiter: must be one sign, such as ';' or tab"
    if form.quote and (not is_sign(form.quote) or form.quote == form.delimiter):
        yield "csv.quote: must be one sign other than the delimiter, or '' where quotes mean nothing"
    if form.header not in (None, NUMBERED):
        yield f"csv.header: must be {NUMBERED}, or left out"
    if not _is_encoding(form.encoding):
        yield "csv.encoding: unknown; give one such as utf-8, utf-16, cp1250 or latin-1"
    if form.decimal not in (".", ","):
        yield "csv.decimal: must be '.' or ','"
    if form.thousands is not None and (form.thousands not in THOUSANDS or form.thousands == form.decimal):
        yield "csv.thousands: must be one of , . space ' _ and other than csv.decimal"


def rules_of_form(where: str, form: TextForm, *, instants: bool, days: bool) -> Iterator[str]:
    """Mistakes in what a field says of its text.

    instants, days: whether its values may be instants, or days.
    """
    if form.format is not None:
        if not (instants or days):
            yield f"{where}.format: belongs to dates and times; add as: date or as: timestamp, or leave it out"
        else:
            yield from (
                f"{where}.format: {problem}" for problem in _format_problems(form.format, instants=instants)
            )
    if form.timezone is not None:
        if not instants:
            yield f"{where}.timezone: belongs to times; days are as they are written; add as: timestamp"
        elif not _is_zone(form.timezone):
            yield f"{where}.timezone: unknown; give one such as Europe/Prague"
    if form.fold is not None and form.timezone is None:
        yield f"{where}.fold: belongs to a timezone; leave it out, or add timezone"


def _format_problems(form: str, *, instants: bool) -> Iterator[str]:
    if form in EPOCH:
        if not instants:
            yield f"{form} gives instants; add as: timestamp"
        return
    letters = [part.letter for part in directives_of(form) if part.letter]
    unknown = [letter for letter in letters if letter not in _DIRECTIVES]
    if unknown or (form.endswith("%") and not form.endswith("%%")):
        yield f"of the directives only {_TOLD} are known (and epoch_s, epoch_ms)"
        return
    if len(set(letters)) < len(letters):
        yield "says a directive twice"
    years, months = {"Y", "y"} & set(letters), {"m", "b", "B"} & set(letters)
    if len(years) != 1 or len(months) != 1 or "d" not in letters:
        yield "must say the year (%Y or %y), the month (%m, %b or %B) and the day (%d), each once"
    hours = {"H", "I"} & set(letters)
    if len(hours) > 1 or ("I" in letters) != ("p" in letters):
        yield "hours are %H, or %I with %p"
    for finer, coarser in (("M", hours), ("S", {"M"} & set(letters)), ("f", {"S"} & set(letters))):
        if finer in letters and not coarser:
            yield f"%{finer} needs what it is a part of"
    if "z" in letters and not instants:
        yield "%z gives instants; add as: timestamp"


def _alone(parts: list[Directive], n: int) -> bool:
    """Whether no digits stand beside a directive."""
    beside = [parts[at] for at in (n - 1, n + 1) if 0 <= at < len(parts)]
    return not any(
        part.letter in tuple("YymdHIMSf") if part.letter else _digit_beside(part.text) for part in beside
    )


def _digit_beside(text: str) -> bool:
    return any(character.isdigit() for character in (text[:1], text[-1:]))


def is_sign(text: str) -> bool:
    """Whether a text is one ASCII character that neither words nor numbers nor lines are made of."""
    return len(text) == 1 and (text == "\t" or (" " < text < "\x7f" and not text.isalnum()))


def _is_encoding(name: str) -> bool:
    try:
        "".encode(name)  # raises for codecs that are none of text
        codecs.getincrementaldecoder(name)
    except (LookupError, ValueError):
        return False
    return True


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
