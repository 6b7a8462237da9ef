"""Records that are not Arrow (dicts, beam.Row, NamedTuples, dataclasses) as columns, for classification to check.

A column of text only stays text, and classification casts it as a cell of a file. In any other column each value
becomes one of the field's canonical type here, and a value that is none is a fault of its cell (``CellFault``), which
classification adds to what it finds itself.

What a field takes beside text, which is cast, and None, which is a null
    whole numbers       int; a float or Decimal that is whole
    double, float       int, float, Decimal: the nearest one
    decimal(p,s)        int, Decimal, float (as it is written), without rounding
    booleans            bool, and the numbers 0 and 1
    dates               date; datetime only where ``as: timestamp`` says so (its day in UTC)
    instants            datetime (without a zone: UTC), date (its midnight), Beam's Timestamp
    bytes               bytes
    text                UUID; of a field whose values are labels (individual, event id, categories, leaves of a
                        hierarchy) also int and bool, written as files have them. Nothing else: ``as`` says the type.
numpy's scalars are as Python's.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.canonical_columns import read_column
from kanonflow.schemas.kinds.form import MILLISECONDS, Form
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.policy import Others, Policy
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.schemas.printable import printable
from kanonflow.transforms.rows.elements import CellFault

MISSING = "the element has no such key"
NOT_UNICODE = "holds characters that are not Unicode"

_NO_KEY = object()
_NEEDED = (Role.QUASI, Role.INDIVIDUAL, Role.TIME, Role.EVENT_ID)
_AS = {
    int: "long",
    bool: "boolean",
    float: "double",
    Decimal: "decimal(p,s)",
    datetime.datetime: "timestamp",
    datetime.date: "date",
}


def text_schema(policy: Policy) -> pa.Schema:
    """Every field that the policy names, as text."""
    return pa.schema([(field.name, pa.string()) for field in policy.fields if field.source is None])


class ElementRows(NamedTuple):
    """table: the records' kept fields. broken: records of rejected.avsc for those that are no rows: with keys that the
    policy refuses, or text that is none. faults: cells of the table that are null because nothing could be read."""

    table: pa.Table
    broken: tuple[dict[str, Any], ...]
    faults: tuple[CellFault, ...]


class _NoValueError(Exception):
    """A value is none of its field's type; the message says why, and holds no value."""


def rows_to_table(rows: Sequence[Any], bound: BoundPolicy) -> ElementRows:
    """The fields that the policy keeps, as columns. O(n d).

    A key that a dict does not have is a null in the payload and ``missing_value`` in a quasi-identifier, individual,
    time, event id or partition; a field that a record's type does not have is ``missing_value`` wherever it is.
    With ``others: refuse`` a record with other keys than the policy's fields is broken.
    Raises TypeError for an element that is no record at all.
    """
    records = [_mapping(row) for row in rows]
    cells = {name: [record.get(name, _NO_KEY) for record in records] for name in bound.input_columns}
    attributes = bound.attributes
    broken: dict[int, tuple[str | None, str]] = dict(_unknown_keys(records, bound.policy))
    foul = {name: _not_unicode(column) for name, column in cells.items()}
    for name in bound.input_columns:
        # Of somebody who is known nothing reads an attribute: its fault must not reject the row here.
        for row in foul[name] if name not in attributes else ():
            broken.setdefault(row, (name, f"{name}: {NOT_UNICODE}"))
    kinds = tuple(
        _broken({name: column[row] for name, column in cells.items()}, *broken[row]) for row in sorted(broken)
    )
    good = [row for row in range(len(records)) if row not in broken]
    fixed = {number for number, row in enumerate(good) if not isinstance(rows[row], Mapping)}
    columns: dict[str, pa.Array] = {}
    faults: list[CellFault] = []
    for column in bound.columns:
        if column.source != column.name:
            continue
        own = cells[column.name] if not broken else [cells[column.name][row] for row in good]
        needed = column.field.role in _NEEDED or column.name in bound.policy.partition_by
        columns[column.name], at_fault = _column(column, own)
        for number, reason, message in at_fault:
            if reason == "missing_value" and not needed and number not in fixed:
                continue
            faults.append(CellFault(number, column.name, reason, message, shown(own[number])))
    return ElementRows(pa.table(columns), kinds, tuple(faults))


