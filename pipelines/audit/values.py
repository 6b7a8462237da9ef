"""The audit's own reading of values: what a cell of a file says, as a plain Python value.

The audit must not share a mistake with the pipeline, so it does not use the pipeline's casts. Values of one
field, wherever they come from (an input file, a rejected row, a release), become one of:

    str, bool, float, int (whole numbers; days since 1970 of dates; milliseconds or microseconds since 1970
    UTC of instants, cut to the type's unit; the unscaled value of decimals), bytes, None, Unreadable

and equal values get equal codes of the field's ``CodeBook``.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.policy_fields import Outside, QuasiType, Role
from kanonflow.schemas.text_inputs import NO_VALUE

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PUBLISHED = (Role.SENSITIVE, Role.INSENSITIVE)
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Unreadable:
    """A cell that is no value of its field's type; equal to another one of the same text."""

    text: str


class CodesOf(dict[Any, int]):
    """Object -> code, computing the code of what is seen for the first time."""

    def __init__(self, code: Callable[[Any], int]) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, key: Any) -> int:
        code = self[key] = self._code(key)
        return code


class CodeBook:
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
        self._texts = CodesOf(lambda text: self._code(_read_cell(text, column)))
        self._rejected = CodesOf(lambda text: self._code(read_rejected(text, column.arrow_type)))
        self._objects = CodesOf(lambda value: self._code(read_object(value, column.arrow_type)))

    def codes_of_texts(self, cells: Iterable[str], count: int) -> np.ndarray:
        """Codes int32 (count,) of cells of a text file; an empty cell is null."""
        return np.fromiter(map(self._texts.__getitem__, cells), np.int32, count)

    def codes_of_rejected(self, cells: Iterable[str | None], count: int) -> np.ndarray:
        """Codes int32 (count,) of cells as rejected rows spell them."""
        return np.fromiter(map(self._rejected.__getitem__, cells), np.int32, count)

    def codes_of_objects(self, cells: Iterable[Any], count: int) -> np.ndarray:
        """Codes int32 (count,) of values as fastavro or pyarrow return them."""
        if self._signed:
            # A dict takes -0.0 for 0.0.
            kind = self.column.arrow_type
            return np.fromiter((self._code(read_object(value, kind)) for value in cells), np.int32, count)
        return np.fromiter(map(self._objects.__getitem__, cells), np.int32, count)

    def faults(self) -> np.ndarray:
        """Bool (values,): whether a row with this value must be rejected: unreadable, or not in the
        domain."""
        wrong = [isinstance(value, Unreadable) or outside_domain(value, self.column) for value in self.values]
        return np.array(wrong, dtype=bool)

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


def outside_domain(value: Any, column: BoundColumn) -> bool:
    """Whether a readable value lies outside of the field's declared domain."""
    if column.categories is not None:
        text = _day(value) if pa.types.is_date(column.arrow_type) else _category(value)
        return text not in column.categories
    if column.domain is None:
        return False
    low, high = domain_ends(column)
    return not low <= value <= high


def read_text(text: str | None, kind: pa.DataType) -> Any:
    """A cell of a text file as a value of type ``kind``. Spaces around anything but text are no matter."""
    if text is None or text == "":
        return None
    if pa.types.is_string(kind):
        return text
    if pa.types.is_binary(kind):
        return text.encode()
    try:
        value = _parse(text.strip(), kind)
    except (ValueError, KeyError, OverflowError, InvalidOperation):
        return Unreadable(text)
    return Unreadable(text) if value is None else value


def _read_cell(text: str | None, column: BoundColumn) -> Any:
    """A cell of a text file of one field; of an instant whose day is all that counts, the day in UTC."""
    kind = column.arrow_type
    if column.field.value != "timestamp" or not pa.types.is_date(kind):
        return read_text(text, kind)
    milliseconds = read_text(text, pa.timestamp("ms", tz="UTC"))
    return milliseconds // 86_400_000 if isinstance(milliseconds, int) else milliseconds


