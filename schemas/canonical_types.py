"""The types that values have inside the pipeline, whatever their file had.

int32 int64 float double string boolean binary date32 timestamp(ms|us, UTC) time64(us) decimal128(p, s)

A UUID is its text, in lower case. A time of day is published, and generalized as text only.
"""

from __future__ import annotations

import pyarrow as pa

from kanonflow.schemas.kinds.form import MICROSECONDS, MILLISECONDS
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.policy_fields import Field, PartOfTime, Role, decimal_value
from kanonflow.schemas.text_form import has_time

__all__ = [
    "MICROSECONDS",
    "MILLISECONDS",
    "canonical_type",
    "misfit",
    "type_named",
    "type_of_text",
]

_NAMED = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": MICROSECONDS,
    **dict.fromkeys(map(str, PartOfTime), MICROSECONDS),
}
_NAMES = (Role.INDIVIDUAL, Role.EVENT_ID)


def type_named(value: str) -> pa.DataType | None:
    """The type that cells are read as where ``as`` says ``value``; None: there is none."""
    decimal = decimal_value(value)
    return pa.decimal128(*decimal) if decimal else _NAMED.get(value)


def type_of_text(field: Field) -> pa.DataType:
    """The canonical type of a field whose values arrive as text: what the policy says, else by its role, else by its
    format."""
    if field.value is not None:
        named = type_named(field.value)
        assert named is not None  # the policy's rules have seen to it
        return _as_needed(field, named)
    if field.role is Role.TIME:
        return MILLISECONDS
    by_kind = None if field.quasi is None else KINDS[field.quasi.type].type_of_text(field)
    if by_kind is not None:
        return by_kind
    if field.format is not None or field.timezone is not None:
        return MICROSECONDS if has_time(field.format) or field.timezone is not None else pa.date32()
    return pa.string()


def canonical_type(field: Field, arrow: pa.DataType) -> pa.DataType | None:
    """The canonical type of a typed column; None when the pipeline cannot carry its values.

    Event times and generalized instants are kept in milliseconds (floored), the unit of windows and boxes; instants
    under a hierarchy as their day in UTC, which is its leaf; instants of the payload in their own unit, nanoseconds in
    microseconds (floored).
    """
    canonical = form_of(arrow).canonical
    return None if canonical is None else _as_needed(field, canonical)


def misfit(field: Field, canonical: pa.DataType) -> str | None:
    """Why a field of this type cannot play its role; None when it can."""
    form = form_of(canonical)
    if field.quasi is not None:
        return KINDS[field.quasi.type].misfit(field.quasi, form)
    if field.role is Role.TIME and form.per_day is None:
        return "role: time needs a column of timestamps or dates (for text, add as: timestamp)"
    if field.role in _NAMES and not form.name:
        mend = "; for whole numbers in a column of fractions, add as: long" if form.fraction else ""
        return f"role: {field.role} needs text, whole numbers or bytes{mend}"
    return None


def _as_needed(field: Field, canonical: pa.DataType) -> pa.DataType:
    """Instants in the unit that the field's role needs."""
    form = form_of(canonical)
    if field.role is Role.TIME:
        return form.event_time
    return canonical if field.quasi is None else KINDS[field.quasi.type].kept(form)
