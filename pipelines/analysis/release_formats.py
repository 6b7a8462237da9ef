"""How the rows of a release are read from its file, an object a format: what else asks for one asks the object.

Errors are those of the decoders, whatever they are; who knows the file's path says them in words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import fastavro
import pyarrow.parquet

from kanonflow.schemas.errors import InputError
from kanonflow.schemas.release_format import SCHEMA_KEY, ReleaseFormat

BATCH_ROWS = 65_536


class FileReader(Protocol):
    """One format. kind, article: as a sentence names such a file."""

    kind: str
    article: str

    def schema(self, stream: BinaryIO) -> Any:
        """The Avro schema that the file's head gives; nothing is checked."""

    def count(self, stream: BinaryIO) -> int:
        """How many rows there are, without reading them."""

    def batches(self, stream: BinaryIO, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Rows of a part of the file, and their columns of some names: lists or Arrow arrays."""

    def some(self, stream: BinaryIO, most: int) -> list[Mapping[str, Any]]:
        """About so many rows, evenly over all: they stand in the order of their boxes."""


class _Avro:
    kind, article = "Avro", "an"

    def schema(self, stream: BinaryIO) -> Any:
        return json.loads(fastavro.reader(stream).metadata["avro.schema"])

    def count(self, stream: BinaryIO) -> int:
        return sum(block.num_records for block in fastavro.block_reader(stream))

    def batches(self, stream: BinaryIO, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for block in fastavro.block_reader(stream):
            rows: list[Any] = list(block)
            yield len(rows), {name: [row[name] for row in rows] for name in names}

    def some(self, stream: BinaryIO, most: int) -> list[Mapping[str, Any]]:
        """Of whole blocks, which are counted without reading them."""
        counts = [block.num_records for block in fastavro.block_reader(stream)]
        blocks = max(1, round(len(counts) * min(1.0, most / max(sum(counts), 1))))
        taken = {number * len(counts) // blocks for number in range(blocks)} if counts else set()
        stream.seek(0)
        return [
            record
            for number, block in enumerate(fastavro.block_reader(stream))
            if number in taken
            for record in block
            if isinstance(record, dict)
        ]


class _Parquet:
    kind, article = "Parquet", "a"

    def schema(self, stream: BinaryIO) -> Any:
        told = pyarrow.parquet.read_metadata(stream).metadata or {}
        return json.loads(told.get(SCHEMA_KEY.encode(), b"null"))

    def count(self, stream: BinaryIO) -> int:
        return int(pyarrow.parquet.read_metadata(stream).num_rows)

    def batches(self, stream: BinaryIO, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for batch in pyarrow.parquet.ParquetFile(stream).iter_batches(BATCH_ROWS):
            yield batch.num_rows, {name: batch.column(name) for name in names}

    def some(self, stream: BinaryIO, most: int) -> list[Mapping[str, Any]]:
        """A row group at a time."""
        file = pyarrow.parquet.ParquetFile(stream)
        count = file.metadata.num_rows
        taken = min(count, most)
        places = [number * count // taken for number in range(taken)]
        rows: list[Mapping[str, Any]] = []
        first = 0
        for number in range(file.num_row_groups):
            last = first + file.metadata.row_group(number).num_rows
            if inside := [place - first for place in places if first <= place < last]:
                rows += file.read_row_group(number).take(inside).to_pylist()
            first = last
        return rows


_READERS: Mapping[str, FileReader] = {
    ReleaseFormat.AVRO.suffix: _Avro(),
    ReleaseFormat.PARQUET.suffix: _Parquet(),
}


def reader_of(path: Path) -> FileReader:
    """What reads the file, by its name."""
    return _READERS[path.suffix]


def no_release(path: Path, error: Exception) -> InputError:
    """That its head is none."""
    reader = reader_of(path)
    return InputError(f"{path}: not {reader.article} {reader.kind} file, or damaged ({type(error).__name__})")


def damaged(path: Path, error: Exception) -> InputError:
    """That its rows cannot be decoded, or read."""
    kind = reader_of(path).kind
    if not isinstance(error, OSError):
        return InputError(f"{path}: a damaged {kind} file ({type(error).__name__})")
    # Arrow says OSError, without a number, of what it cannot decode.
    return InputError(
        f"{path}: {f'cannot be read ({error.strerror})' if error.errno else f'a damaged {kind} file'}"
    )
