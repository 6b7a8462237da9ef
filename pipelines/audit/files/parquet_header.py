"""What stands in a Parquet file besides its rows: footer, schema, pages. All of it follows from policy and rows.

A file that readers take for a release may carry more than they show: keys of metadata, statistics, values in a
dictionary that no row has, bytes between pages. So its rows are written again, as pyarrow writes them, and the file
must be that one, byte by byte. Where another pyarrow wrote it, whose bytes this one cannot make, what pyarrow tells of
its footer must be the same, and every byte must be of a page; what stands in these is then not checked, and is said so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kanonflow.schemas.release_format import SCHEMA_KEY

_WRITER = re.compile(r"parquet-cpp-arrow version (\d{1,3}\.\d{1,2}\.\d{1,2})")
_ROWS_PER_GROUP = 1 << 20
_ENDS = 12
"""Bytes of a file beside pages and footer: its mark twice, and the footer's length."""


def other_writer(data: bytes) -> str | None:
    """The version of the pyarrow that wrote a Parquet file, by its footer, where it is not this one."""
    found = _WRITER.fullmatch(str(_footer(data).created_by))
    return None if found is None or found[1] == pa.__version__ else found[1]


def parquet_faults(data: bytes, rows: pa.Table, schema: Mapping[str, Any]) -> Iterator[str]:
    """What of a Parquet file is not what its rows and ``schema`` give. Never a value from the file.

    rows: of the file, in the release's columns and types. schema: the Avro schema of the rows. O(bytes).
    """
    again = _written_again(rows, schema)
    if data == again:
        return
    footer = _footer(data)
    faults = list(_key_faults(footer, schema))
    if _WRITER.fullmatch(str(footer.created_by)) is None:
        faults.append("a footer that names another writer than pyarrow")
    yield from faults
    if faults:
        return
    version = other_writer(data)
    if version is None:
        yield "other bytes than pyarrow writes of its rows: footer, pages or what stands between them say more"
    elif _told(footer) != _told(_footer(again)) or _stored(footer) + footer.serialized_size + _ENDS != len(
        data
    ):
        yield (
            f"written by pyarrow {version}, which does not write these rows as {pa.__version__} does: audit with that"
            " version"
        )


def _footer(data: bytes) -> pq.FileMetaData:
    return pq.ParquetFile(BytesIO(data)).metadata


def _written_again(rows: pa.Table, schema: Mapping[str, Any]) -> bytes:
    out = BytesIO()
    plain = pa.table([column.combine_chunks() for column in rows.columns], schema=rows.schema)
    with pq.ParquetWriter(
        out,
        plain.schema,
        version="2.6",
        data_page_version="1.0",
        compression="gzip",
        compression_level=6,
        use_dictionary=True,
        dictionary_pagesize_limit=1 << 20,
        data_page_size=1 << 20,
        write_batch_size=1024,
        write_statistics=False,
        write_page_index=False,
        write_page_checksum=False,
        store_schema=False,
        use_compliant_nested_type=True,
        write_time_adjusted_to_utc=False,
    ) as writer:
        writer.write_table(plain, _ROWS_PER_GROUP)
        writer.add_key_value_metadata({SCHEMA_KEY: json.dumps(schema)})
    return out.getvalue()


def _key_faults(footer: pq.FileMetaData, schema: Mapping[str, Any]) -> Iterator[str]:
    told = dict(footer.metadata or {})
    value = told.pop(SCHEMA_KEY.encode(), None)
    if told or value is None:
        yield "a footer with other keys than the schema's"
    try:
        same = value is not None and json.loads(value) == json.loads(json.dumps(schema))
    except ValueError:
        same = False
    if not same:
        yield "a schema whose names, documentation or properties are not those that the policy gives"
    elif value != json.dumps(schema).encode():
        yield "a schema that says the right things in another form, which may carry others"


def _chunks(footer: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for group in range(footer.num_row_groups):
        for column in range(footer.num_columns):
            yield footer.row_group(group).column(column)


def _told(footer: pq.FileMetaData) -> list[Any]:
    """What pyarrow tells of a footer, but for who wrote it, and for positions and sizes that compression decides."""
    columns = [str(footer.schema.column(place)) for place in range(footer.num_columns)]
    groups = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    chunks = [
        (
            *(
                chunk.physical_type,
                chunk.path_in_schema,
                chunk.compression,
                chunk.encodings,
                chunk.num_values,
            ),
            *(
                chunk.is_stats_set,
                chunk.has_column_index,
                chunk.has_offset_index,
                chunk.total_uncompressed_size,
            ),
        )
        for chunk in _chunks(footer)
    ]
    return [footer.format_version, str(footer.schema.to_arrow_schema()), columns, groups, chunks]


def _stored(footer: pq.FileMetaData) -> int:
    return sum(chunk.total_compressed_size for chunk in _chunks(footer))
