"""What stands in an Avro file besides its rows: header, schema, sync marker, blocks. All of it follows from the policy.

A file that readers take for a release may carry more than they show: text in the schema's ``doc``, keys of metadata,
sixteen bytes of marker, bytes behind a block's rows. So the header is compared whole with the one that the policy
gives, and every block has to be used up by its rows.

Not compared: how rows are dealt out to blocks, and which of the many compressed forms of the same bytes was chosen.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

_CODEC = "deflate"
_KEYS = ("avro.codec", "avro.schema")


@dataclass(frozen=True)
class AvroContainer:
    """A container file taken apart. meta: pairs as they stand; head: its bytes; sync: the marker; blocks: (rows,
    stored bytes); tail: bytes after the last whole block."""

    meta: tuple[tuple[str, bytes], ...]
    head: bytes
    sync: bytes
    blocks: tuple[tuple[int, bytes], ...]
    tail: bytes


def sync_marker(name: str) -> bytes:
    """The marker of a file of that name: 16 bytes that say nothing else."""
    return hashlib.blake2b(name.encode(), digest_size=16, person=b"kanonflow sync").digest()


def header_faults(path: Path, schema: Mapping[str, Any]) -> Iterator[str]:
    """What of an Avro file is not what ``schema`` and the file's name give. Never a value from the file.

    O(bytes). A file that cannot be taken apart is told as such.
    """
    try:
        file = _take_apart(path.read_bytes())
    except (IndexError, ValueError, UnicodeDecodeError):
        yield "an Avro header or block that is damaged"
        return
    found = list(_told_apart(file, path.stem, schema))
    if not found and file.head != _head(schema):
        found.append("a header that says the right things in another form, which may carry others")
    yield from found
    yield from _block_faults(file)


def _head(schema: Mapping[str, Any]) -> bytes:
    """The bytes of the header that the schema gives, up to the marker."""
    out = BytesIO()
    fastavro.writer(out, dict(schema), [], codec=_CODEC, sync_marker=bytes(16))
    return out.getvalue()[:-16]


def _told_apart(file: AvroContainer, name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    told = dict(file.meta)
    if sorted(key for key, _ in file.meta) != sorted(_KEYS):
        yield "a header with other keys than codec and schema"
    if told.get("avro.codec") != _CODEC.encode():
        yield "another codec than deflate"
    if file.sync != sync_marker(name):
        yield "a sync marker that does not follow from the file's name"
    try:
        same = json.loads(told.get("avro.schema", b"")) == json.loads(json.dumps(schema))
    except ValueError:
        same = False
    if not same:
        yield "a schema whose names, documentation or properties are not those that the policy gives"


def _block_faults(file: AvroContainer) -> Iterator[str]:
    if file.tail:
        yield "bytes behind the last block"
    if any(count == 0 for count, _ in file.blocks):
        yield "a block without rows"
    if dict(file.meta).get("avro.codec") == _CODEC.encode():
        loose = False
        for _, data in file.blocks:
            stream = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                body = stream.decompress(data)
            except zlib.error:
                return  # told by whoever reads the rows
            # fastavro leaves the first three bytes of zlib's checksum behind the stream; they follow from it.
            rest = zlib.adler32(body).to_bytes(4, "big")[:3]
            loose |= stream.unused_data not in (b"", rest) or not stream.eof
        if loose:
            yield "bytes behind a block's compressed stream"


def _take_apart(data: bytes) -> AvroContainer:
    if data[:4] != b"Obj\x01":
        raise ValueError
    at, meta = 4, []
    while True:
        count, at = _long(data, at)
        if count == 0:
            break
        if count < 0:
            count, (_, at) = -count, _long(data, at)
        for _ in range(count):
            key, at = _sized(data, at)
            value, at = _sized(data, at)
            meta.append((key.decode(), value))
    head, sync = data[:at], data[at : at + 16]
    at += 16
    blocks: list[tuple[int, bytes]] = []
    while at < len(data):
        start = at
        try:
            count, at = _long(data, at)
            stored, at = _sized(data, at)
        except (IndexError, ValueError):
            return AvroContainer(tuple(meta), head, sync, tuple(blocks), data[start:])
        if data[at : at + 16] != sync:
            return AvroContainer(tuple(meta), head, sync, tuple(blocks), data[start:])
        at += 16
        blocks.append((count, stored))
    return AvroContainer(tuple(meta), head, sync, tuple(blocks), b"")


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _long(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError
    return data[at : at + size], at + size
