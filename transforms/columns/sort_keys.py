"""Total orders over Arrow columns, as integer keys: what decides an order that depends on content alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kanonflow.schemas.kinds.form import FEW, as_type, by_bytes, present, ranks_of_few
from kanonflow.schemas.kinds.forms import form_of

Keys = list[NDArray[Any]]
"""Integer arrays (n,), int64 or uint64, the most significant first."""

_PACKED = 1 << 62


def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array, without a copy where it is one."""
    if type(column) is not pa.ChunkedArray:
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def sort_keys(column: pa.Array | pa.ChunkedArray) -> Keys:
    """Integer keys, the most significant first, whose lexicographic order is a total order of the values.

    Rows have equal keys exactly when they have equal values (-0.0 and 0.0 differ). Nulls come first, numbers
    and instants in their order, text and bytes by their bytes, structs by their parts, lists like words.
    Integer arrays of n entries each. O(n) but for text and lists, which are ranked: O(n log n).
    """
    array = whole(column)
    kind = array.type
    if by_bytes(kind):
        return [_text_ranks(array)]
    if not kind.num_fields:
        return [*_validity(array), *form_of(kind).keys(array)]
    if pa.types.is_struct(kind):
        keys = [key for part in array.flatten() for key in sort_keys(part)]
        return [*_validity(array), *keys]
    return _list_keys(array)


def _validity(array: pa.Array) -> Keys:
    if array.null_count == 0:
        return []
    return [np.asarray(array.is_valid()).astype(np.int64)]


def whole_numbers(array: pa.Array) -> NDArray[np.int64]:
    """Integers, days or instants as int64 (n,) in their own unit; nulls are 0."""
    if pa.types.is_date32(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.view(pa.int64())
    return np.asarray(known(as_type(array, pa.int64()), 0))


def known(array: pa.Array, value: Any) -> pa.Array:
    """The array with a value in the place of nulls. Where there are none it is left alone: asking Arrow costs more."""
    return array.fill_null(value) if array.null_count else array


def _text_ranks(array: pa.Array) -> NDArray[np.int64]:
    if array.null_count == len(array):
        return np.zeros(len(array), dtype=np.int64)
    if len(array) <= FEW:
        return ranks_of_few(array)[0]
    encoded = array.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), dtype=np.int64)
    ranks[np.asarray(pc.array_sort_indices(encoded.dictionary))] = np.arange(1, len(encoded.dictionary) + 1)
    codes = np.asarray(known(encoded.indices, -1))
    return np.append(ranks, 0)[codes]


def _list_keys(array: pa.Array) -> Keys:
    """Lists compared element by element, a shorter one before its extensions, a null before the empty one."""
    sizes = np.asarray(known(array.value_lengths(), 0)).astype(np.int64)
    items = dense_ranks(sort_keys(array.flatten())) + 1
    longest = int(sizes.max()) if sizes.size else 0
    bits = max(1, int(items.max()).bit_length()) if items.size else 1
    a_key = 63 // bits
    # The list as digits, the validity first and 0 behind the last item; as many digits as fit make one key.
    digits = np.zeros((len(array), -(-(longest + 1) // a_key) * a_key), dtype=np.int64)
    digits[:, 0] = present(array)
    row = np.repeat(np.arange(len(array)), sizes)
    place = np.arange(items.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    digits[row, place + 1] = items
    weights = np.int64(1) << (bits * np.arange(a_key - 1, -1, -1, dtype=np.int64))
    return list((digits.reshape(len(array), -1, a_key) @ weights).T)


def dense_ranks(keys: Keys) -> NDArray[np.int64]:
    """The rank (from 0, equal keys share one) of each row under keys, the most significant first."""
    packed = _packed(keys)
    if packed is None:
        order = np.lexsort(keys[::-1])
    else:
        # Of equal keys any may stand first: they share a rank.
        keys, order = [packed], packed.argsort()
    ranks = np.empty(order.size, dtype=np.int64)
    ranks[order] = changes(keys, order).cumsum() - 1
    return ranks


def _packed(keys: Keys) -> NDArray[np.int64] | None:
    """One key in the place of several, where their ranges fit into 62 bits; None: they do not."""
    size, packed = 1, np.zeros(keys[0].size if keys else 0, dtype=np.int64)
    if packed.size == 0:
        return None
    for key in keys:
        low = int(key.min())
        width = int(key.max()) - low + 1
        size *= width
        if size >= _PACKED:
            return None
        packed = packed * width + (key - key.dtype.type(low)).astype(np.int64)
    return packed


def changes(keys: Keys, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each place in a sorted order: whether its row differs from the one before (the first one does)."""
    differs = np.zeros(order.size, dtype=np.bool_)
    differs[:1] = True
    for key in keys:
        sorted_key = key[order]
        differs[1:] |= sorted_key[1:] != sorted_key[:-1]
    return differs


def runs(*columns: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where rows begin that differ from the one before them, and how often each stands there: both int64 (runs,).

    Two values that are equal may be told apart (a null's hidden content, -0.0 and 0.0); two that differ never are not.
    O(n), and a dictionary for text and for the items of lists.
    """
    n = len(columns[0]) if columns else 0
    begins = np.ones(n, dtype=np.bool_)
    if n:
        begins[1:] = np.logical_or.reduce([_differs(column) for column in columns])
    heads = np.flatnonzero(begins)
    return heads, np.diff(heads, append=n)


def _differs(array: pa.Array) -> NDArray[np.bool_]:
    """Whether each value but the first is another than the one before it: bool (n - 1,), n at least 1."""
    kind = array.type
    found = np.zeros(len(array) - 1, dtype=np.bool_)
    if array.null_count:
        valid = np.asarray(array.is_valid())
        found |= valid[1:] != valid[:-1]
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            found |= _differs(array.field(index))
    elif pa.types.is_list(kind):
        found |= _lists_differ(array)
    else:
        for key in _codes(array):
            found |= key[1:] != key[:-1]
    return found


def _codes(array: pa.Array) -> Keys:
    """Integers that tell values apart."""
    if by_bytes(array.type):
        return [np.asarray(known(array.dictionary_encode().indices, -1))]
    return form_of(array.type).keys(array)


def _lists_differ(array: pa.ListArray) -> NDArray[np.bool_]:
    ends = np.asarray(array.offsets).astype(np.int64)
    sizes = np.diff(ends)
    other = sizes[1:] != sizes[:-1]
    items = array.values.slice(int(ends[0]), int(ends[-1] - ends[0]))
    if not len(items):
        return other
    # Of lists as long as the one before, each item against the one that stands in its place there.
    as_long = np.flatnonzero(~other) + 1
    row = np.repeat(as_long, sizes[as_long])
    begins = np.cumsum(sizes[as_long]) - sizes[as_long]
    places = ends[row] - ends[0] + np.arange(row.size) - np.repeat(begins, sizes[as_long])
    nulls = [] if not items.null_count else [np.asarray(items.is_valid())]
    for key in (*nulls, *_codes(items)):
        changed = key[places] != key[places - sizes[row]]
        other[row[changed] - 1] = True
    return other
