"""The types that values have inside the pipeline, whatever their file had.

int32 int64 float double string boolean binary date32 timestamp(ms|us, UTC) time64(us) decimal128(p, s)

A UUID is its text, in lower case. A time of day is published, and generalized as text only.
"""

from __future__ import annotations

import pyarrow as pa

from kanonflow.schemas.policy_fields import Field, QuasiType, Role, decimal_value
from kanonflow.schemas.text_form import EPOCH, directives_of, has_time

MILLISECONDS = pa.timestamp("ms", tz="UTC")
MICROSECONDS = pa.timestamp("us", tz="UTC")
TIME_OF_DAY = pa.time64("us")

_PLAIN = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": MICROSECONDS,
}
MOST_QUASI_DIGITS = 18
"""Precision up to which the unscaled value of a decimal fits into an int64."""


def type_of_text(field: Field) -> pa.DataType:
    """The canonical type of a field whose values arrive as text: what the policy says, else by its role, else by its
    format."""
    if field.value is not None:
        decimal = decimal_value(field.value)
        declared = pa.decimal128(*decimal) if decimal else _PLAIN[field.value]
        return _as_needed(field, declared)
    if field.role is Role.TIME:
        return MILLISECONDS
    if field.quasi is not None and field.quasi.type is QuasiType.NUMERIC:
        return pa.float64()
    if field.quasi is not None and field.quasi.type is QuasiType.DATE:
        return _as_needed(field, MICROSECONDS) if _names_instants(field) else pa.date32()
    if field.format is not None or field.timezone is not None:
        return MICROSECONDS if has_time(field.format) or field.timezone is not None else pa.date32()
    return pa.string()


def _names_instants(field: Field) -> bool:
    """Whether what is said of a field's text makes instants of it, whatever day that is somewhere."""
    form = field.format
    if field.timezone is not None or form in EPOCH:
        return True
    return form is not None and any(part.letter == "z" for part in directives_of(form))


def canonical_type(field: Field, arrow: pa.DataType) -> pa.DataType | None:
    """The canonical type of a typed column; None when the pipeline cannot carry its values.

    Event times and generalized instants are kept in milliseconds (floored), the unit of windows and boxes; instants
    under a hierarchy as their day in UTC, which is its leaf; instants of the payload in their own unit, nanoseconds in
    microseconds (floored).
    """
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    canonical = _canonical(arrow)
    return None if canonical is None else _as_needed(field, canonical)


def is_text(arrow: pa.DataType) -> bool:
    """Whether a column holds text (plain, large, view, or dictionary-encoded)."""
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    return pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow)


def can_become(own: pa.DataType, kind: pa.DataType) -> bool:
    """Whether there are values of a canonical type that are values of another one."""
    if own == kind or (_is_time(own) and _is_time(kind)):
        return True
    if _is_number(own) and _is_number(kind):
        return True
    texts = _is_number(own) or pa.types.is_boolean(own) or pa.types.is_date(own) or pa.types.is_time(own)
    return pa.types.is_string(kind) and texts


def is_uuid(arrow: pa.DataType) -> bool:
    """Whether a column holds UUIDs."""
    return isinstance(arrow, pa.UuidType)


def grid_kind(canonical: pa.DataType) -> str | None:
    """What ``grid.snap_outward`` calls values of this type; None for what has no ranges."""
    if pa.types.is_integer(canonical):
        return "integer"
    if pa.types.is_floating(canonical):
        return "float"
    if pa.types.is_decimal(canonical):
        return f"decimal({canonical.scale})"
    if pa.types.is_date(canonical):
        return "date"
    return "timestamp" if pa.types.is_timestamp(canonical) else None


def misfit(field: Field, canonical: pa.DataType) -> str | None:
    """Why a field of this type cannot play its role; None when it can."""
    kind = grid_kind(canonical)
    if field.quasi is not None and pa.types.is_time(canonical):
        return (
            "times of day have no ranges; add as: string and type: categorical (or a hierarchy of such texts), or give "
            "it role: insensitive or identifier"
        )
    if field.quasi is not None and field.quasi.type is QuasiType.NUMERIC:
        if kind is None or kind in ("date", "timestamp"):
            return "type: numeric needs a column of numbers (for text, add as: double)"
        if pa.types.is_decimal(canonical) and canonical.precision > MOST_QUASI_DIGITS:
            return f"type: numeric takes decimals of at most {MOST_QUASI_DIGITS} digits"
    elif field.quasi is not None and field.quasi.type is QuasiType.DATE:
        if kind not in ("date", "timestamp"):
            return "type: date needs a column of dates or timestamps (for text, add as: date)"
    elif field.quasi is not None and field.quasi.hierarchy is not None and kind == "date":
        if not field.quasi.hierarchy.of_days:
            return (
                "its hierarchy is not one of days; build it, as in {calendar: [month, year], domain: [1920-01-01, "
                "2010-12-31]}, or write a row a day that begins with it, as in 1984-05-30;1984-05;1984;*"
            )
    elif field.quasi is not None:
        if not (
            pa.types.is_string(canonical) or pa.types.is_integer(canonical) or pa.types.is_boolean(canonical)
        ):
            return (
                f"type: {field.quasi.type} needs text, whole numbers or booleans; use type: numeric or date"
            )
    elif field.role is Role.TIME:
        if kind not in ("date", "timestamp"):
            return "role: time needs a column of timestamps or dates (for text, add as: timestamp)"
    elif field.role in (Role.INDIVIDUAL, Role.EVENT_ID) and not (
        pa.types.is_string(canonical) or pa.types.is_integer(canonical) or pa.types.is_binary(canonical)
    ):
        mend = "; for whole numbers in a column of fractions, add as: long" if kind == "float" else ""
        return f"role: {field.role} needs text, whole numbers or bytes{mend}"
    return None


def _canonical(arrow: pa.DataType) -> pa.DataType | None:
    types = pa.types
    if is_text(arrow) or is_uuid(arrow):
        return pa.string()
    if types.is_time(arrow):
        return TIME_OF_DAY
    if types.is_binary(arrow) or types.is_large_binary(arrow) or types.is_fixed_size_binary(arrow):
        return pa.binary()
    if types.is_boolean(arrow) or arrow in (pa.float32(), pa.float64()):
        return arrow
    if types.is_float16(arrow):
        return pa.float32()
    if arrow in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()):
        return pa.int32()
    if arrow in (pa.int64(), pa.uint32()):
        return pa.int64()
    if arrow == pa.uint64():
        return pa.decimal128(20, 0)
    if types.is_date(arrow):
        return pa.date32()
    if types.is_timestamp(arrow):
        return MILLISECONDS if arrow.unit in ("s", "ms") else MICROSECONDS
    if types.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return pa.decimal128(arrow.precision, arrow.scale)
    return None


def _as_needed(field: Field, canonical: pa.DataType) -> pa.DataType:
    """Instants in the unit that the field's role needs."""
    if field.quasi is not None and field.quasi.type is QuasiType.HIERARCHY:
        return pa.date32() if pa.types.is_timestamp(canonical) else canonical
    if field.role is Role.TIME:
        return MILLISECONDS if canonical == pa.date32() or canonical == MICROSECONDS else canonical
    return MILLISECONDS if field.quasi is not None and canonical == MICROSECONDS else canonical


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def _is_time(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)
