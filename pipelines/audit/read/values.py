"""Values of one field as plain Python values and as codes, wherever they come from: input, rejected row or release.

    str, bool, float, int (whole numbers; days since 1970 of dates; instants since 1970 UTC in the type's unit;
    microseconds since midnight of times of day; the unscaled value of decimals), bytes, None, Unreadable

Equal values get equal codes of the field's ``CodeBook``. What a cell says is read by schemas/canonical_columns.py,
by which the run reads too; tests hold it against a second reader (tests/twin_values.py).
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.read.coarse_cells import coarse_value, is_coarse
from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.canonical_columns import as_text, read_column
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.policy_fields import PAYLOAD, Outside, QuasiType
from kanonflow.schemas.text_form import ISO, TextForm
from kanonflow.schemas.text_inputs import NO_VALUE
from kanonflow.schemas.text_values import cast_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_DAY, _LAST_DAY = ((each - _EPOCH.date()).days for each in (date.min, date.max))


@dataclass(frozen=True)
class Unreadable:
    """A cell that is no value of its field's type; equal to another one of the same text."""

    text: str


NO_TYPED_VALUE = Unreadable("")
"""What a typed column holds that is no value of its field: NaN, or an instant beyond the calendar. Which of them it is
makes no difference, for all of them are rejected, and Arrow prints some of them alike."""


class CodesOf(dict[Any, int]):
    """Object -> code, computing the code of what is seen for the first time."""

    def __init__(self, code: Callable[[Any], int]) -> None:
        super().__init__()
        self._code = code

    def __missing__(self, key: Any) -> int:
        code = self[key] = self._code(key)
        return code


class _Numbers(dict[Hashable, int]):
    """Value -> its place among the values, at whose end one is put that is seen for the first time."""

    def __init__(self, values: list[Hashable]) -> None:
        super().__init__({None: -1})
        self._values = values

    def __missing__(self, key: Hashable) -> int:
        code = self[key] = len(self._values)
        self._values.append(key)
        return code


