"""A release's rows as values of messages, one a row: Avro (plain or framed) or JSON, and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from kanonflow.pipelines.kafka.avro_values import FRAME_BYTES, MAGIC
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.columns.avro_encoding import varint


def rows_digest(plain: Sequence[bytes], schema: Mapping[str, Any]) -> str:
    """What tells two releases apart: their schema and their rows as plain Avro, in order. 32 hex digits.

    However the rows are written in the topic: a release stays the same when the topic's format changes.
    """
    digest = hashlib.blake2b(digest_size=16, person=b"kanonflow rows")
    digest.update(json.dumps(schema, sort_keys=True).encode())
    for value in plain:
        digest.update(varint(len(value)) + value)
    return digest.hexdigest()


def framed(plain: Sequence[bytes], schema_id: int) -> list[bytes]:
    """Avro values behind the id of their schema, as clients of a schema registry write them."""
    frame = bytes([MAGIC]) + schema_id.to_bytes(FRAME_BYTES - 1, "big")
    return [frame + value for value in plain]


def json_rows(rows: pa.Table) -> list[bytes]:
    """Each row as one JSON object. Ranges are objects, sets of values arrays.

    Dates, instants and decimals are strings, in the form that CSV input has, so that no reader rounds them; bytes
    are hexadecimal.
    """
    columns = [_values(column.combine_chunks()) for column in rows.columns]
    names = rows.column_names
    return [
        json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, separators=(",", ":")).encode()
        for row in zip(*columns, strict=True)
    ]


def _values(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_struct(kind):
        parts = [_values(array.field(number)) for number in range(kind.num_fields)]
        names = [kind.field(number).name for number in range(kind.num_fields)]
        return [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)]
    if pa.types.is_list(kind):
        items, ends = _values(array.values), array.offsets.to_pylist()
        return [items[first:end] for first, end in pairwise(ends)]
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind) or pa.types.is_binary(kind):
        return render_text(array).to_pylist()
    return array.to_pylist()
