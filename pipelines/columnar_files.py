"""Avro and Parquet files as Arrow batches. A damaged file is an InputError that names it."""

from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from kanonflow.schemas.avro_schema import avro_to_arrow
from kanonflow.schemas.errors import InputError

ROWS_PER_BATCH = 16_384


def avro_file_schema(path: str) -> pa.Schema:
    """The Arrow schema of an Avro file's records. Raises InputError."""
    schema = avro_writer_schema(path)
    try:
        return avro_to_arrow(schema)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def avro_writer_schema(path: str) -> dict[str, Any]:
    """The schema in the file's header, with its custom properties. Raises InputError: not an Avro file."""
    with _open(path) as stream:
        try:
            schema = fastavro.block_reader(stream).writer_schema
        except OSError:
            raise
        except Exception as error:  # whatever the decoder trips over, the header is not one
            raise InputError(f"{path}: not an Avro file ({type(error).__name__})") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise InputError(f"{path}: the Avro file does not hold records")
    return schema


def read_avro(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The file's records in order, as batches of up to 16,384 rows of the ``columns``.

    Raises InputError: the file is damaged or cut off. (A file that lost whole blocks at its end is a valid
    Avro file: the format does not say how many records there should be.)
    """
    full = avro_file_schema(path)
    schema = pa.schema([full.field(name) for name in columns])
    with _open(path) as stream:
        records: list[dict[str, Any]] = []
        for block in _avro_blocks(path, stream):
            records.extend(block)
            while len(records) >= ROWS_PER_BATCH:
                yield _record_batch(path, records[:ROWS_PER_BATCH], schema)
                del records[:ROWS_PER_BATCH]
        if records:
            yield _record_batch(path, records, schema)


def parquet_file_schema(path: str) -> pa.Schema:
    """The Arrow schema of a Parquet file. Raises InputError."""
    with _open(path) as stream:
        return _parquet(path, stream).schema_arrow.remove_metadata()


def read_parquet(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The file's rows in order, as batches of up to 16,384 rows of the ``columns``. Raises InputError."""
    with _open(path) as stream:
        try:
            yield from _parquet(path, stream).iter_batches(ROWS_PER_BATCH, columns=list(columns))
        except (pa.ArrowException, OSError):  # pyarrow reports damaged pages as OSError
            raise InputError(f"{path}: the Parquet file is damaged or cut off") from None


def _avro_blocks(path: str, stream: Any) -> Iterator[list[Any]]:
    try:
        for block in fastavro.block_reader(stream):
            yield list(block)
    except OSError:
        raise
    except Exception as error:  # whatever the decoder trips over, the file is damaged
        raise InputError(f"{path}: the Avro file is damaged or cut off ({type(error).__name__})") from None


def _record_batch(path: str, records: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        try:
            arrays.append(pa.array([record[field.name] for record in records], field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise InputError(
                f"{path}: field {field.name} holds values beyond its type {field.type}"
            ) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _parquet(path: str, stream: Any) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(stream)
    except (pa.ArrowException, OSError):
        raise InputError(f"{path}: not a Parquet file, or cut off") from None


def _open(path: str) -> Any:
    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
