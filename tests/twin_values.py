"""A second reading of values, a value at a time: what a cell of a file says, as a plain Python value.

The run and the audit read columns by schemas/canonical_columns.py. A mistake there would be in both, and seen by
neither, so tests read generated cells by this as well (tests/twin_text_cells.py reads cells of text). Values become:

    str, bool, float, int (whole numbers; days since 1970 of dates; milliseconds or microseconds since 1970
    UTC of instants, cut to the type's unit; microseconds since midnight of times of day; the unscaled value of
    decimals), bytes, None, Unreadable

and equal values get equal codes of the field's ``CodeBook``.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.read.values import NO_TYPED_VALUE, CodesOf, Unreadable, domain_ends
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.policy_fields import Outside, QuasiType, Role
from kanonflow.schemas.text_form import ISO, TextForm
from kanonflow.schemas.text_inputs import NO_VALUE
from tests.twin_text_cells import (
    EPOCH_DAY,
    digits_under,
    read_text,
    rounded,
    since_epoch,
    since_midnight,
    within_calendar,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PUBLISHED = (Role.SENSITIVE, Role.INSENSITIVE)


@dataclass(frozen=True)
class Local:
    """A time of a typed column without a zone. microseconds: since 1970, as if its zone were UTC."""

    microseconds: int


class TwinBook:
    """Codes of the distinct values of one field, numbered from 0 as they come; null is -1.

    With ``outside: code`` values are cut to the declared domain first: beyond its ends they are the same. Of numbers
    that are published or generalized, -0.0 and 0.0 are two, as they are to the pipeline's digests.

    attribute: whether the field is a quasi-identifier of cohorts that last. Of those NO_VALUE is no value, and a cell
    of a text file that is no text is one (schemas/text_inputs.py).
    """

    def __init__(self, column: BoundColumn, *, attribute: bool = False) -> None:
        self.column = column
        self.attribute = attribute
        self.values: list[Hashable] = []
        self._code_of: dict[Hashable, int] = {}
        quasi = column.field.quasi
        counted = column.field.role in _PUBLISHED or (quasi is not None and quasi.type is QuasiType.NUMERIC)
        self._signed = pa.types.is_floating(column.arrow_type) and counted
        self._texts = CodesOf(lambda text: self._code(read_cell(text, column)))
        self._rejected = CodesOf(lambda text: self._code(read_rejected(text, column)))
        self._unread = CodesOf(lambda text: self._code(read_rejected(text, column, unread=True)))
        self._typed = CodesOf(lambda value: self._code(read_typed(value, column)))
        self._objects = CodesOf(lambda value: self._code(read_object(value, column.arrow_type)))

    def codes_of_texts(self, cells: Iterable[str | int | None], count: int) -> np.ndarray:
        """Codes int32 (count,) of cells of a text file, or of whole numbers with a format; an empty cell is null."""
        return np.fromiter(map(self._texts.__getitem__, cells), np.int32, count)

    def codes_of_rejected(self, cells: Iterable[tuple[str | None, bool]], count: int) -> np.ndarray:
        """Codes int32 (count,) of cells of rejected rows: each with whether it is what came, or canonical text."""
        codes = (self._unread[text] if unread else self._rejected[text] for text, unread in cells)
        return np.fromiter(codes, np.int32, count)

    def codes_of_typed(self, cells: Iterable[Any], count: int) -> np.ndarray:
        """Codes int32 (count,) of a typed input's values as fastavro or pyarrow return them."""
        if self._signed:
            # A dict takes -0.0 for 0.0.
            read = (read_typed(value, self.column) for value in cells)
            return np.fromiter(map(self._code, read), np.int32, count)
        return np.fromiter(map(self._typed.__getitem__, cells), np.int32, count)

    def codes_of_objects(self, cells: Iterable[Any], count: int) -> np.ndarray:
        """Codes int32 (count,) of values of the field's own type, as releases have them."""
        if self._signed:
            read = (read_object(value, self.column.arrow_type) for value in cells)
            return np.fromiter(map(self._code, read), np.int32, count)
        return np.fromiter(map(self._objects.__getitem__, cells), np.int32, count)

    def _code(self, value: Any) -> int:
        if value is None:
            return -1
        if self.attribute and value in (NO_VALUE, NO_VALUE.encode()):
            value = Unreadable(NO_VALUE)
        value = _cut(value, self.column)
        negative = self._signed and value == 0 and math.copysign(1.0, value) < 0
        code = self._code_of.setdefault("-0.0" if negative else value, len(self.values))
        if code == len(self.values):
            self.values.append(value)
        return code


