"""Each row of a table as words, and a table as bytes: what is hashed to break ties, and to name a content.

Both are functions of the values alone, not of chunks, offsets, dictionaries or a file format's version.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.kinds.form import FEW, by_bytes, present
from kanonflow.transforms.columns.sort_keys import known, sort_keys, whole
from kanonflow.transforms.secret.seeds import encode

Words = NDArray[np.uint64]
_DIGEST_BYTES = 16
_LONGEST_TEXT = 64


def row_words(rows: pa.Table) -> NDArray[np.uint64]:
    """Each row as a line of words, uint64 (n, w) of little endian bytes; lines are equal exactly where rows are.

    First a bit for each column, whether there is a value, 64 columns a word; then the columns: text and bytes as their
    length and themselves, where one of a column is longer than 64 bytes as the first 16 bytes of their SHA-256;
    everything else as its sort keys. w follows from the columns' types, and of texts and lists from the longest: from
    the rows as a set. O(n w).
    """
    valid: list[Words] = []
    words: list[Words] = []
    for number, column in enumerate(rows.columns):
        array = whole(column)
        if number % 64 == 0:
            valid.append(np.zeros((rows.num_rows, 1), dtype=np.uint64))
        bit = np.uint64(1 << number % 64)
        valid[-1][:, 0] |= bit if not array.null_count else bit * present(array).astype(np.uint64)
        if by_bytes(array.type):
            words += _text_words(array)
        else:
            valid_or_keys = sort_keys(array)
            # The first of two keys may be the validity, which is written already.
            keys = valid_or_keys[1:] if array.null_count else valid_or_keys
            words += [key.view(np.uint64)[:, None] for key in keys]
    return np.concatenate([*valid, *words], axis=1).astype("<u8", copy=False)


def content_digest(rows: pa.Table) -> bytes:
    """SHA-256 of the rows in their order, with the columns' names and types: 32 bytes, in linear time."""
    names = [part for field in rows.schema for part in (field.name, str(field.type))]
    state = hashlib.sha256(encode(rows.num_rows, *names))
    for column in rows.columns:
        _hash_column(whole(column), state)
    return state.digest()


def _hash_column(array: pa.Array, state: hashlib._Hash) -> None:
    state.update(present(array).tobytes() if array.null_count else b"\x01" * len(array))
    if by_bytes(array.type):
        _hash_texts(array, state)
    elif not array.type.num_fields:
        for key in sort_keys(array):
            state.update(key.tobytes())
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            _hash_column(part, state)
    else:
        lengths = np.asarray(known(array.value_lengths(), 0))
        state.update(lengths.astype(np.int64).tobytes())
        _hash_column(array.flatten(), state)


def _hash_texts(array: pa.Array, state: hashlib._Hash) -> None:
    """Add all lengths (int32), then all bytes; a null counts as empty, its validity tells it apart."""
    ends, content = _content(array)
    state.update((ends[1:] - ends[:-1]).tobytes())
    state.update(content)


def _text_words(array: pa.Array) -> list[Words]:
    """Words that tell texts apart, uint64 (n, 1) and (n, as many as the longest takes); of a null zeros."""
    codes: NDArray[np.integer] | slice = slice(None)
    if len(array) > FEW:
        # What is repeated is looked at once.
        encoded = array.dictionary_encode()
        codes = np.asarray(known(encoded.indices, len(encoded.dictionary)))
        array = pa.concat_arrays([encoded.dictionary, pa.nulls(1, array.type)])
    ends, content = _content(array)
    sizes = ends[1:] - ends[:-1]
    longest = int(sizes.max(initial=0))
    if longest > _LONGEST_TEXT:
        texts = (content[begin:end] for begin, end in pairwise(ends.tolist()))
        digests = b"".join([hashlib.sha256(text).digest()[:_DIGEST_BYTES] for text in texts])
        table = np.frombuffer(digests, dtype="<u8").reshape(-1, _DIGEST_BYTES // 8)
        return [np.where(present(array)[:, None], table, np.uint64(0))[codes]]
    width = 8 * -(-longest // 8)
    filled = np.zeros((len(array), width), dtype=np.uint8)
    filled[np.arange(width) < sizes[:, None]] = np.frombuffer(content, dtype=np.uint8)
    return [sizes.astype(np.uint64)[codes, None], filled.view("<u8")[codes]]


def _content(array: pa.Array) -> tuple[NDArray[np.int32], bytes | memoryview]:
    """Where each text begins in the content, and where the last one ends, int32 (n + 1,); and the content. Of a null
    there is none."""
    if array.null_count and len(array) <= FEW:
        texts = [text or b"" for text in array.view(pa.binary()).to_pylist()]
        return np.cumsum([0, *map(len, texts)], dtype=np.int32), b"".join(texts)
    array = known(array.view(pa.binary()), b"")
    if not len(array):
        return np.zeros(1, dtype=np.int32), b""
    _, offsets, content = array.buffers()
    ends = np.frombuffer(offsets, dtype="<i4", count=len(array) + 1, offset=4 * array.offset)
    begin = int(ends[0])
    return ends - begin, b"" if content is None else memoryview(content)[begin : int(ends[-1])]
