"""What the type of a collection's elements tells of their fields: of NamedTuples, dataclasses and Beam's rows."""

from __future__ import annotations

import dataclasses
import datetime
import types
import typing
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.typehints import UnionConstraint
from apache_beam.utils.timestamp import Timestamp

from kanonflow.schemas.canonical_types import MICROSECONDS
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_fields import Role

BY_POLICY = pa.null()
"""What stands for the type of a field that the policy gives its type: ``bind`` takes its role and its ``as``."""

_ARROW: Mapping[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    bytes: pa.binary(),
    datetime.date: pa.date32(),
    datetime.datetime: MICROSECONDS,
    Timestamp: MICROSECONDS,
    np.bool_: pa.bool_(),
    **{
        kind: pa.from_numpy_dtype(kind)
        for kind in (
            np.int8,
            np.int16,
            np.int32,
            np.int64,
            np.uint8,
            np.uint16,
            np.uint32,
            np.float32,
            np.float64,
        )
    },
}


def fields_of(element_type: Any) -> dict[str, Any] | None:
    """The types of a record's fields by name; None: this is no type of records whose fields are known (a dict's, or one
    whose annotations name what cannot be found)."""
    if isinstance(element_type, RowTypeConstraint):
        return dict(element_type._fields)
    if not isinstance(element_type, type):
        return None
    if dataclasses.is_dataclass(element_type):
        names = [field.name for field in dataclasses.fields(element_type)]
    elif issubclass(element_type, tuple) and hasattr(element_type, "_fields"):
        names = list(element_type._fields)
    else:
        return None
    try:
        hints = typing.get_type_hints(element_type)
    except (NameError, AttributeError, TypeError):
        return None
    return {name: hints.get(name, Any) for name in names}


def records_schema(policy: Policy, fields: Mapping[str, Any]) -> pa.Schema:
    """The schema that a policy is bound to for records of these fields (``fields_of``).

    A field has the type of its values where that says one: int, float, bool, bytes, date, datetime, numpy's numbers.
    Where the policy says ``as``, that counts; text, and what tells nothing (Any), is as text files have it.
    Raises PolicyError: a Decimal that is kept, and no ``as`` says its digits.
    """
    declared = {field.name: field for field in policy.fields}
    mistakes, columns = [], []
    for name, hint in fields.items():
        kind, field = _bare(hint), declared.get(name)
        published = field is not None and field.role is not Role.IDENTIFIER
        arrow = _ARROW.get(kind, BY_POLICY)
        if field is not None and published and field.value is None and kind is Decimal:
            mistakes.append(
                f"fields.{name}: is a Decimal, whose digits its type does not tell; say as: decimal(p,s), as in"
                " decimal(12,2)"
            )
        columns.append((name, BY_POLICY if field is not None and field.value is not None else arrow))
    if mistakes:
        raise PolicyError(mistakes, f"{policy.name} does not fit the PCollection's elements")
    return pa.schema(columns)


def _bare(hint: Any) -> Any:
    """A type without None beside it; of several others None, which tells nothing."""
    if isinstance(hint, UnionConstraint):
        branches = set(hint.union_types)
    elif typing.get_origin(hint) in (typing.Union, types.UnionType):
        branches = set(typing.get_args(hint))
    else:
        return hint if isinstance(hint, type) else None
    others = branches - {type(None)}
    return _bare(others.pop()) if len(others) == 1 else None
