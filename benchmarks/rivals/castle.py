"""CASTLE: clusters that grow with the stream, and a row that is about to expire takes its cluster with it.

Source: Cao, Carminati, Ferrari, Tan, CASTLE: continuously anonymizing data streams (IEEE Transactions on Dependable and
Secure Computing 8(3), 2011; ICDE 2008), algorithms 1-5.

    a row arrives: the open cluster that it enlarges least, if its loss then stays within tau; else a new cluster, or,
                   with beta of them open, the one it enlarges least
    a row has waited for delta newer ones:
        k people in its cluster:         the whole cluster goes out; with 2k or more people it is split first
        else a finished box holds it:    it goes out alone, with that box
        else more than half of the open clusters are larger, or fewer than k people wait: it is suppressed
        else its cluster takes in others, those that enlarge it least, until it has k people, and goes out
    finished boxes can be reused for ever if they lose at most tau, the mean loss of the last mu finished ones

Where the paper leaves a choice to chance this takes one: of finished boxes that hold a row the one of least loss, of
rows to begin a part of a cluster with the oldest, of a person's rows in a cluster the oldest. A cluster that a row
leaves alone shrinks to the rows that stay. All three cost the rival nothing. Sizes are numbers of people. At the end of
the stream the rest goes out in the same way, oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.rivals.stream_rows import (
    OWN,
    REUSED,
    SUPPRESSED,
    Boxes,
    StreamRelease,
    StreamRows,
    copy_box,
    empty_boxes,
    enlargement,
    grow,
    narrowest_holding,
    pair_loss,
    start_box,
    stream_rows,
    union_growth,
)
from kanonflow.solvers.problem.table import Table

TOLERANCE = 1e-12
"""Sums of a box's growth differ in the last digits; losses closer than this are equal."""


@dataclass(frozen=True)
class CastleParameters:
    """delta: how many newer rows a row may wait for. beta: open clusters at most (the paper: 50). mu: finished clusters
    that tau is the mean loss of (the paper: 100)."""

    k: int
    delta: int
    beta: int = 50
    mu: int = 100


class _Open(NamedTuple):
    """The open clusters, beta places.

    boxes: their hulls. people, size: int64 (beta,), people and rows; a place with no rows is free. head, tail:
    int64 (beta,), first and last row; following: int64 (n,), the next row of the same cluster, -1 after the last.
    of_row: int64 (n,), the cluster of each row that waits.
    """

    boxes: Boxes
    people: NDArray[np.int64]
    size: NDArray[np.int64]
    head: NDArray[np.int64]
    tail: NDArray[np.int64]
    following: NDArray[np.int64]
    of_row: NDArray[np.int64]


class _Out(NamedTuple):
    """What went out: box, at, how as in ``StreamRelease``, room for its boxes, which of them can be reused.

    finished: the boxes that can be reused, in places 0 .. ; number: int64, their numbers among all. recent: float64
    (mu,), losses of the last finished ones, a ring. count: int64 (3,), boxes, reusable boxes, losses noted so far.
    """

    box: NDArray[np.int64]
    at: NDArray[np.int64]
    how: NDArray[np.int8]
    boxes: Boxes
    finished: Boxes
    number: NDArray[np.int64]
    recent: NDArray[np.float64]
    count: NDArray[np.int64]


def castle(table: Table, given: CastleParameters) -> StreamRelease:
    """The release of a table's rows, which arrive in their order. O(n (beta + reusable boxes) d) and the splits."""
    rows = stream_rows(table)
    n, most = table.records, table.records // given.k + 1
    places = [np.zeros(given.beta, dtype=np.int64) for _ in range(4)]
    opened = _Open(
        empty_boxes(given.beta, rows), *places, np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    )
    out = _Out(
        np.full(n, -1, dtype=np.int64),
        np.full(n, -1, dtype=np.int64),
        np.full(n, SUPPRESSED, dtype=np.int8),
        empty_boxes(most, rows),
        empty_boxes(most, rows),
        np.zeros(most, dtype=np.int64),
        np.zeros(given.mu),
        np.zeros(3, dtype=np.int64),
    )
    _run(rows, given.k, given.delta, opened, out)
    boxes = Boxes(*(part[: out.count[0]] for part in out.boxes))
    return StreamRelease(out.box, out.at, out.how, boxes)


@numba.njit(cache=True, nogil=True)
def _tau(out: _Out) -> float:
    """Mean loss of the last mu finished clusters; 0 before the first."""
    noted = min(out.count[2], out.recent.size)
    total = 0.0
    for index in range(noted):
        total += out.recent[index]
    return total / max(noted, 1)


