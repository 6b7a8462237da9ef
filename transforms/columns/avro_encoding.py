"""Arrow columns -> Avro bytes, column by column.

A release has a nested record or an array in every quasi-identifier column; a row-by-row writer walks the
schema for each cell and tests each union branch, which cost 40 microseconds a row where this costs about 1.
Here every column becomes a list with one ``bytes`` per row, and a row is the concatenation of its cells,
which is exactly what the Avro specification says a record is ("Binary Encoding").
Rows of a release stand sorted, so neighbours share all that stands before their payload: of rows that follow each other
and are equal in it, only the first is encoded.
"""

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.kinds.form import FEW
from kanonflow.schemas.kinds.number import decimal_words
from kanonflow.transforms.columns.sort_keys import runs, whole, whole_numbers

AvroType = str | Mapping[str, Any] | Sequence[Any]

ROWS_PER_BLOCK = 4096
DEFLATE_LEVEL = 6


class EncodingError(Exception):
    """A column does not fit the Avro type it should be written as (the message names the field, no value)."""


def avro_file(table: pa.Table, schema: Mapping[str, Any], sync_marker: bytes) -> bytes:
    """An Avro object container file with the rows of ``table``; equal arguments give equal bytes.

    The codec is deflate: next to ``null`` the only one that the specification obliges every reader to know,
    and it makes generalized rows about ten times smaller (neighbouring rows share their box).

    Args:
        table: one column per field of ``schema``, found by name.
        schema: Avro schema of a record.
        sync_marker: 16 bytes; part of the output, so derive it from what names the file.

    Raises:
        EncodingError: a column is missing or does not fit its Avro type.
    """
    rows = encode_rows(table, schema)
    out = BytesIO()
    out.write(_header(json.dumps(schema)) + sync_marker)
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        block = rows[first : first + ROWS_PER_BLOCK]
        # Avro's deflate codec is the raw stream (RFC 1951): negative window bits leave the zlib header out.
        squeeze = zlib.compressobj(DEFLATE_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        data = squeeze.compress(b"".join(block)) + squeeze.flush()
        out.write(varint(len(block)) + varint(len(data)) + data + sync_marker)
    return out.getvalue()


@lru_cache(maxsize=32)
def _header(schema: str) -> bytes:
    """A file's header but for the sync marker, as fastavro writes it, which parses the schema: that of each window."""
    out = BytesIO()
    fastavro.writer(out, json.loads(schema), [], codec="deflate", sync_marker=bytes(16))
    return out.getvalue()[:-16]


def same_records(one: bytes, other: bytes) -> bool:
    """Whether two Avro files hold the same schema and the same records in the same order.

    Looser than equal bytes in one way only: two builds of zlib may compress the same block differently, and a
    retry on an upgraded worker must not look like another release.
    """
    if one == other:
        return True
    try:
        return avro_content(one) == avro_content(other)
    except Exception:  # a file that does not decode is not the same as one that does
        return False


def avro_content(data: bytes) -> tuple[Any, bytes]:
    """The schema in an Avro file's header, and its rows' bytes. Raises what fastavro raises."""
    blocks = fastavro.block_reader(BytesIO(data))
    schema = json.loads(blocks.metadata["avro.schema"])
    return schema, b"".join(block.bytes_.getvalue() for block in blocks)


def encode_rows(table: pa.Table, schema: Mapping[str, Any]) -> list[bytes]:
    """Each row of ``table`` as one Avro binary record of ``schema``. O(cells)."""
    arrays, fields = [], schema["fields"]
    for field in fields:
        if field["name"] not in table.column_names:
            raise EncodingError(f"field {field['name']}: the table has no such column")
        arrays.append(whole(table.column(field["name"])))
    front = max((place + 1 for place, each in enumerate(arrays) if each.type.num_fields), default=0)
    heads, counts = runs(*arrays[:front])
    if front and heads.size < table.num_rows:
        first = pa.array(heads)
        arrays[:front] = [array.take(first) for array in arrays[:front]]
    names: dict[str, Mapping[str, Any]] = {}
    columns = [
        _encode(array, field["type"], field["name"], names)
        for array, field in zip(arrays, fields, strict=True)
    ]
    if front and heads.size < table.num_rows:
        columns[:front] = [_repeat(list(map(b"".join, zip(*columns[:front], strict=True))), counts)]
    return list(map(b"".join, zip(*columns, strict=True)))


def varint(value: int) -> bytes:
    """Avro's ``long``: zig-zag, then 7 bits a byte, least significant first."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _encode(
    array: pa.Array, avro: AvroType, field: str, names: dict[str, Mapping[str, Any]], prefix: bytes = b""
) -> list[bytes]:
    """One ``bytes`` per cell: ``prefix`` (the branch of a surrounding union), then the value."""
    if isinstance(avro, list | tuple):
        return _encode_union(array, avro, field, names)
    if isinstance(avro, str) and avro in names:
        avro = names[avro]
    kind = avro["type"] if isinstance(avro, dict) else avro
    if isinstance(avro, dict) and isinstance(kind, dict | list):
        return _encode(array, kind, field, names, prefix)
    if kind == "null":
        return [prefix] * len(array)
    if isinstance(avro, dict) and kind == "record":
        names[avro["name"]] = avro
        return _encode_record(array, avro["fields"], field, names, prefix)
    if isinstance(avro, dict) and kind == "array":
        return _encode_array(array, avro["items"], field, names, prefix)
    if array.null_count:
        raise EncodingError(f"field {field}: a null, but the schema has no null for it")
    if isinstance(avro, dict) and kind == "enum":
        places = {symbol: varint(place) for place, symbol in enumerate(avro["symbols"])}
        if unknown := set(array.unique().to_pylist()) - places.keys():
            raise EncodingError(f"field {field}: {len(unknown)} values are no symbols of the Avro enum")
        return _by_distinct(array, places.__getitem__, prefix)
    if isinstance(avro, dict) and avro.get("logicalType") == "decimal":
        return _decimals(array, prefix)
    encoder = _SCALARS.get(str(kind))
    if encoder is None:
        raise EncodingError(f"field {field}: Avro type {kind} is not supported in a release")
    try:
        return encoder(array, prefix)
    except (pa.ArrowException, struct.error, AttributeError, TypeError) as error:
        raise EncodingError(f"field {field}: {array.type} does not fit Avro type {kind}") from error


def _encode_union(
    array: pa.Array, branches: Sequence[AvroType], field: str, names: dict[str, Mapping[str, Any]]
) -> list[bytes]:
    """A union of null and one other type: the branch number, then the value."""
    others = [(index, branch) for index, branch in enumerate(branches) if branch != "null"]
    if len(branches) - len(others) > 1 or len(others) != 1:
        raise EncodingError(f"field {field}: only unions of null and one other type are supported")
    index, branch = others[0]
    present = array.drop_null() if array.null_count else array
    cells = _encode(present, branch, field, names, prefix=varint(index))
    if not array.null_count:
        return cells
    if len(branches) == 1:
        raise EncodingError(f"field {field}: a null, but the schema has no null for it")
    out = np.array([varint(1 - index)], dtype=object).repeat(len(array))
    out[pc.is_valid(array).to_numpy(zero_copy_only=False)] = np.array(cells, dtype=object)
    return out.tolist()


def _encode_record(
    array: pa.Array,
    fields: Sequence[Mapping[str, Any]],
    field: str,
    names: dict[str, Mapping[str, Any]],
    prefix: bytes,
) -> list[bytes]:
    """The cells of its fields, one after the other."""
    children = [
        _encode(array.field(child["name"]), child["type"], f"{field}.{child['name']}", names)
        for child in fields
    ]
    return [prefix + cell for cell in map(b"".join, zip(*children, strict=True))]


def _encode_array(
    array: pa.Array, items: AvroType, field: str, names: dict[str, Mapping[str, Any]], prefix: bytes
) -> list[bytes]:
    """One block with all items, then the empty block that ends an array."""
    if array.null_count:
        raise EncodingError(f"field {field}: a null, but the schema has no null for it")
    cells = _encode(array.values, items, field, names)
    ends = array.offsets.to_pylist()
    counts = [varint(count) for count in range(1 + max(map(int.__sub__, ends[1:], ends), default=0))]
    out = []
    for first, end in pairwise(ends):
        body = counts[end - first] + b"".join(cells[first:end]) if end > first else b""
        out.append(prefix + body + b"\0")
    return out


def _booleans(array: pa.Array, prefix: bytes) -> list[bytes]:
    return _take([prefix + b"\0", prefix + b"\1"], array.to_numpy(zero_copy_only=False).astype(np.intp))


def _longs(array: pa.Array, prefix: bytes) -> list[bytes]:
    """int and long, and the dates and timestamps that Avro stores as such; once each, where values repeat."""
    if len(array) <= FEW:
        longs = whole_numbers(array).tolist()
        cells = {long: prefix + varint(long) for long in set(longs)}
        return [cells[long] for long in longs]
    coded = array.dictionary_encode()
    if 2 * len(coded.dictionary) < len(array):
        return _take(_longs(coded.dictionary, prefix), np.asarray(coded.indices))
    values = whole_numbers(array)
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    groups = zigzag[:, None] >> (np.arange(10, dtype=np.uint64) * np.uint64(7))
    lengths = np.maximum((groups != 0).sum(axis=1), 1)
    low_bits = (groups & np.uint64(0x7F)).astype(np.uint8)
    more = np.arange(10) < (lengths - 1)[:, None]
    raw = (low_bits | (more.astype(np.uint8) << 7)).tobytes()
    return [
        prefix + raw[at : at + length]
        for at, length in zip(range(0, len(raw), 10), lengths.tolist(), strict=True)
    ]


def _floats(width: str) -> Callable[[pa.Array, bytes], list[bytes]]:
    def encode(array: pa.Array, prefix: bytes) -> list[bytes]:
        if not pa.types.is_floating(array.type):
            raise TypeError("not a floating point column")
        values = array.to_numpy(zero_copy_only=False).astype(width, copy=False)
        size = values.dtype.itemsize
        raw = values.tobytes()
        return [prefix + raw[at : at + size] for at in range(0, len(raw), size)]

    return encode


def _strings(array: pa.Array, prefix: bytes) -> list[bytes]:
    if not pa.types.is_string(array.type) and not pa.types.is_large_string(array.type):
        raise TypeError("not a string column")
    return _by_distinct(array, lambda value: _sized(value.encode()), prefix)


def _binaries(array: pa.Array, prefix: bytes) -> list[bytes]:
    return _by_distinct(array, _sized, prefix)


def _by_distinct(array: pa.Array, encode: Callable[[Any], bytes], prefix: bytes) -> list[bytes]:
    """Encode each distinct value once: payloads repeat."""
    coded = array.dictionary_encode()
    cells = [prefix + encode(value) for value in coded.dictionary.to_pylist()]
    return _take(cells, coded.indices.to_numpy(zero_copy_only=False))


def _take(cells: Iterable[bytes], codes: np.ndarray) -> list[bytes]:
    return np.array([*cells, b""], dtype=object)[codes].tolist()


def _sized(value: bytes) -> bytes:
    return varint(len(value)) + value


def _repeat(cells: Sequence[bytes], counts: NDArray[np.int64]) -> list[bytes]:
    return np.array([*cells, b""], dtype=object)[:-1].repeat(counts).tolist()


def _decimals(array: pa.Array, prefix: bytes) -> list[bytes]:
    """Two's complement of the unscaled integers, big-endian, as few bytes as hold each."""
    high, low = decimal_words(array)
    # Uint8 (n, 16), the most significant byte first; the number of bytes, 1 to 16, is a varint of one byte.
    words = np.stack([high.view(np.uint64), low], axis=1).astype(">u8").view(np.uint8).reshape(-1, 16)
    sign = (words[:, :1] >> 7) * np.uint8(0xFF)
    # A leading byte can go while it, and the first bit of the next one, only repeat the sign.
    spare = (words[:, :-1] == sign) & ((words[:, 1:] ^ sign) < 0x80)
    sizes = 16 - np.logical_and.accumulate(spare, axis=1).sum(axis=1)
    raw, heads = words.tobytes(), [prefix + varint(size) for size in range(17)]
    return [
        heads[size] + raw[end - size : end]
        for end, size in zip(range(16, len(raw) + 1, 16), sizes.tolist(), strict=True)
    ]


_SCALARS: dict[str, Callable[[pa.Array, bytes], list[bytes]]] = {
    "boolean": _booleans,
    "int": _longs,
    "long": _longs,
    "float": _floats("<f4"),
    "double": _floats("<f8"),
    "string": _strings,
    "bytes": _binaries,
}
