"""Total orders over Arrow columns, as integer keys: what decides an order that depends on content alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Keys = list[NDArray[Any]]
"""Integer arrays (n,), int64 or uint64, the most significant first."""

_LARGEST = np.int64(np.iinfo(np.int64).max)


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def decimal_words(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The unscaled 128-bit values of a decimal128 column: high int64 (n,), low uint64 (n,)."""
    pairs = np.frombuffer(column.buffers()[1], dtype="<i8", count=2 * (column.offset + len(column)))
    pairs = pairs.reshape(-1, 2)[column.offset :]
    return pairs[:, 1], pairs[:, 0].view(np.uint64)


def sort_keys(column: pa.Array | pa.ChunkedArray) -> Keys:
    """Integer keys, the most significant first, whose lexicographic order is a total order of the values.

    Rows have equal keys exactly when they have equal values (-0.0 and 0.0 differ). Nulls come first, numbers
    and instants in their order, text and bytes by their bytes, structs by their parts, lists like words.
    Integer arrays of n entries each. O(n) but for text and lists, which are ranked: O(n log n).
    """
    array = whole(column)
    kind = array.type
    if pa.types.is_struct(kind):
        keys = [key for part in array.flatten() for key in sort_keys(part)]
        return [*_validity(array), *keys]
    if pa.types.is_list(kind):
        return _list_keys(array)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return [_text_ranks(array)]
    return [*_validity(array), *_plain_keys(array)]


def _validity(array: pa.Array) -> Keys:
    if array.null_count == 0:
        return []
    return [np.asarray(array.is_valid()).astype(np.int64)]


def _plain_keys(array: pa.Array) -> Keys:
    kind = array.type
    valid = np.asarray(array.is_valid())
    if pa.types.is_decimal(kind):
        high, low = decimal_words(array)
        return [np.where(valid, high, 0), np.where(valid, low, 0)]
    if pa.types.is_floating(kind):
        bits = np.asarray(array.cast(pa.float64()).fill_null(0.0)).view(np.int64)
        # Negative doubles count downward in their bits; turning all but the sign makes them count up.
        return [np.where(bits < 0, bits ^ _LARGEST, bits)]
    if pa.types.is_boolean(kind):
        return [np.asarray(array.fill_null(False)).astype(np.int64)]
    return [whole_numbers(array)]


def whole_numbers(array: pa.Array) -> NDArray[np.int64]:
    """Integers, days or instants as int64 (n,) in their own unit; nulls are 0."""
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    return np.asarray(array.cast(pa.int64()).fill_null(0))


def _text_ranks(array: pa.Array) -> NDArray[np.int64]:
    encoded = array.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), dtype=np.int64)
    ranks[np.asarray(pc.array_sort_indices(encoded.dictionary))] = np.arange(1, len(encoded.dictionary) + 1)
    codes = np.asarray(encoded.indices.fill_null(-1))
    return np.append(ranks, 0)[codes]


def _list_keys(array: pa.Array) -> Keys:
    """Lists compared element by element, a shorter one before its extensions, a null before the empty one."""
    sizes = np.asarray(array.value_lengths().fill_null(0)).astype(np.int64)
    items = dense_ranks(sort_keys(array.flatten())) + 1
    longest = int(sizes.max()) if sizes.size else 0
    bits = max(1, int(items.max()).bit_length()) if items.size else 1
    a_key = 63 // bits
    # The list as digits, the validity first and 0 behind the last item; as many digits as fit make one key.
    digits = np.zeros((len(array), -(-(longest + 1) // a_key) * a_key), dtype=np.int64)
    digits[:, 0] = np.asarray(array.is_valid())
    row = np.repeat(np.arange(len(array)), sizes)
    place = np.arange(items.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    digits[row, place + 1] = items
    weights = np.int64(1) << (bits * np.arange(a_key - 1, -1, -1, dtype=np.int64))
    return list((digits.reshape(len(array), -1, a_key) @ weights).T)


def dense_ranks(keys: Keys) -> NDArray[np.int64]:
    """The rank (from 0, equal keys share one) of each row under keys, the most significant first."""
    order = np.lexsort(keys[::-1])
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = np.cumsum(changes(keys, order)) - 1
    return ranks


def changes(keys: Keys, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each place in a sorted order: whether its row differs from the one before (the first one does)."""
    differs = np.zeros(order.size, dtype=np.bool_)
    differs[:1] = True
    for key in keys:
        sorted_key = key[order]
        differs[1:] |= sorted_key[1:] != sorted_key[:-1]
    return differs
