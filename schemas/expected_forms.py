"""What a value of a field looks like, in words: what a message says was expected where something else came."""

from __future__ import annotations

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.canonical_types import MILLISECONDS
from kanonflow.schemas.policy_fields import Role
from kanonflow.schemas.text_form import EPOCH, TextForm, directives_of


def expected_form(column: BoundColumn) -> str:
    """The form of a column's values, with an example of none of its records.

    Of text it is how a cell has to be written (``text_inputs``), of a typed column which of its values can be used.
    """
    return _of_text(column.text_type, column.form) if column.from_text else _of_typed(column.arrow_type)


def expected_instead(column: BoundColumn, reason: str) -> str:
    """What was expected in the place of a value that was rejected.

    reason: bad_value, missing_value, outside_domain or unparseable, as in rejected.avsc.
    """
    if reason == "missing_value":
        return f"{expected_form(column)} in every row, for role: {column.field.role} needs it"
    if reason == "outside_domain":
        if column.hierarchy is not None:
            return "a value of its hierarchy"
        return "a value of its declared domain (outside: code takes numbers and dates beyond it as its end)"
    if reason == "unparseable":
        return "UTF-8 text without the characters NUL and SUB"
    if column.field.role is Role.TIME:
        return f"{expected_form(column)}, in the years 1 to 9999"
    return expected_form(column)


def _of_text(kind: pa.DataType, form: TextForm) -> str:
    if pa.types.is_integer(kind):
        return f"a whole number of {kind.bit_width} bits such as 12"
    if pa.types.is_floating(kind):
        return f"a number such as 12{form.decimal}5"
    if pa.types.is_decimal(kind):
        whole = "1" * min(2, kind.precision - kind.scale) or "0"
        example = f"{whole}{form.decimal}{'5' * kind.scale}" if kind.scale else whole
        return f"a number with up to {kind.scale} decimals and {kind.precision} digits, such as {example}"
    if pa.types.is_boolean(kind):
        return "true, false, 1 or 0"
    if pa.types.is_date(kind):
        return "a date as YYYY-MM-DD" if form.format is None else f"a date as {form.format}"
    if pa.types.is_timestamp(kind):
        return _instant(form)
    return "text"


def _instant(form: TextForm) -> str:
    where = "in UTC" if form.timezone is None else f"in {form.timezone}"
    if form.format is None:
        return f"a time as YYYY-MM-DD HH:MM:SS, {where} unless its zone stands behind it"
    if form.format in EPOCH:
        return f"a whole number of {'seconds' if EPOCH[form.format] == 1_000 else 'milliseconds'} since 1970"
    zoned = any(part.letter == "z" for part in directives_of(form.format))
    twice = "" if form.timezone is None or form.fold is not None else ", that its clocks showed once"
    return f"a time as {form.format}" if zoned else f"a time as {form.format}, {where}{twice}"


def _of_typed(kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        return "a finite number"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return f"a {'time' if kind == MILLISECONDS else 'date'} in the years 1 to 9999"
    return f"a value of type {kind}"
