"""Who comes in which window, whose attributes change, who stands in two partitions, and who is like whom."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kanonflow.pipelines.dry_run.feed import Feed
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.sort_keys import dense_ranks, sort_keys, whole
from kanonflow.transforms.rows.split import part_codes

Numbers = NDArray[np.int64]


class WindowPeople(NamedTuple):
    """People by window, over the windows of each partition from its first row to its last.

    windows: how many. newcomers, returning: medians of the people a window who are seen for the first time, and not.
    later_newcomers: median of the newcomers in windows after a partition's first; None: there are none.
    once: people with rows in one window only. small: windows with fewer than k people, and at least one.
    """

    windows: int
    newcomers: float
    returning: float
    later_newcomers: float | None
    once: int
    small: int


def window_people(feed: Feed, k: int) -> WindowPeople:
    """How people come and come back. O(q log q)."""
    place = feed.home[feed.presence.member]
    new = feed.presence.window == feed.first[feed.presence.member]
    newcomers: list[Numbers] = []
    present: list[Numbers] = []
    for own in _runs(place):
        windows = feed.presence.window[own] - feed.presence.window[own].min()
        present.append(np.bincount(windows))
        newcomers.append(np.bincount(windows[new[own]], minlength=present[-1].size))
    if not present:
        return WindowPeople(0, 0.0, 0.0, None, 0, 0)
    came, here = np.concatenate(newcomers), np.concatenate(present)
    later = np.concatenate([each[1:] for each in newcomers])
    once = np.bincount(feed.person[feed.presence.member], minlength=feed.people) == 1
    return WindowPeople(
        here.size,
        float(np.median(came)),
        float(np.median(here - came)),
        float(np.median(later)) if later.size else None,
        int(once.sum()),
        int(((here > 0) & (here < k)).sum()),
    )


def _runs(sorted_numbers: Numbers) -> list[slice]:
    """Where each number stands, one slice a number."""
    borders = np.flatnonzero(np.diff(sorted_numbers)) + 1
    ends = [0, *borders.tolist(), sorted_numbers.size]
    return [slice(start, end) for start, end in pairwise(ends) if end > start]


class WindowPartsPeople(NamedTuple):
    """Parts of windows that are split. parts: how many. small: those with fewer than k people. share: their rows'."""

    parts: int
    small: int
    share: float


def parts_people(feed: Feed, bound: BoundPolicy) -> WindowPartsPeople:
    """People by part of a window, of a policy with ``split_by``; no row waits here. O(n log n)."""
    part = part_codes(feed.rows, bound.policy)
    keys = np.stack([feed.windows.of_row, part, feed.who])
    (window, part, _), rows = np.unique(keys, axis=1, return_counts=True)
    _, at = np.unique(np.stack([window, part]), axis=1, return_inverse=True)
    at = at.reshape(-1)
    small = np.bincount(at) < bound.policy.k
    share = float(np.bincount(at, weights=rows)[small].sum()) / max(feed.rows.num_rows, 1)
    return WindowPartsPeople(small.size, int(small.sum()), share)


class Varying(NamedTuple):
    """A field of people. people: with more than one value. rows: with a value other than their person's first.

    valued: rows with a value.
    """

    field: str
    people: int
    rows: int
    valued: int

    @property
    def share(self) -> float:
        """Of the rows with a value, those with another than their person's first."""
        return self.rows / self.valued if self.valued else 0.0


def varying_fields(feed: Feed, bound: BoundPolicy) -> tuple[Varying, ...]:
    """How far each quasi-identifier is a person's.

    A person's first value is the least of its first window that has one. A missing value is no other value.
    O(d n log n).
    """
    return tuple(
        Varying(column.name, *_varying(feed, feed.rows.column(column.name))) for column in bound.quasis
    )


def _varying(feed: Feed, column: pa.ChunkedArray) -> tuple[int, int, int]:
    array = whole(column)
    there = np.flatnonzero(np.asarray(array.is_valid()))
    value, who, window = dense_ranks(sort_keys(array))[there], feed.who[there], feed.window[there]
    order = np.lexsort((value, window, who))
    who, value = who[order], value[order]
    begins = np.append(True, who[1:] != who[:-1])[: who.size]
    first = value[begins][np.cumsum(begins) - 1]
    other = value != first
    return int(np.unique(who[other]).size), int(other.sum()), int(there.size)


def in_several(feed: Feed, bound: BoundPolicy) -> dict[str, int]:
    """Of each partition field, people with more than one value of it. O(n log n) a field."""
    found = {}
    for name in bound.policy.partition_by:
        codes = feed.rows.column(name).combine_chunks().dictionary_encode("encode").indices
        pairs = np.unique(np.stack([feed.who, np.asarray(codes).astype(np.int64)], axis=1), axis=0)
        found[name] = int((np.bincount(pairs[:, 0], minlength=feed.people) > 1).sum())
    return found


def with_equals(feed: Feed, bound: BoundPolicy) -> int:
    """People who have all quasi-identifiers, as of their first window, in common with another of a partition of theirs.

    Two accounts of one human look so. A person of several partitions counts once. O(d n log n).
    """
    early = np.flatnonzero(feed.window == feed.first[feed.member])
    member = feed.member[early]
    key = feed.home.copy()
    for column in bound.quasis:
        array = whole(feed.rows.column(column.name)).take(pa.array(early))
        rank = dense_ranks(sort_keys(array)).astype(np.int64)
        order = np.lexsort((rank, np.asarray(array.is_null()), member))
        begins = np.append(True, np.diff(member[order]) > 0)[: order.size]
        value = np.zeros(key.size, dtype=np.int64)
        value[member[order][begins]] = rank[order][begins]
        _, value = np.unique(value, return_inverse=True)
        _, key = np.unique(key * (int(value.max(initial=0)) + 1) + value, return_inverse=True)
    return int(np.unique(feed.person[np.bincount(key)[key] > 1]).size) if key.size else 0