def shown(value: Any) -> str | None:
    """A value of an element as text, for a rejected row; of what has none, its type."""
    try:
        text = _text(value)
    except (OverflowError, ValueError):  # a number of very many digits, an instant beyond the calendar
        return f"<{type(value).__name__}>"
    return None if text is None else text.encode(errors="backslashreplace").decode()


def _column(column: BoundColumn, cells: list[Any]) -> tuple[pa.Array, list[tuple[int, str, str]]]:
    """The cells as a column, null where there is no value; row, reason and message of each cell at fault."""
    column = column.as_read
    kind, types = column.arrow_type, set(map(type, cells)) - {type(None)}
    try:
        if types <= {str} and (column.from_text or column.values.text):
            return pa.array(cells, pa.string()), []
        if types == {column.values.plain_type}:
            return pa.array(cells, kind), []
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        pass  # one of them is none: cell by cell
    faults: list[tuple[int, str, str]] = []
    values: dict[int, Any] = {}
    texts: dict[int, str] = {}
    instants: dict[bool, dict[int, datetime.datetime]] = {False: {}, True: {}}
    for row, cell in enumerate(cells):
        if cell is None:
            continue
        if cell is _NO_KEY:
            faults.append((row, "missing_value", MISSING))
            continue
        try:
            value = _plain(cell)
            if isinstance(value, str):
                # What is no text to cast stays as it is: an empty text is a null only in text.
                as_it_is = column.values.text and not column.from_text
                (values if as_it_is else texts)[row] = _unicode(value)
            elif column.values.text:
                values[row] = _label(value, column.field)
            elif isinstance(value, datetime.datetime) and _holds_instants(column):
                instants[value.tzinfo is not None][row] = value
            elif isinstance(value, datetime.date) and _is_instant(column.values):
                instants[False][row] = datetime.datetime.combine(value, datetime.time())
            else:
                values[row] = _value(value, column.values)
        except _NoValueError as error:
            faults.append((row, "bad_value", str(error)))
    groups = [(list(values), pa.array(list(values.values()), kind), column)]
    groups.append((list(texts), pa.array(list(texts.values()), pa.string()), replace(column, from_text=True)))
    for zoned, its in instants.items():
        micro = pa.timestamp("us", tz="UTC" if zoned else None)
        groups.append((list(its), pa.array(list(its.values()), micro), column))
    read = []
    for places, raw, how in groups:
        if not places:
            continue
        array, bad = read_column(how, raw, None)
        read.append((places, array))
        message = f"not a value of type {kind}, or not finite"
        faults += [(places[number], "bad_value", message) for number in np.flatnonzero(bad)]
    return _laid_out(read, len(cells), kind), sorted(faults)


def _laid_out(read: Sequence[tuple[list[int], pa.Array]], rows: int, kind: pa.DataType) -> pa.Array:
    """The arrays as one of ``rows`` values: each value at its place, the others null."""
    indices: NDArray[np.int64] = np.full(rows, -1)
    places = [place for its, _ in read for place in its]
    indices[places] = np.arange(len(places))
    together = pa.concat_arrays([pa.array([], kind), *(array for _, array in read)])
    return together.take(pa.array(indices, mask=indices < 0))


def _holds_instants(column: BoundColumn) -> bool:
    """Whether its values are instants, of some of which the day is kept only."""
    if _is_instant(column.values) or _is_instant(form_of(column.text_type)):
        return True
    kept_as = None if column.generalized is None else column.generalized.kept(form_of(MILLISECONDS))
    return kept_as == column.arrow_type and not column.from_text


def _is_instant(values: Form) -> bool:
    return values.per_day is not None and values.per_day > 1


