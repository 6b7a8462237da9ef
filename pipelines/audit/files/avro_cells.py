"""The rows of an Avro file as columns in which each distinct cell is read once.

Most rows of a release repeat the box of the row before, byte by byte, and most of their payload stands in others. Where
a field ends is told by its type alone; what stands there is for fastavro to read, all distinct cells of a field in one
call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np

Ending = Callable[[bytes, int], int]
"""Where a value that begins at a place ends."""


class Cells(NamedTuple):
    """A column. values: its cells, each once by its bytes, at least. place: int64 (m,), which of them a row holds."""

    values: list[Any]
    place: np.ndarray


def cells_of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Cells]:
    """Columns of rows, nothing of which is taken for equal."""
    place = np.arange(len(rows))
    return {name: Cells([row[name] for row in rows], place) for name in (rows[0] if rows else ())}


def avro_cells(path: Path) -> tuple[dict[str, Cells], bool]:
    """The columns of a file by name, none of a file without rows, and whether they use up every block's bytes.

    O(bytes), and O(distinct cells) in fastavro. Raises ValueError, IndexError or what fastavro raises: it is damaged.
    """
    columns, whole = _Columns(), True
    with path.open("rb") as stream:
        reader = fastavro.block_reader(stream)
        schema: Any = reader.writer_schema
        for block in reader:
            whole &= columns.take(block.bytes_.getvalue(), block.num_records, schema)
    return columns.read(), whole


class _Columns:
    """The fields up to the last that is a record or list are one *front*: it is looked at as a whole first."""

    def __init__(self) -> None:
        self._schema: Any = None

    def take(self, data: bytes, rows: int, schema: Any) -> bool:
        """The rows of a block; whether they use it up."""
        if self._schema is None:
            self._begin(schema)
        at, front, number = 0, b"", -1
        ends, tail, books, places = self._ends, self._tail, self._books, self._places
        for _ in range(rows):
            if number < 0 or not data.startswith(front, at):
                start = at
                for field in self._front:
                    stop = ends[field](data, at)
                    places[field].append(books[field].setdefault(data[at:stop], len(books[field])))
                    at = stop
                front, number = data[start:at], len(places[0]) - 1
            else:
                at += len(front)
            self._front_of.append(number)
            for field in tail:
                stop = ends[field](data, at)
                book = books[field]
                places[field].append(book.setdefault(data[at:stop], len(book)))
                at = stop
        if at > len(data):
            raise ValueError("a block that ends within a row")
        return at == len(data)

    def read(self) -> dict[str, Cells]:
        """All that was taken."""
        if self._schema is None:
            return {}
        fronts = np.array(self._front_of, np.int64)
        columns = {}
        for number, field in enumerate(self._schema["fields"]):
            place = np.array(self._places[number], np.int64)
            values = _values(self._schema, field, self._books[number])
            columns[field["name"]] = Cells(values, place[fronts] if number in self._front else place)
        return columns

    def _begin(self, schema: Any) -> None:
        self._schema = schema
        kinds = [field["type"] for field in schema["fields"]]
        self._ends = [_ending(kind) for kind in kinds]
        nested = [number for number, kind in enumerate(kinds) if _is_nested(kind)]
        split = max(nested, default=0) + 1
        self._front, self._tail = range(split), range(split, len(kinds))
        self._books: list[dict[bytes, int]] = [{} for _ in kinds]
        self._places: list[list[int]] = [[] for _ in kinds]
        self._front_of: list[int] = []


def _values(schema: Mapping[str, Any], field: Mapping[str, Any], cells: Iterable[bytes]) -> list[Any]:
    """Cells of one field, read as one list of them."""
    stored = list(cells)
    kind = {"type": "array", "items": field["type"]}
    out = BytesIO()
    fastavro.schemaless_writer(out, "long", len(stored))
    stream = BytesIO(out.getvalue() + b"".join(stored) + b"\0")
    values: Any = fastavro.schemaless_reader(stream, kind, None)
    if stream.read(1) or len(values) != len(stored):
        raise ValueError("a cell that ends elsewhere than its type says")
    return list(values)


def _is_nested(kind: Any) -> bool:
    branches = kind if isinstance(kind, list) else [kind]
    return any("fields" in each or "items" in each for each in branches if isinstance(each, Mapping))


def _ending(kind: Any) -> Ending:
    """Where a value of an Avro type ends. Raises KeyError: releases have no such type."""
    if isinstance(kind, list):
        return _union([_ending(branch) for branch in kind])
    if not isinstance(kind, Mapping):
        return _ENDINGS[kind]
    if fields := kind.get("fields"):
        return _record([_ending(field["type"]) for field in fields])
    return _array(_ending(kind["items"])) if "items" in kind else _ending(kind["type"])


def _fixed(size: int) -> Ending:
    return lambda _, at: at + size


def _union(branches: Sequence[Ending]) -> Ending:
    def union(data: bytes, at: int) -> int:
        byte = data[at]
        branch, at = (byte >> 1, at + 1) if byte < 0x80 else _long(data, at)
        if byte & 1:
            raise ValueError("a union without such a branch")
        return branches[branch](data, at)

    return union


def _record(fields: Sequence[Ending]) -> Ending:
    def record(data: bytes, at: int) -> int:
        for field in fields:
            at = field(data, at)
        return at

    return record


def _array(item: Ending) -> Ending:
    def array(data: bytes, at: int) -> int:
        while True:
            count, at = _long(data, at)
            if count < 0:
                count, at = -count, _long(data, at)[1]
            if not count:
                return at
            for _ in range(count):
                at = item(data, at)
                if at > len(data):
                    raise ValueError("a block that ends within a list")

    return array


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at + 1


def _sized(data: bytes, at: int) -> int:
    byte = data[at]
    size, at = (byte >> 1, at + 1) if byte < 0x80 else _long(data, at)
    if byte & 1:
        raise ValueError("a size below nothing")
    return at + size


_ENDINGS: dict[str, Ending] = {
    "null": _fixed(0),
    "boolean": _fixed(1),
    "float": _fixed(4),
    "double": _fixed(8),
    "int": lambda data, at: _long(data, at)[1],
    "long": lambda data, at: _long(data, at)[1],
    "string": _sized,
    "bytes": _sized,
}
