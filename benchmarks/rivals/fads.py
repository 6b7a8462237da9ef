"""FADS: clusters of the nearest waiting rows, and reuse of their boxes for a limited time.

Source: Guo and Zhang, Fast clustering-based anonymization approaches with time constraints for data streams
(Knowledge-Based Systems 46, 2013).

    when a row has waited for delta newer rows:
        new  <- it and the k - 1 nearest waiting rows of other people, one each
        old  <- of the clusters published within the last T_kc rows whose box holds it, the one of least loss
        fewer than k - 1 other people wait: with old's box, or suppressed if there is none
        old loses less than new:            with old's box, alone
        else:                               all k rows with new's box, which from now on can be reused

The paper counts rows that wait, not rows that arrived, and so lets a row wait longer than delta; here the oldest row
goes after exactly delta newer ones, which is the delay that is compared. At the end of the stream the rest goes out in
the same way, oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from benchmarks.rivals.stream_rows import (
    OWN,
    REUSED,
    SUPPRESSED,
    Boxes,
    StreamRelease,
    StreamRows,
    empty_boxes,
    grow,
    narrowest_holding,
    pair_loss,
    start_box,
    stream_rows,
)
from kanonflow.solvers.problem.table import Table


@dataclass(frozen=True)
class FadsParameters:
    """delta: how many newer rows a row may wait for. reuse: T_kc, for how many rows a cluster can be reused (the paper:
    a tenth of delta)."""

    k: int
    delta: int
    reuse: int


def fads(table: Table, given: FadsParameters) -> StreamRelease:
    """The release of a table's rows, which arrive in their order. O(n (delta + reuse) d / k) to k times that."""
    rows = stream_rows(table)
    n = table.records
    box, at = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    how = np.full(n, SUPPRESSED, dtype=np.int8)
    boxes = empty_boxes(n // given.k + 1, rows)
    count = _run(rows, given.k, given.delta, given.reuse, box, at, how, boxes)
    return StreamRelease(box, at, how, Boxes(*(part[:count] for part in boxes)))


@numba.njit(cache=True, nogil=True)
def _nearest(
    rows: StreamRows, row: int, until: int, at: np.ndarray, near: np.ndarray, gaps: np.ndarray
) -> int:
    """The nearest waiting rows of other people, one each, by (loss, position) into near; returns how many."""
    found = 0
    wanted = near.size
    for other in range(row + 1, until):
        if at[other] >= 0 or rows.who[other] == rows.who[row]:
            continue
        gap = pair_loss(rows, row, other)
        if found == wanted and gap >= gaps[wanted - 1]:
            continue
        place = -1
        for index in range(found):
            if rows.who[near[index]] == rows.who[other]:
                place = index
        if place >= 0 and gap >= gaps[place]:
            continue
        if place < 0:
            place = found if found < wanted else wanted - 1
            found = found + 1 if found < wanted else found
        while place > 0 and gaps[place - 1] > gap:
            gaps[place], near[place] = gaps[place - 1], near[place - 1]
            place -= 1
        gaps[place], near[place] = gap, other
    return found


@numba.njit(cache=True, nogil=True)
def _run(
    rows: StreamRows,
    k: int,
    delta: int,
    reuse: int,
    box: np.ndarray,
    at: np.ndarray,
    how: np.ndarray,
    boxes: Boxes,
) -> int:
    """Fill box, at, how and boxes; returns how many boxes there are."""
    n = rows.who.size
    near, gaps = np.zeros(k - 1, dtype=np.int64), np.zeros(k - 1)
    made = np.zeros(boxes.loss.size, dtype=np.int64)
    count, first = 0, 0
    for row in range(n):
        now = min(row + delta, n - 1)
        if at[row] >= 0:
            continue
        while first < count and now - made[first] > reuse:
            first += 1
        old = narrowest_holding(rows, boxes, first, count, row)
        found = _nearest(rows, row, now + 1, at, near, gaps)
        at[row] = now
        if found == k - 1:
            start_box(rows, boxes, count, row)
            for index in range(k - 1):
                grow(rows, boxes, count, near[index])
        if old >= 0 and (found < k - 1 or boxes.loss[old] < boxes.loss[count]):
            box[row], how[row] = old, REUSED
        elif found == k - 1:
            box[row], how[row] = count, OWN
            for index in range(k - 1):
                other = near[index]
                box[other], how[other], at[other] = count, OWN, now
            made[count] = now
            count += 1
    return count
