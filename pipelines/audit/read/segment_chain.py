"""The chain of a roster's segments, worked out anew for the audit: which roster a segment makes of the one before.

    chain' = SHA-256(encode(chain, encode(epoch, segments, people, cohorts))
                     | encode(people) | encode(cohort) | SHA-256(corners))

segments, people, cohorts: how many there were before. people, cohort: digests and cohorts as little-endian 64-bit
words. ``encode`` writes each part as a letter for its kind, its length in 8 bytes, and its bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

_COHORT = "__cohort"
_LARGEST = np.int64(np.iinfo(np.int64).max)
_WORD = 2**64


class Head(NamedTuple):
    """Which roster it is: its epoch, the digest of its chain in hexadecimal, and how many of each there are."""

    epoch: int
    chain: str
    segments: int
    people: int
    cohorts: int


class Corners(NamedTuple):
    """The corners of cohorts as they stand in a file. cohort: int64 (c,). names, kinds: of the fields; cells: of each
    field its c values as ``values.read_object`` gives them."""

    cohort: np.ndarray
    names: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]
    cells: tuple[Sequence[Any], ...]


def chain_after(head: Head, people: np.ndarray, cohort: np.ndarray, corners: Corners) -> str:
    """The digest of the chain with one more segment, in hexadecimal.

    people: uint64 (p,), cohort: int64 (p,), in the file's order. O(p + corners).
    Raises ValueError: the chain before is no digest, or a value is none of its field's type.
    """
    numbers = _encoded(head.epoch, head.segments, head.people, head.cohorts)
    state = hashlib.sha256(_encoded(bytes.fromhex(head.chain), numbers))
    state.update(_encoded(people.astype("<u8").tobytes()))
    state.update(_encoded(cohort.astype("<i8").tobytes()))
    state.update(_content(corners))
    return state.hexdigest()


def _content(corners: Corners) -> bytes:
    names = [part for pair in zip(corners.names, map(str, corners.kinds), strict=True) for part in pair]
    state = hashlib.sha256(_encoded(len(corners.cohort), _COHORT, "int64", *names))
    state.update(np.ones(len(corners.cohort), bool).tobytes())
    state.update(corners.cohort.astype("<i8").tobytes())
    for kind, cells in zip(corners.kinds, corners.cells, strict=True):
        state.update(np.array([cell is not None for cell in cells], bool).tobytes())
        for part in _column(kind, cells):
            state.update(part)
    return state.digest()


def _column(kind: pa.DataType, cells: Sequence[Any]) -> list[bytes]:
    """A column's values as bytes: of text all lengths and then all content, of everything else its order as numbers,
    after who is not null where any is."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        content = [cell.encode() if isinstance(cell, str) else cell or b"" for cell in cells]
        return [np.array([len(each) for each in content], "<i4").tobytes(), b"".join(content)]
    there = np.array([cell is not None for cell in cells], "<i8")
    keys = [] if there.all() else [there.tobytes()]
    values = [0 if cell is None else cell for cell in cells]
    if pa.types.is_decimal(kind):
        keys.append(np.array([value // _WORD for value in values], "<i8").tobytes())
        keys.append(np.array([value % _WORD for value in values], "<u8").tobytes())
    elif pa.types.is_floating(kind):
        bits = np.array(values, np.float64).view(np.int64)
        # Negative numbers count downward in their bits.
        keys.append(np.where(bits < 0, bits ^ _LARGEST, bits).astype("<i8").tobytes())
    else:
        keys.append(np.array(values, "<i8").tobytes())
    return keys


def _encoded(*parts: bytes | str | int) -> bytes:
    pieces = []
    for part in parts:
        if isinstance(part, int):
            letter, content = b"i", str(part).encode()
        else:
            letter, content = (b"s", part.encode()) if isinstance(part, str) else (b"b", part)
        pieces.append(letter + len(content).to_bytes(8, "big") + content)
    return b"".join(pieces)
