"""A second reading of JSON messages, value by value, by Python's json module; what is a row stands in
schemas/text_inputs.py. Streams and audits read them by pipelines/feeds/message_values.py."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from kanonflow.schemas.text_inputs import NO_VALUE

_PLACES = 30


def cells_of_message(
    value: bytes | None, names: Sequence[str | None], attributes: Collection[str] = ()
) -> list[str] | None:
    """The fields of a JSON object as text, None: it is no row."""
    try:
        if attributes:
            text = (value or b"").decode(errors="surrogateescape")
            row = json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_odd, strict=False)
        else:
            text = (value or b"").decode()
            row = json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_refuse)
        if not isinstance(row, dict):
            return None
        for name in attributes:
            if _no_value(row.get(name)):
                row[name] = NO_VALUE
        cells = [_cell(None if name is None else row.get(name)) for name in names]
        # Marks of what is no value are no fault of the row.
        marks = [name in attributes and cell == NO_VALUE for name, cell in zip(names, cells, strict=True)]
        text = "".join(cell for cell, mark in zip(cells, marks, strict=True) if not mark)
        text.encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    return None if "\0" in text or "\x1a" in text else cells


def _no_value(value: Any) -> bool:
    """Whether a field's value is nested, or text that is none."""
    if isinstance(value, str):
        return re.search("[\0\x1a\ud800-\udfff]", value) is not None
    return value is not None and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "true" if value else "false"
    raise ValueError("nested")


def _number(text: str) -> str:
    """A JSON number as text: 1, 1.0 and 1e0 are 1; with an exponent far from 0 as it came."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return text
    if value == 0:
        return "0"
    if "e" in text.lower() and abs(value.adjusted()) > _PLACES:
        return text
    whole, point, fraction = f"{value:f}".partition(".")
    fraction = fraction.rstrip("0")
    return whole + point + fraction if fraction else whole


def _refuse(constant: str) -> str:
    raise ValueError("NaN and Infinity are not JSON")


def _odd(constant: str) -> list[str]:
    """NaN and Infinity, nested: no cell of a row."""
    return [constant]
