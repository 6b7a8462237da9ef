"""Where the cells of a block of Avro end, and which of a field are equal byte by byte: a walk by the types alone.

A type is a line of a *tree*, int64 (t, 3): its shape, the first line of what it is made of, and how many lines. Of
``FIXED`` the second is its bytes. Line 0 is the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numba
import numpy as np

FIXED, LONG, SIZED, UNION, RECORD, ARRAY = range(6)
_PLAIN = {
    "null": (FIXED, 0, 0),
    "boolean": (FIXED, 1, 0),
    "float": (FIXED, 4, 0),
    "double": (FIXED, 8, 0),
    "int": (LONG, 0, 0),
    "long": (LONG, 0, 0),
    "string": (SIZED, 0, 0),
    "bytes": (SIZED, 0, 0),
}
# More than any block holds, and less than what its sum with a place needs 64 bits for.
_HUGE = 2**62


class Walked(NamedTuple):
    """stop: where the last row ends. place: int64 (f, n), which of its field's distinct cells a row holds.
    counts: int64 (f,), how many these are. begin, end: int64 (f, n), where they lie, as they came."""

    stop: int
    place: np.ndarray
    counts: np.ndarray
    begin: np.ndarray
    end: np.ndarray


def type_tree(schema: Any) -> np.ndarray:
    """The tree of an Avro type. Raises KeyError: releases have no such type."""
    kinds, lines = [schema], []
    for kind in kinds:
        while isinstance(kind, Mapping) and not ("fields" in kind or "items" in kind):
            kind = kind["type"]
        if isinstance(kind, list):
            shape, inner = UNION, kind
        elif not isinstance(kind, Mapping):
            lines.append(_PLAIN[kind])
            continue
        elif "fields" in kind:
            shape, inner = RECORD, [field["type"] for field in kind["fields"]]
        else:
            shape, inner = ARRAY, [kind["items"]]
        lines.append((shape, len(kinds), len(inner)))
        kinds += inner
    return np.array(lines, np.int64)


def walk(data: bytes, rows: int, tree: np.ndarray) -> Walked:
    """Walk over the rows of a block. O(bytes). Raises ValueError: it ends within one, or its types do not say it."""
    if rows > len(data):
        raise ValueError("a block that ends before its rows")
    shape = int(tree[0, 2]), max(rows, 0)
    place, begin, end = (np.empty(shape, np.int64) for _ in range(3))
    count = np.zeros(shape[0], np.int64)
    bytes_ = np.frombuffer(data, np.uint8)
    stop = _walk(bytes_, tree, begin, end)
    if stop < 0:
        raise ValueError("a block that ends within a row, or says what its type does not")
    _number(bytes_, begin, end, place, count)
    return Walked(stop, place, count, begin, end)


@numba.njit(cache=True, nogil=True)
def _long(data, at):  # type: ignore[no-untyped-def]
    """An integer and where it ends, -1 where the block does; beyond 62 bits it is told as that many."""
    value, shift, huge = np.int64(0), 0, False
    while at < len(data):
        byte = np.int64(data[at])
        if shift < 63:
            value |= (byte & 0x7F) << shift
        elif byte & 0x7F:
            huge = True
        at += 1
        shift += 7
        if byte < 0x80:
            sign = -(value & 1)
            return (_HUGE if huge else value >> 1) ^ sign, at
    return np.int64(0), -1


@numba.njit(cache=True, nogil=True)
def _walk(data, tree, begin, end):  # type: ignore[no-untyped-def]
    """Write where each cell lies; where the last row ends, -1 of what is damaged."""
    fields, rows = begin.shape
    # What is still to be read of a cell, innermost last, and of lists how many items of their block.
    todo = np.empty(len(tree) + 1, np.int64)
    left = np.empty(len(tree) + 1, np.int64)
    at = 0
    for row in range(rows):
        for field in range(fields):
            begin[field, row] = at
            todo[0], left[0], top = tree[0, 1] + field, 0, 1
            while top:
                top -= 1
                shape, inner, count = tree[todo[top], 0], tree[todo[top], 1], tree[todo[top], 2]
                if shape == FIXED:
                    at += inner
                elif shape == RECORD:
                    for part in range(count):
                        todo[top + part], left[top + part] = inner + count - 1 - part, 0
                    top += count
                elif shape == ARRAY:
                    more = left[top]
                    if not more:
                        more, at = _long(data, at)
                        if more < 0:
                            more = -more
                            _, at = _long(data, at)
                        if at < 0:
                            return -1
                        if not more:
                            continue
                    left[top] = more - 1
                    todo[top + 1], left[top + 1] = inner, 0
                    top += 2
                else:
                    value, at = _long(data, at)
                    if at < 0:
                        return -1
                    if shape == SIZED:
                        if value < 0:
                            return -1
                        at += value
                    elif shape == UNION:
                        if not 0 <= value < count:
                            return -1
                        todo[top], left[top] = inner + value, 0
                        top += 1
                if at > len(data):
                    return -1
            end[field, row] = at
    return at


@numba.njit(cache=True, nogil=True)
def _number(data, begin, end, place, count):  # type: ignore[no-untyped-def]
    """Number the distinct cells of each field as they come, and move where they lie to the front."""
    fields, rows = begin.shape
    size = 4
    while size < 2 * rows:
        size *= 2
    slots = np.empty(size, np.int64)
    for field in range(fields):
        slots[:] = -1
        distinct = 0
        for row in range(rows):
            start, stop = begin[field, row], end[field, row]
            # Most rows hold what the row before does.
            number = place[field, row - 1] if row else np.int64(-1)
            if number < 0 or not _equal(data, start, stop, begin[field, number], end[field, number]):
                code = np.uint64(14695981039346656037)
                for at in range(start, stop):
                    code = (code ^ np.uint64(data[at])) * np.uint64(1099511628211)
                slot = np.int64((code ^ (code >> np.uint64(29))) & np.uint64(size - 1))
                number = slots[slot]
                while number >= 0 and not _equal(data, start, stop, begin[field, number], end[field, number]):
                    slot = (slot + 1) & (size - 1)
                    number = slots[slot]
                if number < 0:
                    number = distinct
                    slots[slot] = distinct
                    begin[field, distinct], end[field, distinct] = start, stop
                    distinct += 1
            place[field, row] = number
        count[field] = distinct


@numba.njit(cache=True, nogil=True)
def _equal(data, start, stop, other, other_stop):  # type: ignore[no-untyped-def]
    if stop - start != other_stop - other:
        return False
    for step in range(stop - start):
        if data[start + step] != data[other + step]:
            return False
    return True
