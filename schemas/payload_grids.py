"""Payload that tells less: fixed public grids of single cells, as a policy declares them.

    round      the nearest multiple of a number; between two of them the even one
    bottom, top  a value below or above becomes that value, after rounding
    truncate   the first characters of a text
    as         hour (0 to 23), weekday or part of the day of an instant, by the clocks of its timezone, else of UTC

A multiple that the field's type cannot hold is the next one towards 0. What is published of a cell follows from the
cell and the policy alone, and two cells that come to be equal stay two. The pipeline makes cells coarse in
transforms/rows/payload_cells.py, and the audit works it out anew in pipelines/audit/read/coarse_cells.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from kanonflow.schemas.canonical_types import type_named
from kanonflow.schemas.key_kinds import plain
from kanonflow.schemas.kinds.form import Form
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.number import MOST_GRID_DIGITS
from kanonflow.schemas.policy_fields import PAYLOAD, Field, PartOfTime, Role

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PARTS_OF_DAY = ("night", "morning", "afternoon", "evening")
"""Of six hours each, the first from midnight on."""
COARSER = "publish it coarser (round and top of numbers, truncate of text, as: part_of_day of times)"
"""What may be done about payload that tells too much, for those who refuse it."""
_NUMBERS = ("round", "bottom", "top")


def grid_keys(field: Field) -> tuple[str, ...]:
    """The keys of a field that make its cells coarse, in the order in which they do."""
    keys = [key for key in (*_NUMBERS, "truncate") if getattr(field, key) is not None]
    return (*keys, "as") if field.part_of_time is not None else tuple(keys)


def grid_words(field: Field, clocks: str | None = None) -> str:
    """How a field's cells are made coarse, in words: "rounded to multiples of 10, at most 5,000"; "": they are not.

    clocks: the time zone by which parts of a time are told; None: UTC.
    """
    words = []
    if field.round is not None:
        words.append(f"rounded to multiples of {_told(field.round)}")
    if field.bottom is not None:
        words.append(f"at least {_told(field.bottom)}")
    if field.top is not None:
        words.append(f"at most {_told(field.top)}")
    if field.truncate is not None:
        words.append("first character" if field.truncate == 1 else f"first {field.truncate} characters")
    if field.part_of_time is not None:
        words.append(f"{_PARTS[field.part_of_time]}, {clocks or 'UTC'}")
    return ", ".join(words)


def grid_property(field: Field, clocks: str | None) -> dict[str, str]:
    """What a release's schema says of a field's grid: its keys, and the whole in words; nothing without one."""
    keys = grid_keys(field)
    held = {"as": field.value} | {key: plain(getattr(field, key)) for key in keys if key != "as"}
    return {key: str(held[key]) for key in keys} | ({"published": grid_words(field, clocks)} if keys else {})


def published_type(field: Field, read: pa.DataType) -> pa.DataType:
    """The type of a field's cells in rows and releases. read: that of the cells as they are read."""
    if field.part_of_time is None:
        return read
    return pa.int32() if field.part_of_time is PartOfTime.HOUR else pa.string()


def rules_of_grids(where: str, field: Field, parting: Collection[str]) -> Iterator[str]:
    """Mistakes in what a policy says of a field's grid. parting: names of ``partition_by`` and ``split_by``."""
    keys = grid_keys(field)
    for key in keys:
        called = f"{where}.as: {field.value}" if key == "as" else f"{where}.{key}:"
        if field.role is Role.TIME:
            yield (
                f"{called} belongs to fields that are published as they are; to publish it of the event time, add a"
                f" field such as booked_hour: {{role: insensitive, from: {field.name}, as: hour}}"
            )
        elif field.role not in PAYLOAD:
            yield (
                f"{called} belongs to fields that are published as they are (role: sensitive or insensitive); leave it"
                f" out with role: {field.role}"
            )
        elif field.name in parting:
            yield f"{called} the field is in partition_by or split_by, which take values as they are; leave it out"
    steps = [key for key in _NUMBERS if key in keys]
    sound = [key for key in steps if not list(_rules_of_number(where, key, getattr(field, key)))]
    for key in steps:
        yield from _rules_of_number(where, key, getattr(field, key))
    if len(sound) == len(steps):
        yield from _rules_of_ends(where, field)
    cut = field.truncate
    if cut is not None and (isinstance(cut, bool) or not isinstance(cut, int) or cut < 1):
        yield f"{where}.truncate: must be a whole number of at least 1"
    named = None if field.value is None else type_named(field.value)
    if named is not None and field.role in PAYLOAD:
        yield from misfits_of_grid(where, field, form_of(named))


def _rules_of_number(where: str, key: str, number: object) -> Iterator[str]:
    if not isinstance(number, Decimal) or not number.is_finite() or (key == "round" and number <= 0):
        yield f"{where}.{key}: must be a {'positive ' if key == 'round' else ''}number"
    elif len(number.normalize().as_tuple().digits) > MOST_GRID_DIGITS or (
        number and not -30 <= number.adjusted() <= 30
    ):
        yield f"{where}.{key}: needs at most {MOST_GRID_DIGITS} digits, between 1e-30 and 1e30"


def _rules_of_ends(where: str, field: Field) -> Iterator[str]:
    if field.bottom is not None and field.top is not None and field.top < field.bottom:
        yield f"{where}.top: must not be below bottom"
    for key in ("bottom", "top"):
        end = getattr(field, key)
        if field.round is not None and end is not None and Fraction(end) % Fraction(field.round):
            yield f"{where}.{key}: must be a multiple of round ({_told(field.round)}), or the grid would have a gap"


def misfits_of_grid(where: str, field: Field, read: Form) -> Iterator[str]:
    """Mistakes of a grid that cells of a type cannot have. read: the form of the cells as they are read."""
    for key in grid_keys(field):
        if key in _NUMBERS:
            if read.scale is None:
                yield f"{where}.{key}: belongs to numbers; for text add as: long, double or decimal(p,s)"
            elif isinstance(getattr(field, key), Decimal) and not read.holds(getattr(field, key)):
                yield f"{where}.{key}: the field's type {read.value or read.arrow} cannot hold it"
        elif key == "truncate" and not read.text:
            yield f"{where}.truncate: belongs to text; for other columns add as: string"


def _told(number: Decimal) -> str:
    return format(Decimal(str(plain(number))), ",f")


_PARTS = {
    PartOfTime.HOUR: "the hour of the day, 0 to 23",
    PartOfTime.WEEKDAY: "the day of the week",
    PartOfTime.PART_OF_DAY: "night, morning, afternoon or evening, of six hours each from midnight on",
}
