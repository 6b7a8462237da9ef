"""In which release did each record go out? Told by payload, time and entry, as far as counts leave no choice.

A record may be in a release of its partition that was made when its own window had ended, its person had entered and
its time was not over, and that has a group of that window with its payload. Where as many records may be in a release
as it has rows of a payload, all of them are; then they are in no other. That is done release after release, forth and
back: of a run over files it settles everything, for who can go goes with the first release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kanonflow.pipelines.audit.lasting.lasting_ground import Windows
from kanonflow.pipelines.audit.read.equal_rows import group_rows, runs

_MOST_PASSES = 8


@dataclass(frozen=True)
class Rows:
    """What was released, as u units of rows of one group and payload. group, number, count: int64 (u,)."""

    group: np.ndarray
    number: np.ndarray
    count: np.ndarray


@dataclass(frozen=True)
class Due:
    """record: int64 (q,), place among those given. release: int64 (q,). certain: bool (q,): it is there for sure."""

    record: np.ndarray
    release: np.ndarray
    certain: np.ndarray


def due_releases(
    rows: Rows,
    windows: Windows,
    number: np.ndarray,
    end: np.ndarray,
    entry: np.ndarray,
    may: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    waiting: bool,
) -> Due:
    """Pairs of records and releases that they may be in. number, end, entry: int64 (n,), payload, end of the own window
    and turn of its person's entry. may: of records and releases, whether that is of the record's
    shard. waiting: a record may be in no release yet.
    O((rows + records) windows of a wait)."""
    record, release, want_at, want = _admissible(rows, windows, number, end, entry, may)
    batch = np.unique(windows.turn, return_inverse=True)[1][release]
    order = np.argsort(batch, kind="stable")
    record, release, want_at, batch = record[order], release[order], want_at[order], batch[order]
    borders = np.searchsorted(batch, np.arange(int(batch.max(initial=-1)) + 2))
    settled = np.full(len(number), -1, np.int64)
    dead = np.zeros(len(record), bool)
    for _ in range(_MOST_PASSES):
        before = int(dead.sum()), int((settled >= 0).sum())
        for direction in (1, -1):
            for place in range(len(borders) - 1)[::direction]:
                own = slice(borders[place], borders[place + 1])
                who, where, at = record[own], release[own], want_at[own]
                there = ~dead[own] & ((settled[who] < 0) | (settled[who] == where))
                wants, back = np.unique(at, return_inverse=True)
                full = np.bincount(back[there], minlength=len(wants)) == want[wants]
                sure = there & full[back]
                settled[who[sure]] = where[sure]
        dead |= (settled[record] >= 0) & (settled[record] != release)
        fixed = _certain(record, release, settled, dead, waiting=waiting)
        taken = np.bincount(want_at[fixed], minlength=len(want)) >= want
        dead |= taken[want_at] & ~fixed
        if before == (int(dead.sum()), int((settled >= 0).sum())):
            break
    fixed = _certain(record, release, settled, dead, waiting=waiting)
    return Due(record[~dead], release[~dead], fixed[~dead])


def _certain(
    record: np.ndarray, release: np.ndarray, settled: np.ndarray, dead: np.ndarray, *, waiting: bool
) -> np.ndarray:
    """Pairs of records that must be in that release."""
    alone = np.bincount(record[~dead], minlength=len(settled)) == 1
    return ~dead & ((settled[record] == release) | (alone[record] & (not waiting)))


def _admissible(
    rows: Rows,
    windows: Windows,
    number: np.ndarray,
    end: np.ndarray,
    entry: np.ndarray,
    of_shard: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Record, release and place in the last array of each pair; rows of each release and payload."""
    release = windows.release[rows.group].astype(np.int64)
    _, want_of, _ = group_rows(np.column_stack([release, rows.number]))
    want = np.bincount(want_of, weights=rows.count).astype(np.int64)
    unit, covered = windows.covered(rows.group)
    first, _, _ = group_rows(np.column_stack([rows.number[unit], covered, want_of[unit]]))
    unit, covered = unit[first], covered[first]
    ends, rank = np.unique(np.concatenate([covered, end]), return_inverse=True)
    stride = len(ends) + 1
    key = rows.number[unit] * stride + rank[: len(unit)]
    order = np.argsort(key, kind="stable")
    asked = number * stride + rank[len(unit) :]
    start = np.searchsorted(key[order], asked, side="left")
    record, place = runs(start, np.searchsorted(key[order], asked, side="right"))
    found = unit[order][place]
    made, turn = windows.made[release[found]], windows.turn[release[found]]
    may = (made >= end[record]) & (turn >= entry[record])
    may &= (made <= end[record] + windows.waiting) | windows.closing[release[found]]
    may &= of_shard(record, release[found])
    return record[may], release[found][may], want_of[found][may].astype(np.int64), want
