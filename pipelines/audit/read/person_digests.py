"""Whose digest is whose: individuals of the input as the cohorts' files name them.

A person is the first 8 bytes, little-endian, of BLAKE2b over its canonical text, keyed by HKDF-SHA256(first secret,
("kanonflow", "partition", "people")). The key is given: it is all of the secret that the audit takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.read.text_cells import Unreadable
from kanonflow.pipelines.audit.read.values import CodeBook


def digests_of_codes(book: CodeBook, key: bytes) -> np.ndarray:
    """The digest of each value of the individual's field, uint64 by code; 0 of what could not be read. O(values)."""
    digests = np.zeros(len(book.values), np.uint64)
    for code, text in enumerate(_texts(book)):
        if text is not None:
            digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8, key=key).digest()
            digests[code] = int.from_bytes(digest, "little")
    return digests


def _texts(book: CodeBook) -> Iterator[str | None]:
    """Canonical text: ISO dates and instants with a zone, shortest floats, bytes in hexadecimal."""
    kind = book.column.arrow_type
    for value in book.values:
        match value:
            case Unreadable():
                yield None
            case str():
                yield value
            case bytes():
                yield value.hex()
            case bool():
                yield str(value).lower()
            case int() if pa.types.is_decimal(kind):
                digits = tuple(map(int, str(abs(value))))
                yield str(Decimal((int(value < 0), digits, -kind.scale)))
            case _:
                yield _spelled(value, kind)


def _spelled(value: Any, kind: pa.DataType) -> str | None:
    """Numbers, days and instants as Arrow prints them."""
    whole = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    plain = (pa.int32() if pa.types.is_date(kind) else pa.int64()) if whole else kind
    try:
        text: str | None = pa.array([value], plain).cast(kind).cast(pa.string())[0].as_py()
    except (pa.ArrowException, OverflowError):
        return None
    return text
