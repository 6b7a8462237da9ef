"""The values of messages -> Arrow rows, many at once; a value that is no row is a broken row, never an exception.

Only the columns asked for are kept: identifiers and fields without a name in the policy are dropped here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.pipelines.feeds.csv_files import BrokenRow
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.text_inputs import NO_TEXT, NO_VALUE

TOMBSTONE = BrokenRow(None, "the message has no value (a tombstone)")
MOST_PLACES = 30
"""Digits before or after the point up to which a JSON number with an exponent is written out."""

_NO_TEXT = re.compile(rb"\\u00(00|1[aA])|[\0\x1a]")
_NO_VALUE_OF_THE_TYPE = (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError)


class MessageRows(NamedTuple):
    """rows: the good values' columns.     places (n,): which of the values each row was.
    broken: the place of each other value, and what is wrong with it; in order."""

    rows: pa.RecordBatch
    places: NDArray[np.int64]
    broken: tuple[tuple[int, BrokenRow], ...]


class ValueDecoder(Protocol):
    """Knows one way to write rows as bytes."""

    def decode(self, values: Sequence[bytes | None]) -> MessageRows:
        """Rows of the values. The same values give the same rows and broken rows."""
        ...


class JsonValues:
    """One JSON object a message, or a line, as columns of text (like CSV; the policy says the types).

    Fields of objects within it are columns by their path, such as ``customer.birth`` (schemas/text_inputs.py).
    Numbers are written in one way whatever way they came (1, 1.0 and 1e0 are 1), with all their digits. What an
    object lacks is null; nested values, NUL and SUB are broken rows.

    attributes: columns of which a cell that is no value is ``NO_VALUE``, and does not break its row. Where there are
    any, nothing but the other columns decides whether an object is a row. called: what a value is in words.
    """

    def __init__(
        self, columns: Sequence[str], attributes: Collection[str] = (), called: str = "message"
    ) -> None:
        self._called = called
        self._paths = [name for name in columns if "." in name]
        self._schema = pa.schema([(name, pa.string()) for name in columns])
        self._attributes = frozenset(attributes)
        self._errors = "surrogateescape" if attributes else "strict"
        self._parse = json.JSONDecoder(
            parse_float=canonical_number,
            parse_int=_whole_number,
            parse_constant=_no_number if attributes else _refuse,
            strict=not attributes,
        ).decode

    def decode(self, values: Sequence[bytes | None]) -> MessageRows:
        """Rows of the values."""
        return decode_records(values, self._object, self._schema, _cell, self._attributes)

    def _object(self, value: bytes) -> dict[str, Any] | BrokenRow:
        try:
            text = value.decode(errors=self._errors)
        except UnicodeDecodeError:
            return BrokenRow(None, f"the {self._called} is not UTF-8 text")
        try:
            record = self._parse(text)
        except (ValueError, RecursionError):
            return BrokenRow(None, f"the {self._called} is not JSON")
        if not isinstance(record, dict):
            return BrokenRow(None, f"the {self._called} is not a JSON object")
        record |= {path: at_path(record, path) for path in self._paths}
        if _NO_TEXT.search(value):
            for name in self._schema.names:
                if isinstance(cell := record.get(name), str) and any(each in cell for each in NO_TEXT):
                    if name not in self._attributes:
                        return BrokenRow(name, f"{name}: holds the character NUL or SUB")
                    record[name] = NO_VALUE
        return record


def decode_records(
    values: Sequence[bytes | None],
    parse: Callable[[bytes], dict[str, Any] | BrokenRow],
    schema: pa.Schema,
    cell: Callable[[Any], Any] | None = None,
    attributes: Collection[str] = (),
) -> MessageRows:
    """Rows of the values, parsed one by one and laid out by column. O(values x columns).

    attributes: columns of which a cell that is no text is ``NO_VALUE``, where they are of text.
    cell: makes a record's value one of the column's type, or raises ValueError; None: it is one already.
    """
    records: list[dict[str, Any]] = []
    places: list[int] = []
    broken: dict[int, BrokenRow] = {}
    for place, value in enumerate(values):
        record = TOMBSTONE if value is None else parse(value)
        if isinstance(record, BrokenRow):
            broken[place] = record
        else:
            records.append(record)
            places.append(place)
    arrays = []
    faults: dict[int, BrokenRow] = {}
    for field in schema:
        array, bad = _column([record.get(field.name) for record in records], field.type, cell)
        if bad and field.name in attributes and form_of(field.type).text:
            array, bad = _with_no_values(array, bad), []
        arrays.append(array)
        for row in bad:
            faults.setdefault(row, BrokenRow(field.name, f"{field.name}: not a value of type {field.type}"))
    rows = pa.RecordBatch.from_arrays(arrays, names=schema.names)
    rows_at = np.array(places, np.int64)
    if faults:
        good = np.setdiff1d(np.arange(len(records)), list(faults))
        broken |= {places[row]: fault for row, fault in faults.items()}
        rows, rows_at = rows.take(pa.array(good)), rows_at[good]
    return MessageRows(rows, rows_at, tuple(sorted(broken.items())))


def at_path(record: dict[str, Any], path: str) -> Any:
    """What an object holds at a path; None where it holds nothing there. A name with points of its own goes first."""
    if path in record:
        return record[path]
    place = path.find(".")
    while place >= 0:
        inner = record.get(path[:place])
        if isinstance(inner, dict) and (value := at_path(inner, path[place + 1 :])) is not None:
            return value
        place = path.find(".", place + 1)
    return None


def canonical_number(text: str) -> str:
    """A JSON number as text, one way for each value: no exponent, no zeros at the end of a fraction.

    A number far from 1 keeps its own way: written out it could be as long as somebody likes.
    """
    if "e" in text or "E" in text:
        try:
            value = Decimal(text)
        except InvalidOperation:  # an exponent of very many digits
            return text
        if not value:
            return "0"
        if abs(value.adjusted()) > MOST_PLACES:
            return text
        text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _whole_number(text: str) -> str:
    return "0" if text == "-0" else text


def _refuse(constant: str) -> None:
    raise ValueError("NaN and Infinity are not JSON")


def _no_number(constant: str) -> tuple[str]:
    """NaN or Infinity as something nested, which no cell can be."""
    return (constant,)


def _with_no_values(array: pa.Array, places: Sequence[int]) -> pa.Array:
    bad = np.zeros(len(array), dtype=bool)
    bad[list(places)] = True
    return pc.if_else(pa.array(bad), NO_VALUE, array)


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    raise ValueError("nested")


def _column(
    cells: list[Any], kind: pa.DataType, cell: Callable[[Any], Any] | None
) -> tuple[pa.Array, list[int]]:
    """The cells as a column, and the places of those that are not of its type (null there).

    Together where that works, else in halves, down to the single cells at fault.
    """
    try:
        try:
            return pa.array(cells, kind), []
        except _NO_VALUE_OF_THE_TYPE:
            if cell is None:
                raise
            return pa.array([cell(value) for value in cells], kind), []
    except _NO_VALUE_OF_THE_TYPE:
        if len(cells) == 1:
            return pa.nulls(1, kind), [0]
    half = len(cells) // 2
    (first, bad), (second, also_bad) = _column(cells[:half], kind, cell), _column(cells[half:], kind, cell)
    return pa.concat_arrays([first, second]), [*bad, *(half + place for place in also_bad)]
