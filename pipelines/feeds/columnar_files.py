"""Avro and Parquet files as Arrow batches. A damaged file is an InputError that names it.

Fields of records within records are columns by their path, with points between, as in ``customer.birth``; so the
schemas have no structs but in lists. Storage that fails while it is read is no InputError: a feed counts a damaged file
as read, and the rest of its rows as gone.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from kanonflow.pipelines.feeds.avro_plain import plain_column, plain_schema
from kanonflow.pipelines.feeds.stored_files import WHOLE, Cut, FilePart
from kanonflow.schemas.avro_schema import avro_to_arrow
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.files.storage import open_stored

ROWS_PER_BATCH = 16_384
ROWS_APART = 30 * ROWS_PER_BATCH
"""Rows of a Parquet file between cuts, where they are fewer bytes than those of other files."""
_SEARCHED = 1 << 16
_MARK = 16
"""Bytes between two blocks of an Avro file."""
LARGE_READ = 1 << 24
"""Bytes; whether a file has so many is asked before they are, for memory is made for them first."""
MOST_EMPTY_RECORDS = 1 << 20
"""Records of a block of fewer bytes than records; what says that it has more is damaged."""


class StorageError(Exception):
    """A file could not be read for now; it may be sound. The message names it."""

    exit_code = 3


class _Watched:
    """A stream that remembers whether reading it failed, which decoders report as if its bytes were wrong."""

    def __init__(self, path: str, stream: Any) -> None:
        self._path, self._stream = path, stream
        self._failure: Exception | None = None

    def read(self, *size: int) -> bytes:
        """Read. Raises EOFError, which is no failure of storage: no file has so many bytes, or fewer than none."""
        if size and (size[0] < -1 or (size[0] > LARGE_READ and size[0] > self._left())):
            raise EOFError("a length beyond the end of the file")
        return self._noting(self._stream.read, *size)

    def _left(self) -> int:
        """How many bytes are to come."""
        at = self._stream.tell()
        self._noting(self._stream.seek, 0, os.SEEK_END)
        end = self._stream.tell()
        self._noting(self._stream.seek, at)
        return int(end - at)

    def seek(self, *place: int) -> int:
        return self._noting(self._stream.seek, *place)

    def _noting(self, call: Callable[..., Any], *arguments: int) -> Any:
        try:
            return call(*arguments)
        except Exception as error:
            self._failure = error
            raise

    def blame_storage(self) -> None:
        """Raise StorageError if it is to blame."""
        if self._failure is not None:
            raise StorageError(
                f"{self._path}: reading failed ({type(self._failure).__name__}), try again"
            ) from self._failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> "_Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def avro_file_schema(path: str) -> pa.Schema:
    """The Arrow schema of an Avro file's records. Raises InputError."""
    return pa.schema([field for _, field in _leaves(_avro_schema(path))])


def _avro_schema(path: str) -> pa.Schema:
    schema = avro_writer_schema(path)
    try:
        return avro_to_arrow(schema)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _leaves(
    fields: Iterable[pa.Field], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], pa.Field]]:
    """The fields that are no structs, named by their paths, and the keys on the way to each."""
    for field in fields:
        keys = (*above, field.name)
        inner = [field.type.field(n) for n in range(field.type.num_fields)] if _is_struct(field.type) else []
        if inner:
            yield from _leaves(inner, keys)
        else:
            yield keys, field.with_name(".".join(keys))


def _is_struct(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.StructType)


def avro_writer_schema(path: str) -> dict[str, Any]:
    """The schema in the file's header, with its custom properties. Raises InputError: not an Avro file."""
    with _open(path) as stream:
        try:
            schema = fastavro.block_reader(stream).writer_schema
        except (OSError, MemoryError):
            raise
        except Exception as error:  # whatever the decoder trips over, the header is not one
            stream.blame_storage()
            raise InputError(f"{path}: not an Avro file ({type(error).__name__})") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InputError(f"{path}: the Avro file does not hold records")
    return schema


