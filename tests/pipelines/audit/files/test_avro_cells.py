"""The audit's columns of an Avro file are what fastavro reads of it, row by row, and as damaged to both."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from kanonflow.pipelines.audit.files.avro_cells import avro_cells

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
INSTANT = {"type": "long", "logicalType": "timestamp-millis"}
RANGE = {
    "type": "record",
    "name": "age_range",
    "fields": [{"name": name, "type": ["null", "double"]} for name in ("min", "max")],
}
FIELDS: dict[str, tuple[Any, list[Any]]] = {
    "id": ("string", ["r"]),
    "at": (INSTANT, [dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in (1, 2)]),
    "age": (RANGE, [{"min": -0.0, "max": 2.0}, {"min": 0.0, "max": 2.0}, {"min": None, "max": None}]),
    "town": ({"type": "array", "items": ["null", "string"]}, [["a", "ä" * 90], [None], []]),
    "word": (["null", "string"], ["", "x" * 200, None]),
    "raw": (["null", "bytes"], [b"", b"\xff", None]),
    "real": (["null", "double"], [-0.0, 0.0, 1.5]),
    "single": ("float", [0.5, -0.0]),
    "whole": (["null", "long"], [0, -1, 2**40, None]),
    "truth": ("boolean", [True, False]),
    "money": (["null", DECIMAL], [Decimal("1.50"), None]),
}


def written(path: Path, seed: int, rows: int) -> Path:
    """Random rows, in blocks of a few, many of which begin as the row before does."""
    random = np.random.default_rng(seed)
    records: list[dict[str, Any]] = []
    for _ in range(rows):
        picked = {name: values[random.integers(len(values))] for name, (_, values) in FIELDS.items()}
        if records and random.random() < 0.7:
            picked |= {name: records[-1][name] for name in ("id", "at", "age", "town")}
        records.append(picked)
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": name, "type": kind} for name, (kind, _) in FIELDS.items()],
    }
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, records, codec="deflate", sync_interval=300)
    return path


@pytest.mark.parametrize("seed", range(5))
def test_columns_are_the_rows_that_fastavro_reads(tmp_path: Path, seed: int) -> None:
    """Every type of a release, several blocks, boxes that come again; equal cells are read once."""
    path = written(tmp_path / "a.avro", seed, 90)
    with path.open("rb") as stream:
        assert _ours(path) == ([repr(row) for row in fastavro.reader(stream)], True)
    columns, _ = avro_cells(path)
    assert {name: len(each.values) for name, each in columns.items()} == {
        name: len(values) for name, (_, values) in FIELDS.items()
    }


def test_a_file_without_rows_has_no_columns(tmp_path: Path) -> None:
    """Nor is it damaged."""
    assert avro_cells(written(tmp_path / "a.avro", 0, 0)) == ({}, True)


def test_what_is_damaged_is_damaged_to_both(tmp_path: Path) -> None:
    """Of blocks with any byte exchanged: the same rows come out, or an error, or bytes that are left over."""
    path = written(tmp_path / "a.avro", 1, 3)
    with path.open("rb") as stream:
        schema = fastavro.reader(stream).writer_schema
    with path.open("rb") as stream:
        (block,) = fastavro.block_reader(stream)
        body = block.bytes_.getvalue()
    random = np.random.default_rng(2)
    seen = set()
    for place in range(len(body)):
        spoiled = bytearray(body)
        spoiled[place] ^= int(random.integers(1, 256))
        told = _both(tmp_path / "b.avro", schema, bytes(spoiled))
        seen.add(told[0] if isinstance(told[0], str) else "read")
        assert told[0] == told[1], place
    assert seen == {"read", "damaged"}
    assert not avro_cells(_stored(tmp_path / "c.avro", schema, body + b"\0"))[1]


def _stored(path: Path, schema: Any, body: bytes) -> Path:
    """A file of one block of three rows, as it stands."""
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, [], codec="null", sync_marker=bytes(16))
        fastavro.schemaless_writer(stream, "long", 3)
        fastavro.schemaless_writer(stream, "long", len(body))
        stream.write(body + bytes(16))
    return path


def _both(path: Path, schema: Any, body: bytes) -> list[Any]:
    """What our columns and fastavro's rows say of such a block."""
    _stored(path, schema, body)
    told: list[Any] = []
    for read in (lambda: _ours(path), lambda: _theirs(path)):
        try:
            told.append(read())
        except Exception:  # whatever a decoder trips over
            told.append("damaged")
    return told


def _ours(path: Path) -> tuple[list[str], bool]:
    """Text, in which -0.0 is not 0.0."""
    columns, whole = avro_cells(path)
    cells = [[each.values[place] for place in each.place.tolist()] for each in columns.values()]
    return [repr(dict(zip(columns, row, strict=True))) for row in zip(*cells, strict=True)], whole


def _theirs(path: Path) -> tuple[list[str], bool]:
    with path.open("rb") as stream:
        (block,) = fastavro.block_reader(stream)
        return [repr(row) for row in block], not block.bytes_.read(1)
