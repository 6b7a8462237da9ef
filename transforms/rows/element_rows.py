"""Records that are not Arrow (dicts, beam.Row, NamedTuples) as columns of text, for classification to cast."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_inputs import NO_VALUE


def text_schema(policy: Policy) -> pa.Schema:
    """Every field that the policy names, as text."""
    return pa.schema([(field.name, pa.string()) for field in policy.fields])


class ElementRows(NamedTuple):
    """table: the records' kept fields as text. broken: records of rejected.avsc for those with text that is none."""

    table: pa.Table
    broken: tuple[dict[str, Any], ...]


def rows_to_table(rows: Sequence[Any], bound: BoundPolicy) -> ElementRows:
    """The fields that the policy keeps, as text columns; what a record does not have is null. O(n d).

    Of ``bound.attributes`` text that is none is NO_VALUE, and the record is not broken.
    Raises TypeError for an element that is no record at all.
    """
    records = [_mapping(row) for row in rows]
    names = bound.input_columns
    attributes = bound.attributes
    texts = [
        [
            NO_VALUE if name in attributes and _not_unicode(text) else text
            for name, text in ((name, _text(record.get(name))) for name in names)
        ]
        for record in records
    ]
    faults = [
        next((name for name, text in zip(names, line, strict=True) if _not_unicode(text)), None)
        for line in texts
    ]
    good = [line for line, fault in zip(texts, faults, strict=True) if fault is None]
    broken = tuple(
        _broken(dict(zip(names, line, strict=True)), fault)
        for line, fault in zip(texts, faults, strict=True)
        if fault is not None
    )
    columns = {
        name: pa.array([line[place] for line in good], pa.string()) for place, name in enumerate(names)
    }
    return ElementRows(pa.table(columns), broken)


def _not_unicode(text: str | None) -> bool:
    """Whether text holds half of a surrogate pair, as JSON may: neither Arrow nor Avro can carry it."""
    if text is None or text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _broken(row: Mapping[str, str | None], field: str) -> dict[str, Any]:
    return {
        "reason": "unparseable",
        "field": field,
        "message": f"{field}: holds characters that are not Unicode",
        "window_end": None,
        "source": None,
        "row": {
            name: None if text is None else text.encode(errors="backslashreplace").decode()
            for name, text in row.items()
        },
    }


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
            # Plain floats: numpy's are floats too, and write their type into their repr.
            return repr(float(value))
    if hasattr(value, "to_utc_datetime"):
        try:
            return value.to_utc_datetime().isoformat()
        except (OverflowError, ValueError):
            return str(value)
    return str(value)