@numba.njit(cache=True, nogil=True)
def _add(rows: StreamRows, opened: _Open, cluster: int, row: int) -> None:
    """Put a row into a cluster, as its last."""
    newcomer = True
    member = opened.head[cluster] if opened.size[cluster] else -1
    while member >= 0:
        if rows.who[member] == rows.who[row]:
            newcomer = False
            member = -1
        else:
            member = opened.following[member]
    if opened.size[cluster] == 0:
        start_box(rows, opened.boxes, cluster, row)
        opened.head[cluster] = row
    else:
        grow(rows, opened.boxes, cluster, row)
        opened.following[opened.tail[cluster]] = row
    opened.tail[cluster] = row
    opened.following[row] = -1
    opened.of_row[row] = cluster
    opened.size[cluster] += 1
    opened.people[cluster] += 1 if newcomer else 0


@numba.njit(cache=True, nogil=True)
def _arrive(rows: StreamRows, opened: _Open, row: int, tau: float) -> None:
    """Best selection: the cluster of a new row."""
    best, fitting, free = -1, -1, -1
    least = np.inf
    for cluster in range(opened.size.size):
        if opened.size[cluster] == 0:
            free = cluster if free < 0 else free
            continue
        growth = enlargement(rows, opened.boxes, cluster, row)
        if growth < least - TOLERANCE:
            least, best, fitting = growth, -1, -1
        if growth <= least + TOLERANCE:
            if best < 0 or opened.people[cluster] < opened.people[best]:
                best = cluster
            fits = opened.boxes.loss[cluster] + growth <= tau + TOLERANCE
            if fits and (fitting < 0 or opened.people[cluster] < opened.people[fitting]):
                fitting = cluster
    chosen = fitting if fitting >= 0 else free if free >= 0 else best
    _add(rows, opened, chosen, row)


@numba.njit(cache=True, nogil=True)
def _take(rows: StreamRows, opened: _Open, cluster: int) -> np.ndarray:
    """The rows of a cluster, oldest first; the cluster is no more."""
    members = np.empty(opened.size[cluster], dtype=np.int64)
    member = opened.head[cluster]
    for index in range(members.size):
        members[index] = member
        member = opened.following[member]
    opened.size[cluster] = 0
    opened.people[cluster] = 0
    return np.sort(members)


@numba.njit(cache=True, nogil=True)
def _leave(rows: StreamRows, opened: _Open, row: int) -> None:
    """One row leaves its cluster, which shrinks to the others."""
    cluster = opened.of_row[row]
    for member in _take(rows, opened, cluster):
        if member != row:
            _add(rows, opened, cluster, member)


@numba.njit(cache=True, nogil=True)
def _finish(rows: StreamRows, members: np.ndarray, now: int, out: _Out) -> None:
    """Rows go out with their hull, which may be reused if it loses no more than tau."""
    box = out.count[0]
    start_box(rows, out.boxes, box, members[0])
    for row in members:
        grow(rows, out.boxes, box, row)
        out.box[row], out.at[row], out.how[row] = box, now, OWN
    out.count[0] += 1
    out.recent[out.count[2] % out.recent.size] = out.boxes.loss[box]
    out.count[2] += 1
    if out.boxes.loss[box] <= _tau(out) + TOLERANCE:
        copy_box(out.boxes, box, out.finished, out.count[1])
        out.number[out.count[1]] = box
        out.count[1] += 1


