"""Avro's dates, times, decimals and UUIDs as a file holds them: read without a Python object for each value.

The decoder makes a ``datetime``, ``date`` or ``Decimal`` of each such value, and Arrow takes it apart again, which was
a third of the time that reading took. ``plain_schema`` tells the decoder of the numbers only, ``plain_column`` makes
Arrow's column of them; together they give what the decoder and Arrow give, and refuse what those refuse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_FIRST_SECOND, _END_SECOND = -62_135_596_800, 253_402_300_800
"""Of the years 1 to 9999, which is all that the decoder has a date for."""
_DAY_SECONDS = 86_400
_INT64_DIGITS = 18


def plain_schema(
    schema: Mapping[str, Any], types: Mapping[str, pa.DataType]
) -> tuple[dict[str, Any], set[str]]:
    """The writer's schema of a record without the logical types that ``plain_column`` reads; which fields had one.

    schema: as the decoder parsed it. types: Arrow type of the fields that are read. Changed are only fields whose
    type, or whose one other branch beside null, is a date, a time of day, a timestamp in UTC, a decimal of up to 18
    digits or a UUID.
    """
    fields, plain = [], set()
    for field in schema["fields"]:
        name, bare = field["name"], _bare(field["type"], types.get(field["name"]))
        if bare is not None:
            field = {**field, "type": bare}
            plain.add(name)
        fields.append(field)
    return {**schema, "fields": fields}, plain


def _bare(avro: Any, kind: pa.DataType | None) -> Any:
    """The type without its logical type; None: it has none that is read here."""
    if isinstance(avro, list):
        bare = [_bare(branch, kind) for branch in avro]
        others = [branch for branch in avro if branch != "null"]
        if len(others) != 1 or not any(bare):
            return None
        return [one or branch for one, branch in zip(bare, avro, strict=True)]
    if not isinstance(avro, Mapping):
        return None
    match avro.get("type"), avro.get("logicalType"):
        case "int", "date":
            known = kind == pa.date32()
        case "long", ("timestamp-millis" | "timestamp-micros") as unit:
            known = kind == pa.timestamp({"timestamp-millis": "ms", "timestamp-micros": "us"}[unit], tz="UTC")
        case "int", "time-millis":
            known = kind == pa.time32("ms")
        case "long", "time-micros":
            known = kind == pa.time64("us")
        case "string", "uuid":
            known = kind == pa.uuid()
        case "bytes", "decimal":
            known = kind is not None and pa.types.is_decimal128(kind) and kind.precision <= _INT64_DIGITS
        case _:
            known = False
    return avro["type"] if known else None


def plain_column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The column of the numbers (decimals: big-endian bytes; UUIDs: text) that stand for ``values``; None is null.

    Raises OverflowError: a value is beyond its type, no date of the years 1 to 9999, or no time of a day. ValueError: a
    text is no UUID.
    """
    if pa.types.is_decimal(kind):
        return _decimals(values, kind)
    if kind == pa.uuid():
        return pa.array([None if value is None else UUID(value).bytes for value in values], kind)
    if pa.types.is_time(kind):
        return _times_of_day(values, kind)
    numbers = pa.array(values, pa.int32() if pa.types.is_date32(kind) else pa.int64())
    present = np.asarray(numbers.drop_null())
    if pa.types.is_date32(kind):
        low, end = _FIRST_SECOND // _DAY_SECONDS, _END_SECOND // _DAY_SECONDS
    else:
        step = 1_000 if kind.unit == "ms" else 1_000_000
        low, end = _FIRST_SECOND * step, _END_SECOND * step
    if present.size and not low <= present.min() <= present.max() < end:
        raise OverflowError("no date of the years 1 to 9999")
    return numbers.view(kind)


def _times_of_day(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    numbers = pa.array(values, pa.int32() if pa.types.is_time32(kind) else pa.int64())
    present = np.asarray(numbers.drop_null())
    if present.size and not 0 <= present.min() <= present.max() < _DAY_SECONDS * (
        1_000 if kind.unit == "ms" else 1_000_000
    ):
        raise OverflowError("no time of a day")
    return numbers.view(kind)


def _decimals(values: Iterable[bytes | None], kind: pa.Decimal128Type) -> pa.Array:
    whole = pa.array(
        [None if value is None else int.from_bytes(value, "big", signed=True) for value in values], pa.int64()
    )
    low: NDArray[np.int64] = np.asarray(whole.fill_null(0))
    # Not the absolute value: the least integer has none.
    limit = 10**kind.precision
    if low.size and not -limit < low.min() <= low.max() < limit:
        raise OverflowError("more digits than the type has")
    words = np.stack([low, low >> 63], axis=1)
    nulls = whole.buffers()[0] if whole.null_count else None
    return pa.Array.from_buffers(kind, len(whole), [nulls, pa.py_buffer(words)])
