"""A state as bytes: named parts behind an index that says which there are. Nothing is pickled.

    header   mark (4 bytes), version (uint32), length of the index (uint32), little-endian
    index    JSON: {"meta": {key: value, ...}, "parts": [[name, length], ...]}
    parts    raw bytes, one behind the other, in the order of the index

Numbers and names that say how parts are to be read are meta; arrays and tables are parts. A state grows by another
``Content`` beside those that it has, and a reader that takes it.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.transforms.files.state_versions import damaged, other_layout

_HEADER = struct.Struct("<4sII")


class Content(NamedTuple):
    """What a state, or a piece of one, has to write.

    meta: values that JSON keeps as they are.
    parts: raw bytes by name, in their order.
    """

    meta: dict[str, Any]
    parts: dict[str, bytes]


class UnreadParts:
    """Parts that are taken one by one, each once. meta: of the state. layout: its version."""

    def __init__(self, layout: int, meta: Mapping[str, Any], parts: Mapping[str, memoryview]) -> None:
        self.layout = layout
        self.meta = meta
        self._parts = dict(parts)

    def take(self, name: str) -> bytes:
        """The bytes of a part. Raises KeyError: it is not there, or was taken."""
        return bytes(self._parts.pop(name))

    def array(self, name: str, dtype: str) -> NDArray[Any]:
        """A part as a new array (n,) of a dtype. Raises KeyError as ``take``; ValueError: it is no such array."""
        return np.frombuffer(self._parts.pop(name), dtype=dtype).copy()

    def view(self, name: str, dtype: str) -> NDArray[Any]:
        """The same without a copy, read-only: of bytes that processes share."""
        return np.frombuffer(self._parts.pop(name), dtype=dtype)

    def end(self) -> None:
        """Raise ValueError if there are parts that nobody took: who wrote them knew more than the reader."""
        if self._parts:
            raise ValueError("there are parts that this version does not know")


def joined(*contents: Content) -> Content:
    """Contents beside each other. Raises ValueError: two have a key or a part of one name."""
    meta = {key: value for content in contents for key, value in content.meta.items()}
    parts = {name: data for content in contents for name, data in content.parts.items()}
    if len(meta) + len(parts) < sum(len(content.meta) + len(content.parts) for content in contents):
        raise ValueError("two pieces of a state use one name")
    return Content(meta, parts)


def pack(mark: bytes, version: int, content: Content) -> bytes:
    """A state's bytes; equal contents give equal bytes. Inverse of ``unpack``."""
    sizes = [[name, len(data)] for name, data in content.parts.items()]
    index = json.dumps({"meta": content.meta, "parts": sizes}).encode()
    # What is mapped is searched in place only where its numbers are aligned.
    index += b" " * (-(_HEADER.size + len(index)) % 8)
    return b"".join([_HEADER.pack(mark, version, len(index)), index, *content.parts.values()])


def unpack(data: bytes | mmap.mmap, mark: bytes, version: int, what: str) -> UnreadParts:
    """The parts of a state. version: the newest that is read. what: its name in messages.

    Raises StateError: the bytes are no such state, one of a later version, or not as long as they should be.
    """
    try:
        magic, layout, length = _HEADER.unpack_from(data)
    except struct.error:
        raise damaged(what, "its header is cut off") from None
    if magic != mark:
        raise damaged(what, "it does not begin with its mark")
    if not 1 <= layout <= version:
        raise other_layout(what, layout, version)
    try:
        index = json.loads(data[_HEADER.size : _HEADER.size + length])
        parts = _cut(memoryview(data)[_HEADER.size + length :], index["parts"])
        return UnreadParts(layout, dict(index["meta"]), parts)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged(what, "its parts do not fit its index") from None


def _cut(body: memoryview, sizes: list[tuple[str, int]]) -> dict[str, memoryview]:
    parts: dict[str, memoryview] = {}
    position = 0
    for name, size in sizes:
        if name in parts or not isinstance(size, int) or size < 0:
            raise ValueError("the index is none")
        parts[name] = body[position : position + size]
        position += size
    if position != len(body):
        raise ValueError("the parts are not as long as the index says")
    return parts
