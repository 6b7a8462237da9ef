"""Each row of a table as bytes: what is hashed to break ties, and to name a content.

The bytes are a function of the values alone, not of chunks, offsets, dictionaries or a file format's version.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.transforms.columns.sort_keys import known, sort_keys, whole
from kanonflow.transforms.secret.seeds import encode

_DIGEST_BYTES = 16


def row_bytes(rows: pa.Table) -> NDArray[np.uint8]:
    """One line of bytes a row, uint8 (n, w); two rows of a table have equal lines exactly when they are
    equal.

    Text and bytes stand as the first 16 bytes of their SHA-256, everything else as its sort keys. O(n w).
    """
    pieces = [np.empty((rows.num_rows, 0), dtype=np.uint8)]
    for column in rows.columns:
        array = whole(column)
        pieces.append(np.asarray(array.is_valid()).astype(np.uint8)[:, None])
        if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            pieces.append(_digests(array))
        else:
            valid_or_keys = sort_keys(array)
            # The first of two keys may be the validity, which is written already.
            keys = valid_or_keys[1:] if array.null_count else valid_or_keys
            pieces += [key.astype(f"<{key.dtype.kind}8").view(np.uint8).reshape(-1, 8) for key in keys]
    return np.concatenate(pieces, axis=1)


def content_digest(rows: pa.Table) -> bytes:
    """SHA-256 of the rows in their order, with the columns' names and types: 32 bytes, in linear time."""
    names = [part for field in rows.schema for part in (field.name, str(field.type))]
    state = hashlib.sha256(encode(rows.num_rows, *names))
    for column in rows.columns:
        _hash_column(whole(column), state)
    return state.digest()


def _hash_column(array: pa.Array, state: hashlib._Hash) -> None:
    state.update(np.asarray(array.is_valid()).tobytes())
    if pa.types.is_struct(array.type):
        for part in array.flatten():
            _hash_column(part, state)
    elif pa.types.is_list(array.type):
        lengths = np.asarray(pc.list_value_length(array).fill_null(0).cast(pa.int64()))
        state.update(lengths.tobytes())
        _hash_column(array.flatten(), state)
    elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        _hash_texts(array, state)
    else:
        for key in sort_keys(array):
            state.update(key.tobytes())


def _hash_texts(array: pa.Array, state: hashlib._Hash) -> None:
    """Add all lengths (int32), then all bytes; a null counts as empty, its validity tells it apart."""
    filled = known(array.cast(pa.binary()), b"")
    _, offsets, content = filled.buffers()
    ends = np.frombuffer(offsets, dtype="<i4")[filled.offset : filled.offset + len(filled) + 1]
    state.update(np.diff(ends).tobytes())
    if content is not None and len(filled):
        state.update(content[int(ends[0]) : int(ends[-1])])


def _digests(array: pa.Array) -> NDArray[np.uint8]:
    """The digest of each value, uint8 (n, 16); zeros for a null."""
    encoded = array.dictionary_encode()
    values = encoded.dictionary.cast(pa.binary()).to_pylist()
    joined = b"".join(hashlib.sha256(value).digest()[:_DIGEST_BYTES] for value in values)
    digests = np.frombuffer(joined + bytes(_DIGEST_BYTES), dtype=np.uint8).reshape(-1, _DIGEST_BYTES)
    return digests[np.asarray(known(encoded.indices, len(values)))]
