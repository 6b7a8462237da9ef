"""Which points lie in which boxes, of one partition and there by then? Which cohorts do, with all of their corners?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kanonflow.pipelines.audit.judge.candidate_graph import RecordGroups, RowGroups, candidate_graph
from kanonflow.pipelines.audit.lasting.rosters import Rosters
from kanonflow.pipelines.audit.read.boxes import BoxBook, encode_boxes, encode_records, outside_boxes
from kanonflow.pipelines.audit.read.equal_rows import runs

_MOST_TESTS = 100_000_000
_EVER = -(2**62)


class Points(NamedTuple):
    """codes: int32 (n, d), of the quasi-identifiers. partition: int32 (n,). since: int64 (n,), when each was there."""

    codes: np.ndarray
    partition: np.ndarray
    since: np.ndarray


class Boxes(NamedTuple):
    """numbers: int32 (g, d), of the box of each field. partition: int32 (g,), -1 is none. until: int64 (g,)."""

    numbers: np.ndarray
    partition: np.ndarray
    until: np.ndarray


def pairs_in_boxes(
    points: Points, boxes: Boxes, books: Sequence[BoxBook]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of a box and a point in it, int64 each, ascending by box; some boxes at a time, so that memory is bounded.

    A point counts from ``since`` on, a box until ``until``. O(pairs that the most selective field leaves).
    """
    count, total = len(points.codes), len(boxes.numbers)
    if not count or not total:
        return
    encoded = encode_boxes(books)
    fields = range(len(books))
    records = RecordGroups(
        np.ascontiguousarray(encode_records(points.codes, books), np.int32),
        points.partition.astype(np.int32),
        points.since.astype(np.int64),
        np.ones(count, np.int64),
        np.arange(count, dtype=np.int32),
    )
    step = max(1, _MOST_TESTS // count)
    for start in range(0, total, step):
        chosen = slice(start, min(start + step, total))
        numbers = boxes.numbers[chosen]
        size = len(numbers)
        until = boxes.until[chosen].astype(np.int64)
        rows = RowGroups(
            low=np.column_stack([encoded.low[field][numbers[:, field]] for field in fields]),
            high=np.column_stack([encoded.high[field][numbers[:, field]] for field in fields]),
            nulls=np.column_stack([encoded.nulls[field][numbers[:, field]] for field in fields]),
            set_of=np.column_stack([encoded.set_of[field][numbers[:, field]] for field in fields]),
            sets=encoded.sets,
            partition=boxes.partition[chosen].astype(np.int32),
            first_window=np.full(size, _EVER),
            last_window=until,
            release=np.zeros(size, np.int32),
            size=np.ones(size, np.int64),
            group_of=np.arange(size, dtype=np.int32),
        )
        graph = candidate_graph(records, rows)
        yield np.repeat(np.arange(size), np.diff(graph.indptr)) + start, graph.columns.astype(np.int64)


def cohorts_in_boxes(
    rosters: Rosters, since: np.ndarray, partition: np.ndarray, boxes: Boxes, books: Sequence[BoxBook]
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a box and a cohort that lies in it with all of its corners, int64 each, ascending by box.

    since: int64 (c,), when each cohort entered; partition: int32 (c,), as of ``boxes``.
    O(pairs with a first corner in the box, times corners).
    """
    first = rosters.starts[:-1]
    encoded = encode_boxes(books)
    told: list[tuple[np.ndarray, np.ndarray]] = []
    for box, cohort in pairs_in_boxes(Points(rosters.corners[first], partition, since), boxes, books):
        owner, corner = corners_of(rosters, cohort)
        points = encode_records(rosters.corners[corner], books)
        outside = outside_boxes(encoded, boxes.numbers[box[owner]], points, books)
        held = np.ones(len(box), bool)
        held[owner[outside]] = False
        told.append((box[held], cohort[held]))
    empty = np.zeros(0, np.int64)
    return (
        np.concatenate([empty, *(each[0] for each in told)]),
        np.concatenate([empty, *(each[1] for each in told)]),
    )


def corners_of(rosters: Rosters, cohorts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The corners of some cohorts one after the other: the place of each one's cohort among them, and its own place."""
    return runs(rosters.starts[cohorts], rosters.starts[cohorts + 1])
