"""Records that are not Arrow (dicts, beam.Row, NamedTuples) as columns of text, for classification to cast."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy


def text_schema(policy: Policy) -> pa.Schema:
    """Every field that the policy names, as text."""
    return pa.schema([(field.name, pa.string()) for field in policy.fields])


def rows_to_table(rows: Sequence[Any], bound: BoundPolicy) -> pa.Table:
    """The fields that the policy keeps, as text columns; what a record does not have is null. O(n d)."""
    records = [_mapping(row) for row in rows]
    return pa.table(
        {
            name: pa.array([_text(record.get(name)) for record in records], pa.string())
            for name in bound.input_columns
        }
    )


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
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case datetime.datetime() | datetime.date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case float():
            return repr(value)
    if hasattr(value, "to_utc_datetime"):
        return value.to_utc_datetime().isoformat()
    return str(value)
