"""Is every box the least one of its grid around records that it holds?

A box wider than its members need, an end off the grid, a value of a set that nobody has: none of these breaks
k-concealment, and each can carry what nobody should read (digits of a card number in an end of a range). Members are
not published; but they lie in the box, so what the records in the box cannot explain, no members can:

    range       a fixed grid: the end is the grid line next to the outermost record in the box, or the domain's end.
                ``auto``: some step explains both ends so, and some two records lie as far apart as that step asks.
    nulls       the box holds null only if a record in it has none.
    set         every value is that of a record in the box.
    label       the lowest node over records in the box (not where the policy publishes at levels).

Why a fixed grid is decided by the outermost record a alone: the members' least value m has a <= m, and snapping keeps
order, so line(a) <= line(m) = low; and a lies in the box, so low <= line(a).

With closed classes the records of a box are its class's, where the payload tells them (audit_payload). The lines of
grids are worked out here anew (audit_lines).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import CandidateGraph, RecordGroups
from kanonflow.pipelines.audit.judge.lines import unexplained
from kanonflow.pipelines.audit.read.boxes import BoxBook
from kanonflow.pipelines.audit.read.findings import Findings
from kanonflow.pipelines.audit.read.read_releases import ReleaseHead
from kanonflow.pipelines.audit.read.values import Unreadable

_MOST_PAIRS = 4_000_000
_MOST_CELLS = 64_000_000


@dataclass(frozen=True)
class HeldBoxes:
    """Boxes and the records in them. boxes: int32 (b, d), number of each group's box of each field; release: int32
    (b,); graph: the records that may be in each box; records: their groups, codes as the graph numbers them; size:
    int64 (b,), rows with the box."""

    boxes: np.ndarray
    release: np.ndarray
    graph: CandidateGraph
    records: RecordGroups


def judge_boxes(
    held: HeldBoxes,
    books: Sequence[BoxBook],
    heads: Sequence[ReleaseHead],
    findings: Findings,
    *,
    as_low: bool,
) -> None:
    """Note boxes that the records in them do not explain. O(pairs d), in slices of bounded memory.

    as_low: whether a label is to be the lowest over records in its box.
    """
    for field, message, bad in box_faults(held, books, as_low=as_low):
        if bad.any():
            findings.add(
                f"field {field}: {message}",
                *(heads[number].release_id for number in np.unique(held.release[bad])),
            )


def box_faults(
    held: HeldBoxes, books: Sequence[BoxBook], *, as_low: bool = True
) -> Iterator[tuple[str, str, np.ndarray]]:
    """Name of a field, what is wrong with boxes there, and which, bool (b,). O(pairs d), in slices."""
    for field, book in enumerate(books):
        codes = held.records.codes[:, field]
        judged = _of_sets(held, field, book, codes, as_low) if book.is_set else None
        for message, bad in judged or _of_ranges(held, field, book, codes):
            yield book.book.column.name, message, bad


def _slices(graph: CandidateGraph, most: int) -> Iterator[tuple[int, int]]:
    """Runs of boxes with at most ``_MOST_PAIRS`` pairs (or one box) and at most ``most`` boxes."""
    start, boxes = 0, len(graph.indptr) - 1
    while start < boxes:
        stop = int(np.searchsorted(graph.indptr, graph.indptr[start] + _MOST_PAIRS, side="right")) - 1
        stop = min(max(stop, start + 1), start + most, boxes)
        yield start, stop
        start = stop


def _pairs(graph: CandidateGraph, start: int, stop: int, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Box, counted from ``start``, and code of each pair of boxes start..stop."""
    own = graph.indptr[start : stop + 1]
    return np.repeat(np.arange(stop - start), np.diff(own)), codes[graph.columns[own[0] : own[-1]]]


def _of_ranges(
    held: HeldBoxes, field: int, book: BoxBook, codes: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    count = len(held.boxes)
    least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    null = np.zeros(count, bool)
    for start, stop in _slices(held.graph, _MOST_CELLS):
        box, code = _pairs(held.graph, start, stop, codes)
        null[start:stop] |= np.bincount(box[code < 0], minlength=stop - start) > 0
        box, code = box[code >= 0], code[code >= 0]
        np.minimum.at(least[start:stop], box, code)
        np.maximum.at(most[start:stop], box, code)
    boxes = book.boxes
    told = [boxes[number] for number in held.boxes[:, field].tolist()]
    says_null = np.array([box.nulls for box in told], bool)
    ranged = np.array([box.low is not None for box in told], bool)
    yield "a range holds null, and no record in its box has none", says_null & ~null
    yield "a range that no record in its box has a value for", ranged & (most < 0)
    values = readable_values(book)
    asked = ranged & (most >= 0)
    bad = np.zeros(count, bool)
    if asked.any():
        low = np.array([box.low for box, ask in zip(told, asked, strict=True) if ask])
        high = np.array([box.high for box, ask in zip(told, asked, strict=True) if ask])
        bad[asked] = unexplained(low, high, values[least[asked]], values[most[asked]], book.book.column)
    yield "an end that is not the line of its grid next to a record in the box", bad


def readable_values(book: BoxBook) -> np.ndarray:
    """The values of a range field by rank. What is unreadable ranks above all, and lies in no box."""
    return np.sort(np.array([value for value in book.book.values if not isinstance(value, Unreadable)]))


def _of_sets(
    held: HeldBoxes, field: int, book: BoxBook, codes: np.ndarray, as_low: bool
) -> Iterator[tuple[str, np.ndarray]]:
    says_null = np.array([box.nulls for box in book.boxes], bool)[held.boxes[:, field]]
    # The boxes are asked first: with them a tree may bring values. Null is the last column.
    width = len(book.book.values) + 1
    count = len(held.boxes)
    null, idle = np.zeros(count, bool), np.zeros(count, bool)
    numbers = held.boxes[:, field]
    step = max(1, _MOST_CELLS // width)
    for start, stop in _slices(held.graph, step):
        box, code = _pairs(held.graph, start, stop, codes)
        there = np.zeros((stop - start, width), bool)
        there[box, code] = True
        null[start:stop] = there[:, -1]
        for number in np.unique(numbers[start:stop]).tolist():
            own = np.flatnonzero(numbers[start:stop] == number)
            idle[start + own] = _idle(book, number, there[own])
    if not book.labels:
        yield "a set holds null, and no record in its box has none", says_null & ~null
        yield "a set with values that no record in its box has", idle
        return
    if as_low:
        yield "a label that is not the lowest over any records in its box", idle


def _idle(book: BoxBook, number: int, there: np.ndarray) -> np.ndarray:
    """Whether records with the values of each row of ``there``, bool (x, codes + null), leave the box unexplained."""
    box = book.boxes[number]
    if not book.labels:
        return np.logical_not(there[:, list(book.needed(number))].all(axis=1))
    if not box.codes:
        return ~there[:, -1]
    below = book.children(number)
    reached = np.column_stack([there[:, group].any(axis=1) for group in below.values()])
    lowest: np.ndarray = reached.sum(axis=1) > 1
    if book.keys[number] in below:
        lowest = reached[:, 0]
    if box.nulls:
        lowest |= there[:, -1] & reached.any(axis=1)
    return np.logical_not(lowest)