class CodeBook:
    """Codes of the distinct values of one field, numbered from 0 as they come; null is -1.

    Cells of the input are made coarse as the field's grid says; those of releases and states are taken as they are.
    With ``outside: code`` values are cut to the declared domain first: beyond its ends they are the same. Of numbers
    that are published or generalized, -0.0 and 0.0 are two, as they are to the pipeline's digests.

    attribute: whether the field is a quasi-identifier of cohorts that last. Of those NO_VALUE is no value, and a cell
    of a text file that is no text is one (schemas/text_inputs.py).
    """

    def __init__(self, column: BoundColumn, *, attribute: bool = False) -> None:
        self.column = column
        self.attribute = attribute
        self.values: list[Hashable] = []
        self._code_of = _Numbers(self.values)
        quasi = column.field.quasi
        counted = column.field.role in PAYLOAD or (quasi is not None and quasi.type is QuasiType.NUMERIC)
        self._signed = pa.types.is_floating(column.arrow_type) and counted
        self._as_it_is = not (attribute or self._signed or _cuts(column))
        self._objects = CodesOf(lambda value: self.code(read_object(value, column.arrow_type)))

    def codes_of_texts(self, cells: Sequence[str | None]) -> np.ndarray:
        """Codes int32 (n,) of cells of a text file; an empty one is null."""
        return self.codes_of_column(pa.array(cells, pa.string()))

    def codes_of_column(self, raw: pa.Array) -> np.ndarray:
        """Codes int32 (n,) of an input's column, as the policy was bound to it. O(n), and O(distinct) in Python.

        What a text says does not depend on the texts beside it, so each is read once.
        """
        raw = raw.dictionary_decode() if pa.types.is_dictionary(raw.type) else raw
        if self.column.from_text and form_of(raw.type).text:
            texts = raw.dictionary_encode("encode")
            return self._codes_of_raw(texts.dictionary)[np.asarray(texts.indices)]
        return self._codes_of_raw(raw)

    def _codes_of_raw(self, raw: pa.Array) -> np.ndarray:
        values, bad = read_column(self.column, raw, None)
        codes = self._codes_of(values, coarse=is_coarse(self.column))
        if bad.any():
            places = np.flatnonzero(bad)
            codes[places] = self.code(NO_TYPED_VALUE) if not self.column.from_text else -1
            if self.column.from_text:
                texts = as_text(self.column, raw.take(pa.array(places))).to_pylist()
                codes[places] = [self.code(Unreadable(text)) for text in texts]
        return codes

    def codes_of_canonical(self, values: pa.Array) -> np.ndarray:
        """Codes int32 (n,) of values of the field's own type."""
        return self._codes_of(values, coarse=False)

    def _codes_of(self, values: pa.Array, *, coarse: bool) -> np.ndarray:
        """coarse: values are put on the field's grid before they are compared."""
        if pa.types.is_floating(values.type):
            # By their bits: a dictionary takes -0.0 for 0.0.
            numbers = np.asarray(values.fill_null(0.0))
            bits, place = np.unique(numbers.view(f"i{numbers.itemsize}"), return_inverse=True)
            distinct = pa.array(bits.view(numbers.dtype))
        else:
            encoded = values.dictionary_encode()
            distinct, place = encoded.dictionary, np.asarray(encoded.indices.fill_null(0))
        if not len(distinct):
            return np.full(len(values), -1, np.int32)
        there = np.asarray(values.is_valid())
        used = np.zeros(len(distinct), bool)
        used[place[there]] = True
        # A dictionary may hold what no row has.
        plain: Iterable[Any] = compress(plain_values(distinct), used.tolist())
        if coarse:
            plain = (coarse_value(value, self.column) for value in plain)
        codes = np.full(len(distinct), -1, np.int32)
        number = self._code_of.__getitem__ if self._as_it_is else self.code
        codes[used] = np.fromiter(map(number, plain), np.int32, int(used.sum()))
        return np.where(there, codes[place], -1).astype(np.int32)

    def codes_of_rejected(self, cells: Iterable[tuple[str | None, bool]], count: int) -> np.ndarray:
        """Codes int32 (count,) of cells of rejected rows: each with whether it is what came, or canonical text."""
        texts, unread = zip(*cells, strict=True) if count else ((), ())
        came = np.array(unread, bool)
        codes = np.empty(count, np.int32)
        for own in (came, ~came):
            places = np.flatnonzero(own)
            read = read_rejected([texts[place] for place in places.tolist()], self.column, unread=own is came)
            codes[places] = [self.code(value) for value in read]
        return codes

    def codes_of_objects(self, cells: Sequence[Any]) -> np.ndarray:
        """Codes int32 (n,) of values of the field's own type, as releases have them."""
        if not (self._signed and 0.0 in cells):
            return np.fromiter(map(self._objects.__getitem__, cells), np.int32, len(cells))
        # A dict takes -0.0 for 0.0, so zeros are looked at one by one.
        objects, kind = self._objects, self.column.arrow_type
        codes = (objects[value] if value else self.code(read_object(value, kind)) for value in cells)
        return np.fromiter(codes, np.int32, len(cells))

    def canonical(self) -> pa.Array:
        """All values as a column of the field's type, null where one could not be read."""
        kind = self.column.arrow_type
        values: list[Any] = [None if isinstance(each, Unreadable) else each for each in self.values]
        if pa.types.is_decimal(kind):
            return pa.array([value if value is None else _decimal(value, kind) for value in values], kind)
        counts = pa.types.is_temporal(kind)
        plain = (pa.int32() if pa.types.is_date(kind) else pa.int64()) if counts else kind
        return pa.array(values, plain).cast(kind)

    def code(self, value: Any) -> int:
        """The code of a plain value."""
        if value is None:
            return -1
        if self.attribute and value in (NO_VALUE, NO_VALUE.encode()):
            value = Unreadable(NO_VALUE)
        value = _cut(value, self.column)
        if not (self._signed and value == 0 and math.copysign(1.0, value) < 0):
            return self._code_of[value]
        if "-0.0" not in self._code_of:
            self._code_of["-0.0"] = len(self.values)
            self.values.append(value)
        return self._code_of["-0.0"]


def plain_values(array: pa.Array) -> list[Any]:
    """Plain values of a column of a canonical type."""
    kind = array.type
    if pa.types.is_temporal(kind):
        return list(array.cast(pa.int32() if pa.types.is_date(kind) else pa.int64()).to_pylist())
    if pa.types.is_decimal(kind):
        return [None if value is None else _unscaled(value, kind) for value in array.to_pylist()]
    return list(array.to_pylist())


