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


LONG_ONE = b"\x82" + b"\x80" * 8 + b"\x00"
"""One, in ten bytes."""
LISTED = {"type": "array", "items": ["null", "double"]}
SPELT = {"type": "record", "name": "Row", "fields": [
    {"name": name, "type": kind} for name, kind in (("list", LISTED), ("word", "string"), ("whole", "long"))
]}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (b"\x02\x02" + bytes(8) + b"\x00" + b"\x02c" + b"\x08", ("[0.0]", "'c'", "4")),
        # A list whose count is negative says how many bytes it has; nobody asks whether they are as many.
        (b"\x01\x12\x02" + bytes(8) + b"\x00" + b"\x02c" + b"\x08", ("[0.0]", "'c'", "4")),
        (b"\x01\xfe\x01\x02" + bytes(8) + b"\x00" + b"\x02c" + b"\x08", ("[0.0]", "'c'", "4")),
        # Two blocks of one list, and numbers in more bytes than they need.
        (b"\x02\x00" * 2 + b"\x00" + LONG_ONE + b"c" + b"\x08", ("[None, None]", "'c'", "4")),
        (LONG_ONE + LONG_ONE + bytes(8) + b"\x00" + b"\x02c" + LONG_ONE, ("[0.0]", "'c'", "1")),
        # No such branch, a size below nothing, sizes and counts beyond the block, and numbers that do not end.
        (b"\x02\x04\x00\x02c\x08", None),
        (b"\x00\x01\x08", None),
        (b"\x00\x7e\x08", None),
        (b"\x00" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"c\x08", None),
        (b"\x00" + b"\x82" + b"\x80" * 9 + b"\x02" + b"c\x08", None),
        (b"\x7e\x00\x00\x02c\x08", None),
        (b"\x00\x02c\x80", None),
    ],
)
def test_what_a_row_may_be_spelt_as(tmp_path: Path, row: bytes, told: tuple[str, ...] | None) -> None:
    """Every spelling of lists and numbers is read, and what says less or more than there is is damaged."""
    path = _stored(tmp_path / "a.avro", SPELT, row * 3)
    if told is None:
        with pytest.raises(ValueError, match="a block that ends within a row"):
            avro_cells(path)
    else:
        columns, whole = avro_cells(path)
        assert whole
        assert tuple(repr(*each.values) for each in columns.values()) == told
        assert all((each.place == 0).all() and len(each.place) == 3 for each in columns.values())


@pytest.mark.parametrize(
    ("rows", "body"), [(0, b""), (-1, b""), (0, b"\x00\x02c\x08"), (2**40, b"\x00\x02c\x08")]
)
def test_a_block_without_as_many_rows_as_it_says_is_damaged(tmp_path: Path, rows: int, body: bytes) -> None:
    """Of no rows, of less than none, and of more than there are bytes for, for which no memory is asked."""
    with pytest.raises(ValueError, match="ends before its rows" if rows > 0 else "ends elsewhere"):
        avro_cells(_stored(tmp_path / "a.avro", SPELT, body, rows))


def _stored(path: Path, schema: Any, body: bytes, rows: int = 3) -> Path:
    """A file of one block of so many rows, as it stands."""
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, [], codec="null", sync_marker=bytes(16))
        fastavro.schemaless_writer(stream, "long", rows)
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