@numba.njit(cache=True, nogil=True)
def _split(rows: StreamRows, members: np.ndarray, k: int) -> tuple[np.ndarray, int]:
    """The part of each member, int64 (m,), and how many parts there are; each has k people or more.

    While k people have rows left: the oldest row left and, of the k - 1 people whose oldest row is nearest to it,
    that row, are a part. All rows of those who are left go with the part that their oldest row enlarges least.
    """
    m = members.size
    part = np.full(m, -1, dtype=np.int64)
    boxes = Boxes(
        np.zeros((m // k + 1, rows.weight.size)),
        np.zeros((m // k + 1, rows.weight.size)),
        np.zeros((m // k + 1, rows.bit_weight.shape[0]), dtype=np.uint64),
        np.zeros(m // k + 1),
    )
    parts = 0
    near, gaps = np.zeros(k - 1, dtype=np.int64), np.zeros(k - 1)
    while True:
        seed, found = -1, 0
        for index in range(m):
            if part[index] >= 0:
                continue
            if seed < 0:
                seed = index
                continue
            oldest = True
            for before in range(index):
                if part[before] < 0 and rows.who[members[before]] == rows.who[members[index]]:
                    oldest = False
            if not oldest:
                continue
            gap = pair_loss(rows, members[seed], members[index])
            if found == k - 1 and gap >= gaps[k - 2]:
                continue
            place = found if found < k - 1 else k - 2
            found = found + 1 if found < k - 1 else found
            while place > 0 and gaps[place - 1] > gap:
                gaps[place], near[place] = gaps[place - 1], near[place - 1]
                place -= 1
            gaps[place], near[place] = gap, index
        if found < k - 1:
            break
        part[seed] = parts
        start_box(rows, boxes, parts, members[seed])
        for index in near:
            part[index] = parts
            grow(rows, boxes, parts, members[index])
        parts += 1
    for index in range(m):
        if part[index] >= 0:
            continue
        best, least = 0, np.inf
        for number in range(parts):
            growth = enlargement(rows, boxes, number, members[index])
            if growth < least - TOLERANCE:
                best, least = number, growth
        for other in range(index, m):
            if part[other] < 0 and rows.who[members[other]] == rows.who[members[index]]:
                part[other] = best
                grow(rows, boxes, best, members[other])
    return part, parts


@numba.njit(cache=True, nogil=True)
def _release_cluster(rows: StreamRows, k: int, opened: _Open, cluster: int, now: int, out: _Out) -> None:
    """The rows of a cluster of k people or more go out, in parts if there are 2k."""
    people = opened.people[cluster]
    members = _take(rows, opened, cluster)
    if people < 2 * k:
        _finish(rows, members, now, out)
        return
    part, parts = _split(rows, members, k)
    for number in range(parts):
        _finish(rows, members[part == number], now, out)


@numba.njit(cache=True, nogil=True)
def _merge(rows: StreamRows, k: int, opened: _Open, cluster: int) -> None:
    """The cluster takes in others until it has k people, or none is left."""
    while opened.people[cluster] < k:
        best, least = -1, np.inf
        for other in range(opened.size.size):
            if other != cluster and opened.size[other]:
                growth = union_growth(rows, opened.boxes, cluster, other)
                if growth < least - TOLERANCE:
                    best, least = other, growth
        if best < 0:
            break
        for row in _take(rows, opened, best):
            _add(rows, opened, cluster, row)


@numba.njit(cache=True, nogil=True)
def _waiting_people(rows: StreamRows, at: np.ndarray, first: int, until: int, k: int) -> int:
    """How many people have rows among those that wait, counted up to k."""
    known = np.empty(k, dtype=np.int64)
    found = 0
    for row in range(first, until):
        if at[row] >= 0 or found == k:
            continue
        new = True
        for index in range(found):
            new = new and known[index] != rows.who[row]
        if new:
            known[found] = rows.who[row]
            found += 1
    return found


@numba.njit(cache=True, nogil=True)
def _expire(rows: StreamRows, k: int, opened: _Open, row: int, now: int, out: _Out) -> None:
    """The delay constraint: a row that may not wait any longer goes out."""
    cluster = opened.of_row[row]
    if opened.people[cluster] >= k:
        _release_cluster(rows, k, opened, cluster, now, out)
        return
    old = narrowest_holding(rows, out.finished, 0, out.count[1], row)
    larger, clusters = 0, 0
    for other in range(opened.size.size):
        clusters += 1 if opened.size[other] else 0
        larger += 1 if opened.people[other] > opened.people[cluster] else 0
    alone = 2 * larger > clusters or _waiting_people(rows, out.at, row, now + 1, k) < k
    if old >= 0 or alone:
        out.at[row] = now
        if old >= 0:
            out.box[row], out.how[row] = out.number[old], REUSED
        _leave(rows, opened, row)
        return
    _merge(rows, k, opened, cluster)
    _release_cluster(rows, k, opened, cluster, now, out)


@numba.njit(cache=True, nogil=True)
def _run(rows: StreamRows, k: int, delta: int, opened: _Open, out: _Out) -> None:
    n = rows.who.size
    for now in range(n):
        _arrive(rows, opened, now, _tau(out))
        if now >= delta and out.at[now - delta] < 0:
            _expire(rows, k, opened, now - delta, now, out)
    for row in range(max(0, n - delta), n):
        if out.at[row] < 0:
            _expire(rows, k, opened, row, n - 1, out)
