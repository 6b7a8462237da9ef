"""What stands in a Parquet file besides its rows: footer, schema, pages. All of it follows from policy and rows.

A file that readers take for a release may carry more than they show: keys of metadata, statistics, values in a
dictionary that no row has, bytes between pages. So its rows are written again, as pyarrow writes them, and the file
must be that one: byte by byte, or, when another build of zlib compressed it or another pyarrow wrote the same, its
footer and page by page.

Not compared: which of the many compressed forms of the same bytes was chosen, and the number of pyarrow's version.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kanonflow.schemas.release_format import SCHEMA_KEY

Struct = dict[int, tuple[int, Any]]
"""A struct of Thrift's compact protocol: by a field's number its kind (of a list, also its elements') and value."""

_MAGIC = b"PAR1"
_WRITER = re.compile(rb"parquet-cpp-arrow version (\d{1,3}\.\d{1,2}\.\d{1,2})")
_GZIP = 31
"""Window bits with which zlib reads a gzip stream with its head and checksum."""
_ROWS_PER_GROUP = 1 << 20
_TEXT, _LIST = 8, 9

# Numbers of fields in parquet.thrift.
_ROW_GROUPS, _KEYS, _CREATED_BY = 4, 5, 6
_COLUMNS, _BYTES, _GROUP_OFFSET, _GROUP_STORED = 1, 2, 5, 6
_CHUNK_OFFSET, _CHUNK = 2, 3
_UNCOMPRESSED, _STORED, _DATA_AT, _DICTIONARY_AT = 6, 7, 9, 11
_PAGE_SIZE, _PAGE_STORED = 2, 3


@dataclass(frozen=True)
class ParquetPage:
    """A page. at: where it begins; head: bytes of its header; told: the header; stored: its bytes as they stand."""

    at: int
    head: int
    told: Struct
    stored: bytes


@dataclass(frozen=True)
class ParquetParts:
    """A file taken apart: nothing of it is left over."""

    footer: Struct
    pages: tuple[ParquetPage, ...]


def parquet_faults(data: bytes, rows: pa.Table, schema: Mapping[str, Any]) -> Iterator[str]:
    """What of a Parquet file is not what its rows and ``schema`` give. Never a value from the file.

    rows: of the file, in the release's columns and types. schema: the Avro schema of the rows. O(bytes).
    """
    again = _written_again(rows, schema)
    if data == again:
        return
    try:
        file = _take_apart(data)
    except (IndexError, ValueError):
        yield "a damaged Parquet footer, or bytes that are no page"
        return
    yield from _key_faults(file, schema)
    right = _take_apart(again)
    writer = _WRITER.fullmatch(_created_by(file))
    if writer is None:
        yield "a footer that names another writer than pyarrow"
    faults = list(_part_faults(file, right))
    if faults and writer is not None and _created_by(file) != _created_by(right):
        yield (
            f"written by pyarrow {writer[1].decode()}, which does not write these rows as {pa.__version__} does: audit"
            " with that version"
        )
    else:
        yield from faults


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


def _key_faults(file: ParquetParts, schema: Mapping[str, Any]) -> Iterator[str]:
    pairs = _value(file.footer, _KEYS, ())
    values = [_value(pair, 2, b"") for pair in pairs if _value(pair, 1, b"") == SCHEMA_KEY.encode()]
    if pairs != [{1: (_TEXT, SCHEMA_KEY.encode()), 2: (_TEXT, value)} for value in values] or len(pairs) != 1:
        yield "a footer with other keys than the schema's"
    try:
        same = all(json.loads(value) == json.loads(json.dumps(schema)) for value in values)
    except ValueError:
        same = False
    if not values or not same:
        yield "a schema whose names, documentation or properties are not those that the policy gives"
    elif values != [json.dumps(schema).encode()]:
        yield "a schema that says the right things in another form, which may carry others"


def _part_faults(file: ParquetParts, right: ParquetParts) -> Iterator[str]:
    """Footer without keys and writer, then page by page; positions and sizes must be those of the file's own pages."""
    footer, expected = (_with(each.footer, {_KEYS: None, _CREATED_BY: None}) for each in (file, right))
    if len(file.pages) != len(right.pages) or not _same_footers(footer, expected, file, right):
        yield "a footer that is not the one that its rows give, and may say something else"
        return
    for page, other in zip(file.pages, right.pages, strict=True):
        if _with(page.told, {_PAGE_STORED: 0}) != _with(other.told, {_PAGE_STORED: 0}):
            yield "the header of a page says more than its rows give"
            return
        try:
            body = _unpacked(page.stored)
        except (ValueError, zlib.error):
            yield "bytes behind or before a page's compressed stream"
            return
        if body != _unpacked(other.stored):
            yield "a page that holds other bytes than its rows give"
            return


def _same_footers(footer: Struct, expected: Struct, file: ParquetParts, right: ParquetParts) -> bool:
    starts = [_start(chunk) for chunk in _chunks(right.footer)]
    firsts = [place for place, page in enumerate(right.pages) if page.at in starts]
    bounds = [*firsts, len(right.pages)]
    if len(firsts) != len(starts) or _placed(expected, right, bounds) != expected:
        return False
    return _placed(expected, file, bounds) == footer


def _placed(footer: Struct, file: ParquetParts, bounds: Sequence[int]) -> Struct:
    """A footer with the positions and sizes of a file's pages. bounds: the first page of each chunk, and the end."""
    runs = iter([file.pages[first:last] for first, last in pairwise(bounds)])
    groups = []
    for group in _value(footer, _ROW_GROUPS, ()):
        chunks, stored, size, start = [], 0, 0, None
        for chunk in _value(group, _COLUMNS, ()):
            pages = next(runs)
            here = sum(page.head + len(page.stored) for page in pages)
            whole = sum(page.head + _value(page.told, _PAGE_SIZE, 0) for page in pages)
            start = pages[0].at if start is None else start
            stored, size = stored + here, size + whole
            meta = _value(chunk, _CHUNK, {})
            places = {_UNCOMPRESSED: whole, _STORED: here, _DATA_AT: pages[0].at}
            if _DICTIONARY_AT in meta:
                places |= {_DICTIONARY_AT: pages[0].at, _DATA_AT: pages[min(1, len(pages) - 1)].at}
            chunks.append(_with(chunk, {_CHUNK: _with(meta, places)}))
        places = {_BYTES: size, _GROUP_STORED: stored, _GROUP_OFFSET: start}
        groups.append(_with(group, {_COLUMNS: [*chunks], **places}))
    return _with(footer, {_ROW_GROUPS: [*groups]})


def _with(told: Struct, values: Mapping[int, Any]) -> Struct:
    """The struct with other values in those of the fields that it has."""
    return {name: (kind, values.get(name, value)) for name, (kind, value) in told.items()}


def _chunks(footer: Struct) -> Iterator[Struct]:
    for group in _value(footer, _ROW_GROUPS, ()):
        for chunk in _value(group, _COLUMNS, ()):
            yield _value(chunk, _CHUNK, {})


def _start(chunk: Struct) -> int:
    return int(_value(chunk, _DICTIONARY_AT, None) or _value(chunk, _DATA_AT, 0))


def _created_by(file: ParquetParts) -> bytes:
    told = _value(file.footer, _CREATED_BY, b"")
    return told if isinstance(told, bytes) else b""


def _value(told: Any, name: int, default: Any) -> Any:
    return told.get(name, (0, default))[1] if isinstance(told, dict) else default


def _unpacked(stored: bytes) -> bytes:
    """The bytes of a gzip stream that holds nothing else: no name, time or comment, and nothing behind it."""
    stream = zlib.decompressobj(_GZIP)
    body = stream.decompress(stored)
    if stored[2:8] != b"\x08" + bytes(5) or not stream.eof or stream.unused_data:
        raise ValueError
    return body


def _take_apart(data: bytes) -> ParquetParts:
    """Raises IndexError or ValueError: some bytes are neither footer nor page."""
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if data[:4] != _MAGIC or data[-4:] != _MAGIC or end < 4:
        raise ValueError
    footer, at = _struct(data, end)
    if at != len(data) - 8:
        raise ValueError
    pages, at = [], 4
    while at < end:
        told, body = _struct(data, at)
        size = _value(told, _PAGE_STORED, -1)
        if not isinstance(size, int) or size < 0 or body + size > end:
            raise ValueError
        pages.append(ParquetPage(at, body - at, told, data[body : body + size]))
        at = body + size
    return ParquetParts(footer, tuple(pages))


def _struct(data: bytes, at: int) -> tuple[Struct, int]:
    """A struct, and where it ends. Of several spellings of the same only the shortest is taken."""
    told: Struct = {}
    name = 0
    while head := data[at]:
        if not head >> 4:
            raise ValueError
        name += head >> 4
        kind = head & 15
        elements = data[at + 1] & 15 if kind == _LIST else 0
        value, at = _of_kind(data, at + 1, kind)
        told[name] = kind | elements << 4, value
    return told, at + 1


def _of_kind(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2:  # true, false: the kind says it
            return kind == 1, at
        case 4 | 5 | 6:
            value, at = _varint(data, at)
            return (value >> 1) ^ -(value & 1), at
        case 8:  # _TEXT
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError
            return data[at : at + size], at + size
        case 9:  # _LIST
            return _list(data, at)
        case 12:
            return _struct(data, at)
    raise ValueError  # no such kind stands in a footer or page header that pyarrow writes


def _list(data: bytes, at: int) -> tuple[list[Any], int]:
    size, kind, at = data[at] >> 4, data[at] & 15, at + 1
    if size == 15:
        size, at = _varint(data, at)
        if size < 15:
            raise ValueError
    if kind not in (5, 6, 8, 12):  # of numbers, texts and structs
        raise ValueError
    values = []
    for _ in range(size):
        value, at = _of_kind(data, at, kind)
        values.append(value)
    return values, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            if (byte == 0 and shift > 7) or shift > 70:
                raise ValueError
            return value, at
