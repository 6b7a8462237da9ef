"""Splitting rows by partition and window, once, while they are still columns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.text_values import render_text
from kanonflow.schemas.value_units import to_units

END_OF_TIME_MS = 253_402_300_799_000
"""9999-12-31T23:59:59 UTC: what a policy without windows schedules its only window's end for."""

Part = tuple[tuple[str | None, ...], int, pa.RecordBatch]


def window_numbers(times: pa.Array | pa.ChunkedArray, policy: Policy) -> NDArray[np.int64]:
    """Numbers (n,) of the windows of event times (timestamp ms): floor((t - offset) / size).

    The arithmetic of Beam's FixedWindows in integer milliseconds. Without a window: all 0; a null: as 0 ms.
    """
    if policy.window_ms is None:
        return np.zeros(len(times), dtype=np.int64)
    milliseconds, _ = to_units(times)
    return (milliseconds - policy.window_offset_ms) // policy.window_ms


def window_bounds(number: int, policy: Policy) -> tuple[int | None, int | None]:
    """Start (inclusive) and end (exclusive) of a window in milliseconds since 1970 UTC; None without one."""
    if policy.window_ms is None:
        return None, None
    start = number * policy.window_ms + policy.window_offset_ms
    return start, start + policy.window_ms


def window_end(number: int, policy: Policy) -> int:
    """End of a window in ms; of the only one without windows, the end of time."""
    end = window_bounds(number, policy)[1]
    return END_OF_TIME_MS if end is None else end


def split(rows: pa.Table, bound: BoundPolicy) -> list[Part]:
    """Rows in the canonical schema, as (partition values as canonical text, window number, rows).

    Partitions come in the order of their first row, the windows of a partition in the order of time, and rows
    keep their order within a part. No part is empty. O(n log n), vectorised.
    """
    return [part for part, _ in split_numbered(rows, np.arange(rows.num_rows), bound)]


def split_numbered(
    rows: pa.Table, numbers: NDArray[np.int64], bound: BoundPolicy
) -> list[tuple[Part, NDArray[np.int64]]]:
    """The parts of ``split``, each with the numbers of its rows.     numbers: int64 (n,), of each row."""
    if rows.num_rows == 0:
        return []
    policy = bound.policy
    codes, values = partition_codes(rows, policy.partition_by)
    time = policy.time
    windows = window_numbers(rows.column(time.name), policy) if time else np.zeros(rows.num_rows, np.int64)
    order = np.lexsort((windows, codes))
    if np.all(order[:-1] < order[1:]):
        batch = _one_batch(rows)
    else:
        batch = _one_batch(rows.take(pa.array(order)))
        codes, windows, numbers = codes[order], windows[order], numbers[order]
    changes = (np.diff(codes) != 0) | (np.diff(windows) != 0)
    borders = [0, *(np.flatnonzero(changes) + 1).tolist(), rows.num_rows]
    return [
        (
            (values[int(codes[start])], int(windows[start]), batch.slice(start, end - start)),
            numbers[start:end],
        )
        for start, end in pairwise(borders)
    ]


def partition_codes(
    rows: pa.Table, names: tuple[str, ...]
) -> tuple[NDArray[np.int64], list[tuple[str | None, ...]]]:
    """A code (n,) for the partition of each row, by first appearance, and each code's values."""
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    values: list[tuple[str | None, ...]] = [()]
    for name in names:
        column = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        texts = render_text(column.dictionary).to_pylist()
        own = np.asarray(column.indices).astype(np.int64)
        pairs, first, inverse = np.unique(codes * len(texts) + own, return_index=True, return_inverse=True)
        by_appearance = np.argsort(first)
        rank = np.empty_like(by_appearance)
        rank[by_appearance] = np.arange(len(by_appearance))
        codes = rank[inverse]
        pairs = pairs[by_appearance]
        values = [(*values[int(pair) // len(texts)], texts[int(pair) % len(texts)]) for pair in pairs]
    return codes, values


def part_codes(rows: pa.Table, policy: Policy) -> NDArray[np.int64]:
    """The part of its window that each row is in (``split_by``), int64 (n,), 0 where windows are not split.

    Numbered in the order of the parts' values, nulls first: an order of rows is one of people.
    """
    if not policy.split_by:
        return np.zeros(rows.num_rows, dtype=np.int64)
    codes, values = partition_codes(rows, policy.split_by)
    order = sorted(
        range(len(values)), key=lambda code: [(text is not None, text or "") for text in values[code]]
    )
    return np.argsort(order)[codes] if order else codes


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_array(column) for column in rows.columns], schema=rows.schema)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