def _plain(value: Any) -> Any:
    """Of numpy and Beam, the value of Python's. Raises _NoValueError."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
        if not isinstance(value, datetime.datetime):
            raise _NoValueError("not a value of type timestamp, or beyond the calendar")
        return value
    if isinstance(value, np.generic) and not isinstance(value, str | float | bytes):
        return value.item()
    if hasattr(value, "to_utc_datetime"):
        try:
            return value.to_utc_datetime()
        except (OverflowError, ValueError):
            raise _NoValueError("not a value of type timestamp, or beyond the calendar") from None
    return value


def _unicode(text: str) -> str:
    if _not_unicode([text]):
        raise _NoValueError(NOT_UNICODE)
    return text


def _label(value: Any, field: Field) -> str:
    """Text of a value that is none. Raises _NoValueError."""
    if isinstance(value, uuid.UUID):
        return str(value)
    kind = None if field.quasi is None else KINDS[field.quasi.type]
    labels = field.role in (Role.INDIVIDUAL, Role.EVENT_ID) or (kind is not None and kind.labels)
    if labels and field.value is None and isinstance(value, int):
        try:
            return str(_text(value))
        except ValueError:
            raise _NoValueError("a whole number of too many digits") from None
    known = next((kind for kind in _AS if isinstance(value, kind)), None)
    # A boolean is an int to Python, and a datetime a date.
    known = type(value) if type(value) in _AS else known
    mend = f"; say as: {_AS[known]}" if known is not None and field.value is None else ""
    raise _NoValueError(f"a value of type {type(value).__name__}, but the field is text{mend}")


def _value(value: Any, form: Form) -> Any:
    """What Arrow takes as a value of the form. Raises _NoValueError."""
    try:
        return pa.scalar(form.of_python(value), form.arrow).as_py()
    except TypeError:
        raise _NoValueError(
            f"a value of type {type(value).__name__}, but the field is {form.arrow}"
        ) from None
    except (pa.ArrowException, ArithmeticError, ValueError):
        raise _NoValueError(f"not a value of type {form.arrow}, or not finite") from None


def _unknown_keys(
    records: Sequence[Mapping[str, Any]], policy: Policy
) -> Iterator[tuple[int, tuple[None, str]]]:
    """Of each record with keys that the policy refuses: its place, and what to do.

    No field is named: a key may be anything, and fields become names of counters.
    """
    if policy.others is not Others.REFUSE:
        return
    declared = {field.column for field in policy.fields}
    for row, record in enumerate(records):
        if declared.issuperset(record):
            continue
        keys = sorted(printable(str(key))[:100] for key in record if key not in declared)
        few = ", ".join(keys[:5]) + (" and more" if len(keys) > 5 else "")
        yield (
            row,
            (None, f"the element has keys without a role: {few}; give each a role, or say others: drop"),
        )


def _not_unicode(cells: Sequence[Any]) -> list[int]:
    """Which cells hold half of a surrogate pair, as JSON may: neither Arrow nor Avro can carry it."""
    try:
        "".join([cell for cell in cells if isinstance(cell, str)]).encode()
    except UnicodeEncodeError:
        if len(cells) == 1:
            return [0]
        return [row for row, cell in enumerate(cells) if isinstance(cell, str) and _not_unicode([cell])]
    return []


def _broken(row: Mapping[str, Any], field: str | None, message: str) -> dict[str, Any]:
    return {
        "reason": "unparseable",
        "field": field,
        "message": message,
        "window_end": None,
        "source": None,
        "row": {name: shown(value) for name, value in row.items()},
    }


def _mapping(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if hasattr(row, "_asdict"):
        return row._asdict()
    if hasattr(row, "as_dict"):
        return row.as_dict()
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    raise TypeError(
        f"KAnonymize takes dicts, beam.Row, NamedTuples or Arrow batches, not {type(row).__name__}"
    )


def _text(value: Any) -> str | None:
    """A value as files of text have it. Raises ValueError, OverflowError: it cannot be written."""
    if value is None or value is _NO_KEY:
        return None
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case datetime.datetime() | datetime.date():
            return value.isoformat()
        case Decimal():
            return format(value, "f") if abs(value.adjusted()) < 100 else str(value)
        case bytes():
            return value.hex()
        case float():
            # Plain floats: numpy's are floats too, and write their type into their repr.
            return repr(float(value))
    if hasattr(value, "to_utc_datetime"):
        try:
            return value.to_utc_datetime().isoformat()
        except (OverflowError, ValueError):
            return str(value)
    return str(value)
