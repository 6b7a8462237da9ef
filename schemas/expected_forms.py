"""What a value of a field looks like, in words: what a message says was expected where something else came."""

from __future__ import annotations

from kanonflow.schemas.bound_policy import BoundColumn
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.kinds import KINDS
from kanonflow.schemas.policy_fields import Role


def expected_form(column: BoundColumn) -> str:
    """The form of a column's values, with an example of none of its records.

    Of text it is how a cell has to be written (``text_inputs``), of a typed column which of its values can be used.
    """
    column = column.as_read
    if column.from_text:
        return form_of(column.text_type).expected(column.form)
    return column.values.expected_typed()


def expected_instead(column: BoundColumn, reason: str) -> str:
    """What was expected in the place of a value that was rejected.

    reason: bad_value, missing_value, outside_domain or unparseable, as in rejected.avsc.
    """
    if reason == "missing_value":
        return f"{expected_form(column)} in every row, for role: {column.field.role} needs it"
    if reason == "outside_domain":
        quasi = column.field.quasi
        assert quasi is not None
        return KINDS[quasi.type].expected(quasi)
    if reason == "unparseable":
        return "UTF-8 text without the characters NUL and SUB"
    if column.field.role is Role.TIME:
        return f"{expected_form(column)}, in the years 1 to 9999"
    return expected_form(column)