def read_rejected(text: str | None, kind: pa.DataType) -> Any:
    """A cell of a rejected row: the same as in a text file, but bytes are hexadecimal."""
    if text and pa.types.is_binary(kind):
        try:
            return bytes.fromhex(text)
        except ValueError:
            return Unreadable(text)
    return read_text(text, kind)


def read_object(value: Any, kind: pa.DataType) -> Any:
    """A value as fastavro or pyarrow return it; instants may be integers already, in the unit of ``kind`` (of a date:
    days)."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        number = _rounded(float(value), kind)
        return number if math.isfinite(number) else Unreadable(str(float(value)))
    if pa.types.is_timestamp(kind):
        return value if isinstance(value, int) else _since_epoch(value, kind.unit)
    if pa.types.is_date(kind):
        if isinstance(value, int):
            return value
        if isinstance(value, datetime):
            # An instant under a hierarchy counts as its day in UTC; without a zone it is in UTC.
            value = (value if value.tzinfo is None else value.astimezone(UTC)).date()
        return (value - _EPOCH_DAY).days
    if pa.types.is_decimal(kind):
        unscaled = Fraction(value) * 10**kind.scale
        return unscaled.numerator if unscaled.denominator == 1 else Unreadable(str(value))
    return value


_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT = re.compile(
    _DATE.pattern + r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-5][0-9])?)?"
)


def _parse(text: str, kind: pa.DataType) -> Any:
    """None or an exception when the text is no value of the type. Python's own parsers take more than a text input
    may say (underscores, other digits, weeks), so its form comes first."""
    if pa.types.is_integer(kind):
        whole = int(text) if _WHOLE.fullmatch(text) else None
        return (
            whole
            if whole is not None and -1 << kind.bit_width - 1 <= whole < 1 << kind.bit_width - 1
            else None
        )
    if pa.types.is_boolean(kind):
        return _TRUTH[text.lower()]
    if pa.types.is_date(kind):
        return (date.fromisoformat(text) - _EPOCH_DAY).days if _DATE.fullmatch(text) else None
    if pa.types.is_timestamp(kind):
        return _since_epoch(datetime.fromisoformat(text), kind.unit) if _INSTANT.fullmatch(text) else None
    if not _NUMBER.fullmatch(text):
        return None
    if pa.types.is_decimal(kind):
        unscaled = Fraction(Decimal(text)) * 10**kind.scale
        fits = unscaled.denominator == 1 and abs(unscaled) < 10**kind.precision
        return unscaled.numerator if fits else None
    number = _rounded(float(text), kind)
    return number if math.isfinite(number) else None


def _rounded(number: float, kind: pa.DataType) -> float:
    if kind != pa.float32():
        return number
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _since_epoch(instant: date, unit: str) -> int:
    if not isinstance(instant, datetime):
        instant = datetime(instant.year, instant.month, instant.day, tzinfo=UTC)
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    step = timedelta(milliseconds=1) if unit == "ms" else timedelta(microseconds=1)
    return (instant - _EPOCH) // step


def _cut(value: Any, column: BoundColumn) -> Any:
    quasi = column.field.quasi
    if quasi is None or quasi.outside is not Outside.CODE or column.domain is None:
        return value
    if isinstance(value, Unreadable):
        return value
    low, high = domain_ends(column)
    return min(max(value, low), high)


def domain_ends(column: BoundColumn) -> tuple[Any, Any]:
    """The declared domain's ends as values of the field's type. Raises ValueError where none is declared."""
    if column.domain is None:
        raise ValueError(f"field {column.name} has no declared range")
    low, high = (_rounded(end, column.arrow_type) if isinstance(end, float) else end for end in column.domain)
    return low, high


def _day(value: Any) -> str:
    """Days since 1970 as a leaf of days is spelled; nothing beyond the calendar, which has no leaf."""
    if not isinstance(value, int) or not -719_162 <= value <= 2_932_896:
        return ""
    return (_EPOCH_DAY + timedelta(days=value)).isoformat()


def _category(value: Any) -> str:
    """A category as a policy spells it: booleans as in the files, everything else as it prints."""
    return str(value).lower() if isinstance(value, bool) else str(value)
