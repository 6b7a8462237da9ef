"""What the rows of a file say, as one number: the same for a file that was converted, compressed or sorted.

Each cell is taken as canonical text, with the name of its field. A row's number is made of the sum of its cells'
digests, a file's is the sum of its rows', modulo 2^64. It is no checksum against who wants two files to be alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.feeds.read_files import Reading, read_batches
from kanonflow.pipelines.runs.input_content import InputContent
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy
from kanonflow.schemas.canonical_columns import read_column
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import CsvForm
from kanonflow.schemas.text_values import render_text
from kanonflow.transforms.files.storage import is_local
from kanonflow.transforms.release.cohorts import person_digests
from kanonflow.transforms.rows.classify import one_array
from kanonflow.transforms.rows.elements import RawBatch, from_ipc

MOST_BYTES = 1 << 30
"""Of larger files, and of those elsewhere, rows are not looked at before the run: 3 s of processor time a million."""
_PIECE_ROWS = 65_536


def with_rows(
    contents: Sequence[InputContent], bound: BoundPolicy, csv: CsvForm, reading: Reading = read_batches
) -> tuple[InputContent, ...]:
    """The same with digests of their rows, where no event id tells each row in runs that go on from this one."""
    if bound.policy.events_last:
        return tuple(contents)
    return tuple(
        replace(each, rows=_rows_digest(each, bound, csv, reading))
        if is_local(each.file.path) and each.file.size <= MOST_BYTES
        else each
        for each in contents
    )


def _rows_digest(content: InputContent, bound: BoundPolicy, csv: CsvForm, reading: Reading) -> str | None:
    """None: it has no rows, or cannot be read, which the run will say."""
    total, count = 0, 0
    try:
        for table in _tables(reading(content.file, bound.input_columns, csv)):
            rows = np.zeros(table.num_rows, dtype=np.uint64)
            for column in map(bound.column, bound.input_columns):
                rows += _cells(column, one_array(table.column(column.name)))
            total = (total + int(_mixed(rows).sum(dtype=np.uint64))) % (1 << 64)
            count += table.num_rows
    except InputError:
        return None
    return f"{count}:{total:016x}" if count else None


def _tables(batches: Iterable[RawBatch]) -> Iterator[pa.Table]:
    """The file in large pieces: what repeats in one is read once."""
    parts: list[pa.Table] = []
    for batch in batches:
        parts.append(from_ipc(batch.ipc))
        if sum(part.num_rows for part in parts) >= _PIECE_ROWS:
            yield pa.concat_tables(parts)
            parts = []
    if parts:
        yield pa.concat_tables(parts)


def _cells(column: BoundColumn, raw: pa.Array) -> NDArray[np.uint64]:
    """A digest of each cell, uint64 (n,): one for each value, whatever way it was written in. O(distinct cells)."""
    if column.from_text:
        coded = raw.dictionary_encode(null_encoding="encode")
        if 2 * len(coded.dictionary) < len(raw):
            return _cells(column, coded.dictionary)[np.asarray(coded.indices)]
    values, _ = read_column(column, raw, None)
    encoded = render_text(values).dictionary_encode(null_encoding="encode")
    digests = person_digests(
        ["\0" if text is None else text for text in encoded.dictionary.to_pylist()],
        hashlib.sha256(column.name.encode()).digest(),
    )
    return digests[np.asarray(encoded.indices)]


def _mixed(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finish: without it cells could change rows."""
    rows = (rows ^ (rows >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    rows = (rows ^ (rows >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return rows ^ (rows >> np.uint64(31))
