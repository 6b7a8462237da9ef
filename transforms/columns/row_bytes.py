"""Each row of a table as words, and a table as bytes: what is hashed to break ties, and to name a content.

Both are functions of the values alone, not of chunks, offsets, dictionaries or a file format's version.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.kinds.form import present
from kanonflow.transforms.columns.sort_keys import known, sort_keys, whole
from kanonflow.transforms.secret.seeds import encode

_DIGEST_BYTES = 16
_LONGEST_TEXT = 64


def row_words(rows: pa.Table) -> NDArray[np.uint64]:
    """Each row as a line of words, uint64 (n, w) of little endian bytes; lines are equal exactly where rows are.

    First a bit for each column, whether there is a value, 64 columns a word; then the columns: text and bytes as their
    length and themselves, where one of a column is longer than 64 bytes as the first 16 bytes of their SHA-256;
    everything else as its sort keys. w follows from the columns' types, and of texts and lists from the longest: from
    the rows as a set. O(n w).
    """
    valid: list[NDArray[np.uint64]] = []
    words: list[NDArray[np.uint64]] = []
    for number, column in enumerate(rows.columns):
        array = whole(column)
        if number % 64 == 0:
            valid.append(np.zeros(rows.num_rows, dtype=np.uint64))
        bit = np.uint64(1 << number % 64)
        valid[-1] |= bit if not array.null_count else bit * np.asarray(array.is_valid()).astype(np.uint64)
        if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
            words += _text_words(array)
        else:
            valid_or_keys = sort_keys(array)
            # The first of two keys may be the validity, which is written already.
            keys = valid_or_keys[1:] if array.null_count else valid_or_keys
            words += [key.view(np.uint64) for key in keys]
    lines = np.empty((rows.num_rows, len(valid) + len(words)), dtype="<u8")
    for place, word in enumerate((*valid, *words)):
        lines[:, place] = word
    return lines


def content_digest(rows: pa.Table) -> bytes:
    """SHA-256 of the rows in their order, with the columns' names and types: 32 bytes, in linear time."""
    names = [part for field in rows.schema for part in (field.name, str(field.type))]
    state = hashlib.sha256(encode(rows.num_rows, *names))
    for column in rows.columns:
        _hash_column(whole(column), state)
    return state.digest()


def _hash_column(array: pa.Array, state: hashlib._Hash) -> None:
    state.update(present(array).tobytes())
    if pa.types.is_struct(array.type):
        for part in array.flatten():
            _hash_column(part, state)
    elif pa.types.is_list(array.type):
        lengths = np.asarray(known(array.value_lengths(), 0))
        state.update(lengths.astype(np.int64).tobytes())
        _hash_column(array.flatten(), state)
    elif pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        _hash_texts(array, state)
    else:
        for key in sort_keys(array):
            state.update(key.tobytes())


def _hash_texts(array: pa.Array, state: hashlib._Hash) -> None:
    """Add all lengths (int32), then all bytes; a null counts as empty, its validity tells it apart."""
    filled = known(array.view(pa.binary()), b"")
    ends, content = _ends(filled), filled.buffers()[2]
    state.update(np.diff(ends).tobytes())
    if content is not None and len(filled):
        state.update(content[int(ends[0]) : int(ends[-1])])


def _text_words(array: pa.Array) -> list[NDArray[np.uint64]]:
    """Words that tell texts apart, uint64 (n,) each; of a null zeros."""
    encoded = array.dictionary_encode()
    codes = np.asarray(known(encoded.indices, len(encoded.dictionary)))
    values = encoded.dictionary.view(pa.binary())
    ends = _ends(values)
    sizes = np.diff(ends)
    longest = int(sizes.max(initial=0))
    if longest > _LONGEST_TEXT:
        joined = b"".join([hashlib.sha256(value).digest()[:_DIGEST_BYTES] for value in values.to_pylist()])
        table = np.frombuffer(joined + bytes(_DIGEST_BYTES), dtype="<u8").reshape(-1, _DIGEST_BYTES // 8)
        return [word[codes] for word in table.T]
    width = 8 * -(-longest // 8)
    filled = np.zeros((len(values) + 1, width), dtype=np.uint8)
    if longest:
        content = np.frombuffer(values.buffers()[2], dtype=np.uint8)[ends[0] : ends[-1]]
        filled[:-1][np.arange(width) < sizes[:, None]] = content
    return [np.append(sizes, 0).astype(np.uint64)[codes], *(word[codes] for word in filled.view("<u8").T)]


def _ends(values: pa.Array) -> NDArray[np.int32]:
    """Where each text begins in the content, and where the last one ends, int32 (n + 1,)."""
    return np.frombuffer(values.buffers()[1], dtype="<i4")[values.offset : values.offset + len(values) + 1]