def read_cell(cell: str | int | None, column: BoundColumn) -> Any:
    """A cell of a text file of one field, or of a column of whole numbers with a format; of an instant whose day is all
    that counts, the day in UTC."""
    text = digits_under(cell, column.form.format) if isinstance(cell, int) else cell
    if column.field.value != "timestamp" or not pa.types.is_date(column.arrow_type):
        return read_text(text, column.arrow_type, column.form)
    milliseconds = read_text(text, pa.timestamp("ms", tz="UTC"), column.form)
    return milliseconds // 86_400_000 if isinstance(milliseconds, int) else milliseconds


def read_rejected(text: str | None, column: BoundColumn, *, unread: bool = False) -> Any:
    """A cell of a rejected row: canonical text, in which bytes are hexadecimal, or, ``unread``, what came.

    What came as text is read as such text is. What came typed is no value, or it would have been read.
    """
    if column.from_text:
        return read_cell(text, column) if unread else read_text(text, column.arrow_type)
    if text is None or unread:
        return None if text is None else NO_TYPED_VALUE
    value = _read_canonical(text, column.arrow_type)
    return NO_TYPED_VALUE if isinstance(value, Unreadable) else value


def _read_canonical(text: str, kind: pa.DataType) -> Any:
    """Of a typed column, where what is empty is no null."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        try:
            return bytes.fromhex(text)
        except ValueError:
            return NO_TYPED_VALUE
    return read_text(text, kind)


def read_object(value: Any, kind: pa.DataType, form: TextForm = ISO) -> Any:
    """A value as fastavro or pyarrow return it. What is no value is NO_TYPED_VALUE.

    Instants may be integers already, in the unit of ``kind`` (of a date days, of times of day microseconds); times
    without a zone are ``datetime``, or microseconds as ``Local``.
    """
    if value is None:
        return None
    if pa.types.is_floating(kind):
        number = rounded(float(value), kind)
        return number if math.isfinite(number) else NO_TYPED_VALUE
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _day_or_instant(value, kind, form)
    if pa.types.is_decimal(kind):
        unscaled = Fraction(value) * 10**kind.scale
        return unscaled.numerator if unscaled.denominator == 1 else NO_TYPED_VALUE
    if pa.types.is_time(kind):
        microseconds = since_midnight(value) if isinstance(value, time) else value
        return microseconds if 0 <= microseconds < 86_400 * 10**6 else NO_TYPED_VALUE
    if pa.types.is_string(kind) and isinstance(value, bytes | UUID):
        return str(UUID(bytes=value) if isinstance(value, bytes) else value)
    return value


def read_typed(value: Any, column: BoundColumn) -> Any:
    """A value of a typed input's column: as ``read_object``, and cast to the type that the policy gives."""
    kind = column.arrow_type
    if column.own_type is None:
        return read_object(value, kind, column.form)
    own = read_object(value, column.own_type)
    if own is None or own == NO_TYPED_VALUE:
        return own
    cast = _cast(own, column.own_type, kind)
    return NO_TYPED_VALUE if cast is None else cast


