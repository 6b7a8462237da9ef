"""A release's Arrow columns -> the bytes of a Parquet file.

Equal rows give equal bytes under one version of pyarrow, whose name and version stand in every footer. Nothing depends
on a clock, on threads or on how the rows were cut into chunks before.

Beside rows and their types the file holds one key of metadata, the Avro schema that an Avro release carries in its
header. There is no Arrow schema, no note for pandas, and no statistics: of a window's rows they would help no reader.
"""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kanonflow.schemas.avro_schema import arrow_to_avro
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.release_format import SCHEMA_KEY
from kanonflow.transforms.columns.avro_encoding import EncodingError, avro_content, encode_rows

ROWS_PER_GROUP = 1 << 20
MAGIC = b"PAR1"
OPTIONS: Mapping[str, Any] = {
    "version": "2.6",
    "data_page_version": "1.0",
    "compression": "gzip",
    "compression_level": 6,
    "use_dictionary": True,
    "dictionary_pagesize_limit": 1 << 20,
    "data_page_size": 1 << 20,
    "write_batch_size": 1024,
    "write_statistics": False,
    "write_page_index": False,
    "write_page_checksum": False,
    "store_schema": False,
    "use_compliant_nested_type": True,
    "write_time_adjusted_to_utc": False,
}
"""Every option that shapes the bytes, so that another default of a later pyarrow changes nothing."""


def parquet_file(table: pa.Table, schema: Mapping[str, Any]) -> bytes:
    """A Parquet file with the rows of ``table``; equal arguments give equal bytes.

    Gzip is what the audit can take apart with Python alone; zstd is no smaller here.

    Args:
        table: the columns of ``schema`` in its order, in the types of ``release_arrow_schema``.
        schema: Avro schema of the rows.

    Raises:
        EncodingError: the columns are not those of the schema.
    """
    rows = _plain(table, schema)
    out = BytesIO()
    try:
        with pq.ParquetWriter(out, rows.schema, **OPTIONS) as writer:
            writer.write_table(rows, ROWS_PER_GROUP)
            writer.add_key_value_metadata({SCHEMA_KEY: json.dumps(schema)})
    except (pa.ArrowException, ValueError) as error:
        raise EncodingError(f"the rows do not fit their Parquet types ({type(error).__name__})") from None
    return out.getvalue()


def same_releases(one: bytes, other: bytes) -> bool:
    """Whether two files of a release, each Avro or Parquet, hold the same schema and the same rows in the same order.

    Looser than equal bytes: another version of pyarrow or build of zlib may spell the same rows otherwise, and a retry
    on an upgraded worker must not look like another release.
    """
    if one == other:
        return True
    try:
        return _content(one) == _content(other)
    except Exception:  # a file that does not decode is not the same as one that does
        return False


def _content(data: bytes) -> tuple[Any, bytes]:
    if not data.startswith(MAGIC):
        return avro_content(data)
    file = pq.ParquetFile(BytesIO(data))
    schema = json.loads(file.metadata.metadata[SCHEMA_KEY.encode()])
    return schema, b"".join(encode_rows(file.read(), schema))


def _plain(table: pa.Table, schema: Mapping[str, Any]) -> pa.Table:
    """The table in one chunk and without metadata, once its types are the schema's."""
    try:
        told = arrow_to_avro(table.schema, "rows")["fields"]
    except InputError as error:
        raise EncodingError(str(error)) from None
    types, expected = (
        [(field["name"], field["type"]) for field in each] for each in (told, schema["fields"])
    )
    if types != expected:
        own, right = dict(types), dict(expected)
        odd = sorted(name for name in own.keys() | right.keys() if own.get(name) != right.get(name))
        raise EncodingError(
            f"columns are not those of the schema: {', '.join(odd) or 'they stand in another order'}"
        )
    fields = [field.remove_metadata() for field in table.schema]
    columns = [column.combine_chunks() for column in table.columns]
    return pa.table(columns, schema=pa.schema(fields))
