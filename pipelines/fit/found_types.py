"""Which types and forms the text of a CSV file has, tried on a sample of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.canonical_types import MICROSECONDS
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.schemas.proposed_forms import NULL_WORDS, proposed_form
from kanonflow.schemas.text_form import CsvForm, TextForm, has_time
from kanonflow.schemas.text_values import cast_text

ENOUGH = 0.97
"""Of the cells that say something, what must be values of a type for the column to be of it."""
_SURE = 0.995
_LEAST_CELLS = 20
_WHOLE, _NUMBER, _DAY = pa.int64(), pa.float64(), pa.date32()
_MONEY_DIGITS = 12
_DATED = r"\d\D+\d|\d{4}"
"""What every written day has: digits in two places, or a year."""
_OF_TIME = re.compile(r"time|date|epoch|stamp|unix|(^|_)(ts|at|on|day)$", re.IGNORECASE)
_SIGNS: tuple[tuple[str, str | None], ...] = (
    (".", None),
    (",", None),
    (",", "."),
    (".", ","),
    (",", " "),
    (".", " "),
)


@dataclass(frozen=True)
class FoundType:
    """value: for ``as``. format: for ``format``; None: ISO, or it has none. values: of the sample, null where none is.

    told: what speaks for it, in words. cells: as they were written; None: they have a type of their own.
    """

    value: str
    format: str | None
    values: pa.Array
    told: str = ""
    cells: pa.Array | None = None


def found_types(rows: pa.Table, csv: CsvForm, *, signs: bool = True) -> tuple[dict[str, FoundType], CsvForm]:
    """The types of all columns of text, and ``csv`` with the decimal and thousands signs and null words that they need.

    signs: whether numbers may be written with other signs than a point. O(rows x columns x forms).
    """
    cells = {name: _bare(rows.column(name)) for name in rows.schema.names}
    decimal, thousands = max(
        _SIGNS if signs else _SIGNS[:1], key=lambda signs: _numbers(cells, signs)
    )  # the first of several
    form = replace(csv, decimal=decimal, thousands=thousands)
    types = {name: replace(_found(name, column, form), cells=column) for name, column in cells.items()}
    words = _null_words(cells, types)
    return types, replace(form, nulls=words)


def _bare(column: pa.ChunkedArray) -> pa.Array:
    """Cells without spaces around; null where there is nothing."""
    array = pc.utf8_trim_whitespace(column.combine_chunks().cast(pa.string()))
    return pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)


def _said(cells: pa.Array) -> pa.Array:
    """The cells that are neither empty nor a word for nothing."""
    known = cells.drop_null()
    return known.filter(pc.invert(pc.is_in(known, value_set=pa.array(NULL_WORDS, pa.string()))))


def _reads(cells: pa.Array, kind: pa.DataType, form: TextForm) -> float:
    return 1 - cast_text(cells, kind, form)[0].null_count / len(cells) if len(cells) else 0.0


def _numbers(cells: Mapping[str, pa.Array], signs: tuple[str, str | None]) -> int:
    """How many columns are numbers when they are written with these signs."""
    form = TextForm(decimal=signs[0], thousands=signs[1])
    said = (_said(column)[:1_000] for column in cells.values())
    return sum(_reads(column, _NUMBER, form) >= ENOUGH for column in said)


def _found(name: str, cells: pa.Array, csv: CsvForm) -> FoundType:
    said, form = _said(cells), TextForm(csv.decimal, csv.thousands)

    def of(kind: pa.DataType, value: str, spelled: str | None = None, told: str = "") -> FoundType:
        read = cast_text(cells, kind, replace(form, format=spelled))[0]
        return FoundType(value, spelled, read, told)

    if not len(said):
        return of(pa.string(), "string", told="no values")
    padded = pc.any(pc.match_substring_regex(said, r"^[+-]?0\d")).as_py()
    if _reads(said, _WHOLE, form) >= ENOUGH:
        spelled = _date_in_digits(name, said)
        if spelled is not None:
            kind = MICROSECONDS if has_time(spelled) else _DAY
            return of(kind, "timestamp" if has_time(spelled) else "date", spelled, f"all read as {spelled}")
        if padded:
            return of(pa.string(), "string", told="digits with zeros in front")
        return of(_WHOLE, "long", told="whole numbers")
    if _reads(said, _NUMBER, form) >= ENOUGH and not padded:
        money = pa.decimal128(38, 2)
        if len(said) >= _LEAST_CELLS and _reads(said, money, form) >= _SURE:
            read = cast_text(cells, money, form)[0]
            return FoundType(f"decimal({_MONEY_DIGITS},2)", None, read, "two decimals, as money has")
        return of(_NUMBER, "double", told="numbers")
    for kind, value in ((_DAY, "date"), (MICROSECONDS, "timestamp")):
        if _reads(said, kind, form) >= ENOUGH:
            return of(kind, value, told=f"{value}s")
    dated = pc.match_substring_regex(said, _DATED)
    if pc.mean(dated).as_py() < ENOUGH:  # Hundreds of forms are tried below.
        return of(pa.string(), "string", told="text")
    trial = BoundColumn(Field(name, Role.SENSITIVE), MICROSECONDS, from_text=True, form=form)
    proposed = proposed_form(said, trial)
    other = None if proposed is None else dict(proposed.field).get("format")
    if proposed is not None and isinstance(other, str) and proposed.share >= ENOUGH:
        kind = MICROSECONDS if has_time(other) else _DAY
        told = f'read as "{other}"' + (f"; {proposed.beside}" if proposed.beside else "")
        return of(kind, "timestamp" if has_time(other) else "date", other, told)
    return of(pa.string(), "string", told="text")


def _date_in_digits(name: str, said: pa.Array) -> str | None:
    """The format of whole numbers that are dates: few others happen to be days of the calendar."""
    if len(said) < _LEAST_CELLS:
        return None
    for spelled, digits in (("%Y%m%d", r"^(19|20)\d{6}$"), ("%y%m%d", r"^\d{6}$")):
        formed = pc.mean(pc.match_substring_regex(said, digits)).as_py()
        if formed >= _SURE and _reads(said, _DAY, TextForm(format=spelled)) >= _SURE:
            return spelled
    if not _OF_TIME.search(name):
        return None
    for spelled, digits in (("epoch_s", r"^1\d{9}$"), ("epoch_ms", r"^1\d{12}$")):
        if pc.mean(pc.match_substring_regex(said, digits)).as_py() >= _SURE:
            return spelled
    return None


def _null_words(cells: Mapping[str, pa.Array], found: Mapping[str, FoundType]) -> tuple[str, ...]:
    """Words of ours that stand in columns of another type than text."""
    there: set[str] = set()
    for name, column in cells.items():
        if not form_of(found[name].values.type).text:
            known = column.drop_null()
            words = pc.is_in(known, value_set=pa.array(NULL_WORDS, pa.string()))
            there |= set(pc.unique(known.filter(words)).to_pylist())
    return tuple(word for word in NULL_WORDS if word in there)