def _cast(value: Any, own: pa.DataType, kind: pa.DataType) -> Any:
    """A plain value of one type as one of another; None: there is none. schemas/typed_values.py says which there are.

    Each number is taken exactly, as a fraction; of a float that becomes a decimal it is the shortest text's.
    """
    if pa.types.is_string(kind):
        whole = pa.types.is_temporal(own)
        plain = pa.int32() if pa.types.is_date(own) else pa.int64()
        if pa.types.is_floating(own):
            value += 0.0  # -0.0 is 0.0
        elif pa.types.is_decimal(own):
            value = Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -own.scale))
        return pa.array([value], plain if whole else own).cast(own).cast(pa.string())[0].as_py()
    if pa.types.is_floating(own) and pa.types.is_floating(kind):
        number = rounded(value, kind)
        return number if math.isfinite(number) else None
    exact = Fraction(value)
    if pa.types.is_decimal(own):
        exact /= 10**own.scale
    elif pa.types.is_floating(own) and pa.types.is_decimal(kind):
        exact = Fraction(str(np.float32(value)) if own == pa.float32() else repr(value))
    if pa.types.is_decimal(kind):
        exact *= 10**kind.scale
        return exact.numerator if exact.denominator == 1 and abs(exact) < 10**kind.precision else None
    whole_numbers = {pa.float32(): 2**24, pa.float64(): 2**53}
    limit = whole_numbers.get(own) or whole_numbers.get(kind)
    if limit and not pa.types.is_decimal(own) and abs(exact) >= limit:
        return None
    if pa.types.is_integer(kind):
        top = 1 << kind.bit_width - 1
        return exact.numerator if exact.denominator == 1 and -top <= exact < top else None
    return rounded(float(exact), kind)


def _day_or_instant(value: Any, kind: pa.DataType, form: TextForm) -> Any:
    if isinstance(value, Local):
        return _of_local(value.microseconds, kind, form)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return _of_local((value - _EPOCH.replace(tzinfo=None)) // _MICROSECOND, kind, form)
        value = _of_microseconds((value - _EPOCH) // _MICROSECOND, kind)
    elif isinstance(value, date):
        value = (value - EPOCH_DAY).days
        if pa.types.is_timestamp(kind):
            return _of_local(value * 86_400 * 10**6, kind, form)
    return value if within_calendar(value, kind) else NO_TYPED_VALUE


def _of_local(microseconds: int, kind: pa.DataType, form: TextForm) -> Any:
    """A time of the field's zone, counted as if that were UTC."""
    try:
        since = since_epoch(_EPOCH.replace(tzinfo=None) + microseconds * _MICROSECOND, form)
    except OverflowError:
        return NO_TYPED_VALUE
    value = None if since is None else _of_microseconds(since, kind)
    return NO_TYPED_VALUE if value is None or not within_calendar(value, kind) else value


def _of_microseconds(since: int, kind: pa.DataType) -> int:
    """An instant in the unit of ``kind``; of a date its day in UTC."""
    per_unit = 86_400 * 10**6 if pa.types.is_date(kind) else {"ms": 1_000, "us": 1}[kind.unit]
    return since // per_unit


def _cut(value: Any, column: BoundColumn) -> Any:
    quasi = column.field.quasi
    if quasi is None or quasi.outside is not Outside.CODE or column.domain is None:
        return value
    if isinstance(value, Unreadable):
        return value
    low, high = domain_ends(column)
    return min(max(value, low), high)


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def plain_cells(array: pa.Array, kind: pa.DataType) -> list[Any]:
    """Python values of a column of which the policy makes ``kind``. Days, instants in the unit of ``kind`` (of a date:
    days) and times of day in microseconds are integers, and times without a zone are ``Local``: no datetime limits
    these."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    own = array.type
    if pa.types.is_time(own):
        ticks = array.view(pa.int32() if pa.types.is_time32(own) else pa.int64()).to_pylist()
        return [None if tick is None else tick * 10**6 // _PER_SECOND[own.unit] for tick in ticks]
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return array.to_pylist()
    if pa.types.is_date(own):
        days = array.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [_local(day, 86_400) for day in days] if pa.types.is_timestamp(kind) else days
    if not pa.types.is_timestamp(own):
        return array.to_pylist()
    units = array.cast(pa.int64()).to_pylist()
    if own.tz is None:
        return [_local(value, 1, _PER_SECOND[own.unit]) for value in units]
    have, want = (
        _PER_SECOND[own.unit] * 86_400,
        1 if pa.types.is_date(kind) else _PER_SECOND[kind.unit] * 86_400,
    )
    return [None if value is None else value * want // have for value in units]


def _local(value: int | None, seconds: int, parts: int = 1) -> Local | None:
    """value: in units of seconds / parts."""
    return None if value is None else Local(value * seconds * 10**6 // parts)