def read_texts(texts: Sequence[str | None], kind: pa.DataType, form: TextForm = ISO) -> list[Any]:
    """Cells of text as plain values of type ``kind``, None: null. form: how the cells are written."""
    if pa.types.is_time(kind):
        return [None if not text else _time(text) for text in texts]
    values, bad = cast_text(pa.array(texts, pa.string()), kind, form)
    values, beyond = form_of(kind).take(values, ISO)
    bad = bad | beyond
    plain = plain_values(values)
    return [
        Unreadable(str(text)) if wrong else value
        for text, value, wrong in zip(texts, plain, bad, strict=True)
    ]


def read_rejected(texts: Sequence[str | None], column: BoundColumn, *, unread: bool = False) -> list[Any]:
    """Cells of rejected rows: canonical text, in which bytes are hexadecimal, or, ``unread``, what came.

    What came as text is read as such text is. What came typed is no value, or it would have been read.
    """
    kind = column.arrow_type
    if column.from_text and unread:
        own, column = column, column.as_read
        kind = column.arrow_type
        read = [coarse_value(each, own) for each in read_texts(texts, column.text_type, column.form)]
        days = pa.types.is_date(kind) and pa.types.is_timestamp(column.text_type)
        return [each // 86_400_000 if days and isinstance(each, int) else each for each in read]
    if column.from_text:
        return read_texts(texts, kind)
    if unread:
        return [None if text is None else NO_TYPED_VALUE for text in texts]
    # Of a typed column what is empty is no null.
    if pa.types.is_string(kind):
        return list(texts)
    if pa.types.is_binary(kind):
        return [None if text is None else _bytes(text) for text in texts]
    read = read_texts(texts, kind)
    return [NO_TYPED_VALUE if isinstance(each, Unreadable) else each for each in read]


def _bytes(text: str) -> bytes | Unreadable:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return NO_TYPED_VALUE


def _time(text: str) -> int | Unreadable:
    try:
        return _since_midnight(time.fromisoformat(text))
    except ValueError:
        return Unreadable(text)


def _since_midnight(clock: time) -> int:
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 10**6 + clock.microsecond


def read_object(value: Any, kind: pa.DataType) -> Any:
    """A value as fastavro or pyarrow return it, of a release or a record about one. What is no value is
    NO_TYPED_VALUE."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        number = rounded(float(value), kind)
        return number if math.isfinite(number) else NO_TYPED_VALUE
    if pa.types.is_decimal(kind):
        return _unscaled(value, kind)
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND // {"ms": 1_000, "us": 1}[kind.unit]
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    return _since_midnight(value) if isinstance(value, time) else value


def _unscaled(value: Any, kind: pa.DataType) -> int | Unreadable:
    unscaled = Fraction(value) * 10**kind.scale
    return unscaled.numerator if unscaled.denominator == 1 else NO_TYPED_VALUE


def _decimal(unscaled: int, kind: pa.DataType) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))


def rounded(number: float, kind: pa.DataType) -> float:
    """The number as a floating type holds it."""
    if kind != pa.float32():
        return number
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _cuts(column: BoundColumn) -> bool:
    """Whether values are cut to the declared domain."""
    quasi = column.field.quasi
    return quasi is not None and quasi.outside is Outside.CODE and column.domain is not None


def _cut(value: Any, column: BoundColumn) -> Any:
    if not _cuts(column) or isinstance(value, Unreadable):
        return value
    low, high = domain_ends(column)
    return min(max(value, low), high)


def domain_ends(column: BoundColumn) -> tuple[Any, Any]:
    """The declared domain's ends as values of the field's type. Raises ValueError where none is declared."""
    if column.domain is None:
        raise ValueError(f"field {column.name} has no declared range")
    low, high = (rounded(end, column.arrow_type) if isinstance(end, float) else end for end in column.domain)
    return low, high


def category(value: Any, column: BoundColumn) -> str:
    """A value as a policy spells it: booleans as in the files, days as leaves of days, decimals with all their digits,
    everything else as it prints."""
    if column.values.scale and isinstance(value, int):
        return format(_decimal(value, column.arrow_type), "f")
    if pa.types.is_date(column.arrow_type):
        # Nothing beyond the calendar, which has no leaf.
        known = isinstance(value, int) and _FIRST_DAY <= value <= _LAST_DAY
        return (_EPOCH.date() + timedelta(days=value)).isoformat() if known else ""
    return str(value).lower() if isinstance(value, bool) else str(value)
