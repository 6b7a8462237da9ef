"""One file of ``release/``, Avro or Parquet, as the audit reads it: its fields, its epoch, its rows, and its faults."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from kanonflow.pipelines.audit.files.avro_cells import Cells, avro_cells, cells_of_rows
from kanonflow.pipelines.audit.files.header import header_faults
from kanonflow.pipelines.audit.files.parquet_header import other_writer, parquet_faults
from kanonflow.schemas.avro_schema import PROPERTY, release_arrow_schema, release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.release_format import SCHEMA_KEY, SUFFIXES, ReleaseFormat

Row = dict[str, Any]


def is_release(path: Path) -> bool:
    """Whether a run writes releases under such names."""
    return path.is_file() and path.suffix in SUFFIXES and not path.name.startswith(".")


def release_path(folder: Path, release_id: str) -> Path:
    """The file of a release, in whatever format it is."""
    paths = [folder / f"{release_id}{suffix}" for suffix in SUFFIXES]
    return next((path for path in paths if path.is_file()), paths[0])


def release_reader(path: Path) -> ReleaseFile:
    """What reads the file; by its name."""
    return _READERS[path.suffix](path)


class ReleaseFile:
    """What the others change: an Avro file. Methods raise OSError, and what a decoder trips over."""

    kind, article = "Avro", "an"

    def __init__(self, path: Path) -> None:
        self._path = path

    def fields(self) -> list[tuple[str, Any]]:
        """Names and types that the file has."""
        with self._path.open("rb") as stream:
            return list(_fields(fastavro.reader(stream).writer_schema))

    def expected(self, bound: BoundPolicy) -> list[tuple[str, Any]]:
        """Names and types that it must have."""
        return list(_fields(release_avro_schema(bound)))

    def epoch(self) -> str | None:
        """The epoch that a release names among its properties; None: it names none, or something else in its place."""
        with self._path.open("rb") as stream:
            return _epoch_in(fastavro.reader(stream).writer_schema)

    def columns(self) -> tuple[dict[str, Cells], bool]:
        """The rows as columns, none where there are none, and whether they use up every block's bytes."""
        return avro_cells(self._path)

    def faults(self, bound: BoundPolicy, epoch: str | None) -> Iterator[str]:
        """What stands beside the rows and should not."""
        return header_faults(self._path, _of_epoch(release_avro_schema(bound), epoch))

    def elsewhere(self) -> str | None:
        """Which other pyarrow wrote it, so that its pages were not compared byte by byte."""
        return None

    def content(self, bound: BoundPolicy) -> bytes:
        """The Avro encoding of the rows, one after the other, which a matching record vouches for."""
        with self._path.open("rb") as stream:
            return b"".join(block.bytes_.getvalue() for block in fastavro.block_reader(stream))


class _Parquet(ReleaseFile):
    kind, article = "Parquet", "a"

    def fields(self) -> list[tuple[str, Any]]:
        return _shapes(self._file().schema_arrow)

    def expected(self, bound: BoundPolicy) -> list[tuple[str, Any]]:
        return _shapes(release_arrow_schema(bound))

    def epoch(self) -> str | None:
        told = (self._file().metadata.metadata or {}).get(SCHEMA_KEY.encode(), b"")
        try:
            return _epoch_in(json.loads(told))
        except ValueError:
            return None

    def columns(self) -> tuple[dict[str, Cells], bool]:
        # That they use up the pages is seen in ``faults``.
        return cells_of_rows(self._table.to_pylist()), True

    def faults(self, bound: BoundPolicy, epoch: str | None) -> Iterator[str]:
        schema = release_arrow_schema(bound)
        rows = pa.table([self._table.column(field.name).cast(field.type) for field in schema], schema=schema)
        return parquet_faults(self._data, rows, _of_epoch(release_avro_schema(bound), epoch))

    def elsewhere(self) -> str | None:
        return other_writer(self._data)

    def content(self, bound: BoundPolicy) -> bytes:
        return encoded(release_avro_schema(bound), self._table.to_pylist())

    @cached_property
    def _data(self) -> bytes:
        return self._path.read_bytes()

    @cached_property
    def _table(self) -> pa.Table:
        return self._file().read()

    def _file(self) -> pq.ParquetFile:
        return pq.ParquetFile(io.BytesIO(self._data))


_READERS = {ReleaseFormat.AVRO.suffix: ReleaseFile, ReleaseFormat.PARQUET.suffix: _Parquet}


def encoded(schema: Mapping[str, Any], rows: Sequence[Row]) -> bytes:
    """Rows in the Avro encoding of a schema."""
    parsed, out = fastavro.parse_schema(dict(schema)), io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(out, parsed, row)
    return out.getvalue()


def _epoch_in(schema: Any) -> str | None:
    told = schema.get(PROPERTY) if isinstance(schema, Mapping) else None
    epoch = told.get("epoch") if isinstance(told, Mapping) else None
    return epoch if isinstance(epoch, str) and re.fullmatch("[0-9a-f]{16}", epoch) else None


def _of_epoch(schema: Mapping[str, Any], epoch: str | None) -> Mapping[str, Any]:
    """The schema that the policy gives, with the epoch that a release names."""
    return schema if epoch is None else {**schema, PROPERTY: {**schema[PROPERTY], "epoch": epoch}}


def _fields(schema: Any) -> Iterator[tuple[str, Any]]:
    for field in schema.get("fields", ()) if isinstance(schema, Mapping) else ():
        yield field["name"], _shape(field["type"])


def _shape(kind: Any) -> Any:
    """An Avro type without names of types, documentation and properties of our own."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, Sequence):
        return tuple(_shape(branch) for branch in kind)
    if kind["type"] == "record":
        return "record", tuple(_fields(kind))
    if kind["type"] == "array":
        return "array", _shape(kind["items"])
    logical = tuple(kind.get(key) for key in ("logicalType", "precision", "scale"))
    return (kind["type"], *logical) if any(part is not None for part in logical) else _shape(kind["type"])


def _shapes(schema: pa.Schema) -> list[tuple[str, Any]]:
    return [(field.name, _arrow_shape(field)) for field in schema]


def _arrow_shape(field: pa.Field) -> Any:
    """An Arrow type and whether it may be null; Parquet has names of its own for the items of lists."""
    kind: Any = str(field.type)
    if pa.types.is_struct(field.type):
        kind = "record", tuple((part.name, _arrow_shape(part)) for part in field.type)
    elif pa.types.is_list(field.type):
        kind = "array", _arrow_shape(field.type.value_field)
    return kind, field.nullable