def avro_cuts(path: str, least: int) -> Iterator[Cut]:
    """Places between batches of ``read_avro``, at least so many bytes apart. Blocks are passed over, not read.

    None behind a place that is damaged, which is for who reads the file to say.
    """
    last, rows, at = 0, 0, 0
    with _open(path) as stream, contextlib.suppress(Exception):
        mark = _avro_header(stream)[-_MARK:]
        while True:
            at = stream.tell()
            if rows and at - last >= least:
                last, batches = at, -(-rows // ROWS_PER_BATCH)
                yield Cut(at, batches, batches * ROWS_PER_BATCH, batches * ROWS_PER_BATCH - rows)
            many, size = (int(fastavro.schemaless_reader(stream, "long", None)) for _ in range(2))  # type: ignore[call-overload]
            stream.seek(at := stream.tell() + size)
            if min(many, size) < 0 or stream.read(_MARK) != mark:
                return
            rows += many


def read_avro(path: str, columns: Sequence[str], part: FilePart = WHOLE) -> Iterator[pa.RecordBatch]:
    """The file's records in order, as batches of up to 16,384 rows of the ``columns``.

    part: between cuts of ``avro_cuts``; its batches are those that they are in the whole file.
    Raises InputError: the file is damaged or cut off. (A file that lost whole blocks at its end is a valid
    Avro file: the format does not say how many records there should be.)
    """
    return part.of(_avro_batches(path, columns, part.begin))


def _avro_batches(path: str, columns: Sequence[str], begin: Cut) -> Iterator[pa.RecordBatch]:
    leaves = _Leaves(path, columns)
    with _open(path) as stream:
        records: list[dict[str, Any]] = []
        source = stream
        if begin.at:
            source = _Continued(path, _avro_header(stream), stream)
            stream.seek(begin.at)
        blocks, skipped = _AvroBlocks(path, source, leaves.schema), begin.skipped
        for block in blocks.read():
            records.extend(block[skipped:])
            skipped = max(0, skipped - len(block))
            while len(records) >= ROWS_PER_BATCH:
                yield _record_batch(path, records[:ROWS_PER_BATCH], leaves, blocks.plain)
                del records[:ROWS_PER_BATCH]
        if records:
            yield _record_batch(path, records, leaves, blocks.plain)


def parquet_file_schema(path: str) -> pa.Schema:
    """The Arrow schema of a Parquet file. Raises InputError."""
    with _open(path) as stream:
        schema = pa.schema([field for _, field in _leaves(_parquet(path, stream).schema_arrow)])
    if len({*schema.names}) < len(schema.names):
        raise InputError(f"{path}: the Parquet file has two columns of one name; give each its own")
    return schema


def avro_blocks_behind(
    path: str, columns: Sequence[str], offsets: Sequence[int], rows: int = 1
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """Of each byte offset, the rows of the first block that begins behind it, each block once: (offset, batches).

    rows: and of those that follow it, until there are so many, or one that was read before.
    Nothing is read of what lies between. Raises InputError: the file is damaged there.
    """
    leaves = _Leaves(path, columns)
    seen: set[int] = set()
    with _open(path) as stream:
        header = _avro_header(stream)
        for offset in offsets:
            at = _behind(stream, header[-_MARK:], max(offset, len(header) - _MARK))
            if at in seen:
                continue
            blocks = _AvroBlocks(path, _Continued(path, header, stream), leaves.schema)
            reading, records = blocks.read(), list[Any]()
            while at not in seen and len(records) < rows:
                seen.add(at)
                records += next(reading, [])
                at = stream.tell()
            yield offset, [_record_batch(path, records, leaves, blocks.plain)] if records else []


def _avro_header(stream: _Watched) -> bytes:
    """The file's bytes up to the first block; there the stream stands."""
    fastavro.block_reader(stream)
    length = stream.tell()
    stream.seek(0)
    return bytes(stream.read(length))


def _behind(stream: _Watched, mark: bytes, offset: int) -> int:
    """Go to behind the next mark between blocks; where that is. At the file's end where there is none."""
    stream.seek(offset)
    data = b""
    while (at := data.find(mark)) < 0:
        more = stream.read(_SEARCHED)
        if not more:
            return offset + len(data)
        data += more
    stream.seek(offset + at + len(mark))
    return offset + at + len(mark)


class _Continued(_Watched):
    """A file's header, and then what follows the place where its stream stands."""

    def __init__(self, path: str, header: bytes, stream: _Watched) -> None:
        super().__init__(path, stream)
        self._header = BytesIO(header)

    def read(self, *size: int) -> bytes:
        return self._header.read(*size) or super().read(*size)


class RowGroup(NamedTuple):
    """rows: how many it has. size: bytes of the columns as they are stored."""

    rows: int
    size: int


def parquet_row_groups(path: str) -> tuple[RowGroup, ...]:
    """The row groups of a Parquet file. Raises InputError."""
    with _open(path) as stream:
        metadata = _parquet(path, stream).metadata
        return tuple(
            RowGroup(
                group.num_rows,
                sum(group.column(column).total_compressed_size for column in range(group.num_columns)),
            )
            for group in map(metadata.row_group, range(metadata.num_row_groups))
        )


def parquet_cuts(path: str, least: int, least_rows: int = ROWS_APART) -> Iterator[Cut]:
    """Places between batches of ``read_parquet`` at which row groups begin, or in the first rows of them.

    So many bytes or rows are between two; twice as many where batches do not begin with the group: the rows that
    belong to the batch before are then read twice. None where a column is a dictionary, for batches end where another
    begins. Raises InputError.
    """
    with _open(path) as stream:
        kinds = [kind for field in _parquet(path, stream).schema_arrow for kind in _innermost(field.type)]
    if any(isinstance(kind, pa.DictionaryType) for kind in kinds):
        return
    rows, size, since = 0, 0, 0
    for number, group in enumerate(parquet_row_groups(path)):
        batches = -(-rows // ROWS_PER_BATCH)
        skipped = batches * ROWS_PER_BATCH - rows
        share = max(size / least, (rows - since) / least_rows)
        if number and share >= (2 if skipped else 1):
            size, since = 0, rows
            yield Cut(number, batches, batches * ROWS_PER_BATCH, skipped)
        rows, size = rows + group.rows, size + group.size


def parquet_part(path: str, columns: Sequence[str], part: FilePart) -> Iterator[pa.RecordBatch]:
    """What is between cuts of ``parquet_cuts``, in the batches of the whole file. As ``read_parquet``."""
    if part == WHOLE:
        return read_parquet(path, columns)
    groups = range(part.begin.at, len(parquet_row_groups(path)))
    return part.of(_full_batches(read_parquet(path, columns, groups), part.begin.skipped))


def _full_batches(batches: Iterable[pa.RecordBatch], skipped: int) -> Iterator[pa.RecordBatch]:
    """The rows without the first ones, cut again into batches that are full, but for the last one."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        at = min(skipped, batch.num_rows)
        skipped -= at
        while at < batch.num_rows:
            held.append(batch.slice(at, ROWS_PER_BATCH - sum(each.num_rows for each in held)))
            at += held[-1].num_rows
            if sum(each.num_rows for each in held) == ROWS_PER_BATCH:
                yield held[0] if len(held) == 1 else pa.concat_batches(held)
                held = []
    if held:
        yield held[0] if len(held) == 1 else pa.concat_batches(held)


def read_parquet(
    path: str, columns: Sequence[str], groups: Sequence[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The file's rows in order, as batches of up to 16,384 rows of the ``columns``. Raises InputError.

    groups: only these row groups.
    """
    with _open(path) as stream:
        try:
            batches = _parquet(path, stream).iter_batches(
                ROWS_PER_BATCH, columns=list(columns), row_groups=None if groups is None else list(groups)
            )
            for batch in batches:
                # Arrow takes bytes for text that are none, and Python would fail at them much later.
                batch.validate(full=True)
                flat = _without_structs(batch, columns)
                _refuse_unknown_zones(path, flat.schema)
                yield flat
        except MemoryError:  # Arrow's is an ArrowException too
            raise
        except (pa.ArrowException, OSError):  # pyarrow reports damaged pages as OSError
            stream.blame_storage()
            raise InputError(
                f"{path}: the Parquet file is damaged or cut off, or holds text that is not UTF-8"
            ) from None


def _refuse_unknown_zones(path: str, schema: pa.Schema) -> None:
    """Raise InputError for a time zone that Arrow takes, and Python does not know where it writes a time as text."""
    for field in schema:
        for kind in _innermost(field.type):
            try:
                if getattr(kind, "tz", None) is not None:
                    pa.scalar(0, kind).as_py()
            except Exception:  # of whichever library looks zones up, or of a zone's name that is no text
                raise InputError(
                    f"{path}: field {field.name} has a time zone that is not known here"
                ) from None


def _innermost(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types of the values that a type is made of; of one that is made of no others itself."""
    if not kind.num_fields:
        yield kind
    for number in range(kind.num_fields):
        yield from _innermost(kind.field(number).type)


def _without_structs(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """The columns by their paths. What is within a null is null."""
    if not any(map(_is_struct, batch.schema.types)):
        return batch
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
    while structs := [
        name for name, array in arrays.items() if _is_struct(array.type) and array.type.num_fields
    ]:
        for name in structs:
            inner = arrays.pop(name)
            arrays |= {f"{name}.{inner.type.field(n).name}": array for n, array in enumerate(inner.flatten())}
    return pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))


class _Leaves:
    """The ``columns`` of an Avro file. keys: on the way to each in a record. Raises InputError."""

    def __init__(self, path: str, columns: Sequence[str]) -> None:
        leaves = {field.name: (keys, field) for keys, field in _leaves(_avro_schema(path))}
        self.keys = [leaves[name][0] for name in columns]
        self.schema = pa.schema([leaves[name][1] for name in columns])


class _AvroBlocks:
    """A file's records, block by block. plain: the fields that come as numbers (``avro_plain``), from the first on."""

    def __init__(self, path: str, stream: _Watched, schema: pa.Schema) -> None:
        self.plain: set[str] = set()
        self._path, self._stream = path, stream
        self._types = dict(zip(schema.names, schema.types, strict=True))

    def read(self) -> Iterator[list[Any]]:
        try:
            plain = None
            for block in fastavro.block_reader(self._stream):
                if plain is None:
                    plain, self.plain = plain_schema(block.writer_schema, self._types)
                if block.num_records > max(MOST_EMPTY_RECORDS, len(block.bytes_.getbuffer())):
                    raise ValueError("a block of more records than bytes")
                block.writer_schema = plain
                yield list(block)
        except (OSError, MemoryError):
            raise
        except Exception as error:  # whatever the decoder trips over, the file is damaged
            self._stream.blame_storage()
            raise InputError(
                f"{self._path}: the Avro file is damaged or cut off ({type(error).__name__})"
            ) from None


def _record_batch(
    path: str, records: list[dict[str, Any]], leaves: _Leaves, plain: set[str]
) -> pa.RecordBatch:
    arrays = []
    for keys, field in zip(leaves.keys, leaves.schema, strict=True):
        try:
            values: list[Any] = records
            for key in keys:
                values = [None if value is None else value[key] for value in values]
            make: Callable[[Any, pa.DataType], pa.Array] = plain_column if field.name in plain else pa.array
            if len(keys) > 1 and field.type == pa.uuid():
                values, make = [None if value is None else str(value) for value in values], plain_column
            arrays.append(make(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise InputError(
                f"{path}: field {field.name} holds values beyond its type {field.type}"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=leaves.schema)


def _parquet(path: str, stream: _Watched) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(stream)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last of a name that is no text
        stream.blame_storage()
        raise InputError(f"{path}: not a Parquet file, or cut off") from None


def _open(path: str) -> _Watched:
    return _Watched(path, open_stored(path))
