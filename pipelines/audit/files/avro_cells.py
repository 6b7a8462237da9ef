"""The rows of an Avro file as columns in which each distinct cell is read once.

Most rows of a release repeat the box of the row before, byte by byte, and most of their payload stands in others. Where
a field ends is told by its type alone; what stands there is for fastavro to read, all distinct cells of a field in one
call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import numpy as np

from kanonflow.pipelines.audit.files.avro_walk import type_tree, walk


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

    O(bytes), and O(distinct cells) in fastavro. Raises ValueError, KeyError or what fastavro raises: it is damaged.
    """
    whole = True
    with path.open("rb") as stream:
        reader = fastavro.block_reader(stream)
        schema: Any = reader.writer_schema
        form = _form(json.dumps(schema["fields"]))
        books: list[dict[bytes, int]] = [{} for _ in form.names]
        places: list[list[np.ndarray]] = [[] for _ in books]
        for block in reader:
            data = block.bytes_.getvalue()
            walked = walk(data, block.num_records, form.tree)
            whole &= walked.stop == len(data)
            for field, (book, parts) in enumerate(zip(books, places, strict=True)):
                spans = (each[field, : walked.counts[field]].tolist() for each in (walked.begin, walked.end))
                cells = (data[start:stop] for start, stop in zip(*spans, strict=True))
                numbers = [book.setdefault(cell, len(book)) for cell in cells]
                parts.append(np.array(numbers, np.int64)[walked.place[field]])
    columns = zip(form.names, form.lists, books, places, strict=True)
    return {
        name: Cells(_values(kind, list(book)), np.concatenate(parts))
        for name, kind, book, parts in columns
        if parts
    }, whole


class _Form(NamedTuple):
    """The fields of a schema: names; lists: of each the type of a list of it; tree: of a row, as of ``type_tree``."""

    names: list[str]
    lists: list[Any]
    tree: np.ndarray


@lru_cache(maxsize=8)
def _form(fields: str) -> _Form:
    """Of fields as JSON, which those of all releases of a run are alike in."""
    row = json.loads(fields)
    lists = [fastavro.parse_schema({"type": "array", "items": field["type"]}) for field in row]
    return _Form([field["name"] for field in row], lists, type_tree({"type": "record", "fields": row}))


def _values(kind: Any, cells: list[bytes]) -> list[Any]:
    """Cells of one field, read as one list of them."""
    out = BytesIO()
    fastavro.schemaless_writer(out, "long", len(cells))
    stream = BytesIO(out.getvalue() + b"".join(cells) + b"\0")
    values: Any = fastavro.schemaless_reader(stream, kind, None)
    if stream.read(1) or len(values) != len(cells):
        raise ValueError("a cell that ends elsewhere than its type says")
    return list(values)
