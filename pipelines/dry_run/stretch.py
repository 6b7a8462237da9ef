"""Which rows of a feed are played: whole windows in a row, and before them what decides who is known there.

A stretch from the middle would have everybody as a newcomer. So before it the rows of people who come for the first
time are played, too. Then who is in which cohort is what it is in a run, but for newcomers with too few rows of others
beside them: these enter with the next ones. Where that matters rows of k others are played beside them (``everybody``).

What counts is a stretch from the beginning, where cohorts are founded, and one from the middle, which stands for all
that is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.pipelines.dry_run.feed import Feed
from kanonflow.schemas.policy import Policy

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
_SEED = 1
_LEAST_OPENING = 0.02
"""Share of the rows that a feed's beginning must have to count by itself."""
_ROWS_OF_ONE = 4
"""So many rows of a person in a window are left, on average, where a feed has more: all of them stand in one box."""
_WINDOWS_OF_A_PARTITION = 8
_WARM_UP = 1
_EARLY, _LATE, _CENTRE = 0.1, 0.75, 0.02
_DAY_MS = 86_400_000


class Budget(NamedTuple):
    """What may be played in full. of_a_window: rows of one that is larger by itself than ``rows``. whole: the most rows
    and windows of a feed that is played from end to end."""

    rows: int
    windows: int
    of_a_window: int = 100_000
    whole: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Stretch:
    """A part of a feed of n rows and w windows, each of a partition, by partition and time.

    played: bool (n,). partition, window: int64 (w,). weight: float64 (w,), how many rows of the feed each row stands
    for that leaves with that window; 0: it does not count. counted: bool (n,), played rows whose own window counts.
    every: of a person's rows in a window, one of so many is played. everybody: as of ``stretch_of``.
    """

    played: Mask
    partition: Numbers
    window: Numbers
    weight: Floats
    counted: Mask
    every: int = 1
    everybody: bool = False

    @property
    def windows(self) -> int:
        """How many windows count."""
        return int((self.weight > 0).sum())

    def of(self, partition: int) -> tuple[Numbers, Floats]:
        """The windows of a partition, and their weights."""
        mine = self.partition == partition
        return self.window[mine], self.weight[mine]

    def end(self, partition: int) -> int | None:
        """The window of a partition after which nothing is played; None: all of it is."""
        windows, weight = self.of(partition)
        return None if self.everybody or weight[-1] > 0 else int(windows[weight > 0].max())


def stretch_of(feed: Feed, policy: Policy, budget: Budget, *, everybody: bool = False) -> Stretch:
    """What is played of a feed in the windows of a policy. Deterministic. O(n log n).

    everybody: play what decides who enters in all of the feed, beyond what counts.
    """
    partition, window, size, at = feed.windows
    thin, every = _thinned(feed, policy, budget)
    left = np.bincount(at[thin], minlength=size.size)
    rows, windows = np.maximum((budget.rows, budget.windows), budget.whole)
    if left.sum() <= rows and size.size <= windows:
        return Stretch(thin, partition, window, size / np.maximum(left, 1), thin, every, everybody)
    waits = _waits(policy)
    opening, middle, full = (np.zeros(size.size, dtype=np.bool_) for _ in range(3))
    chosen = _partitions(partition, budget)
    for place in chosen.tolist():
        own = np.flatnonzero(partition == place)
        opens = policy.promise.epochs & (window[own] <= window[own[0]] + waits)
        first = opens.any() and size[own[opens]].sum() >= _LEAST_OPENING * size[own].sum()
        opening[own[opens]] = first
        rest = own[~opens]
        if rest.size:
            each = Budget(budget.rows // chosen.size, budget.windows // chosen.size)
            begin, end = _middle(left[rest], policy, each)
            middle[rest[begin:end]] = True
            full[rest[max(begin - _WARM_UP, 0) : end]] = True
        full[own[opens]] |= first
    weight = _weights(opening, middle, size) * size / np.maximum(left, 1)
    played = full[at] & thin
    if policy.promise.epochs:
        last = np.full(feed.partitions, np.iinfo(np.int64).max if everybody else np.iinfo(np.int64).min)
        np.maximum.at(last, partition[weight > 0], window[weight > 0])
        early = feed.window <= last[feed.partition]
        played |= early & _deciding(feed, policy, waits, company=everybody) & thin
    return Stretch(played, partition, window, weight, (weight > 0)[at] & thin, every, everybody)


def entries_of(feed: Feed, policy: Policy) -> Stretch:
    """What decides who enters when, of cohorts that last, and nothing that counts. O(n log n)."""
    partition, window, size, _ = feed.windows
    played = _deciding(feed, policy, _waits(policy), company=True)
    nothing = np.zeros(size.size)
    return Stretch(played, partition, window, nothing, np.zeros_like(played), everybody=True)


def _waits(policy: Policy) -> int:
    """How many windows a row can wait for."""
    return 0 if policy.window_ms is None else policy.waiting_ms // policy.window_ms


def _thinned(feed: Feed, policy: Policy, budget: Budget) -> tuple[Mask, int]:
    """The rows that are left where there are too many, bool (n,), and one of how many.

    Of cohorts that last everybody stays in each of his windows. Of others, rows by chance of a window that is too
    large: they lie further apart than all of them, and lose more.
    """
    n = feed.who.size
    if not policy.promise.epochs:
        share = budget.of_a_window / feed.windows.rows[feed.windows.of_row]
        return np.random.default_rng(_SEED).random(n) < share, 1
    every = (
        max(1, n // max(feed.presence.member.size, 1) // _ROWS_OF_ONE)
        if n > max(budget.rows, budget.whole[0])
        else 1
    )
    if every == 1:
        return np.ones(n, dtype=np.bool_), 1
    order = np.lexsort((feed.window, feed.member))
    begins = np.flatnonzero(np.diff(feed.member[order], prepend=-1) | np.diff(feed.window[order], prepend=0))
    turn = np.arange(n) - begins[np.searchsorted(begins, np.arange(n), side="right") - 1]
    thin = np.empty(n, dtype=np.bool_)
    thin[order] = turn % every == 0
    return thin, every


def _partitions(partition: Numbers, budget: Budget) -> Numbers:
    """Partitions that are played, drawn at random where there are many."""
    all_of_them = np.unique(partition)
    most = max(1, budget.windows // _WINDOWS_OF_A_PARTITION)
    if all_of_them.size <= most:
        return all_of_them
    return np.sort(np.random.default_rng(_SEED).choice(all_of_them, most, replace=False))


def _middle(rows: Numbers, policy: Policy, budget: Budget) -> tuple[int, int]:
    """Begin and end of the windows in a row that are most like all of them in size, for large windows have small boxes.

    rows: int64 (w,), of each, in the order of time. As many as the budget has room for, one at least, and whole weeks
    or days of them if it has room for one; neither at the beginning nor at the end.
    """
    length = max(1, min(rows.size, budget.windows, int(budget.rows / max(rows.mean(), 1))))
    cycles = [days * _DAY_MS // policy.window_ms for days in (7, 1)] if policy.window_ms else []
    cycle = next((each for each in cycles if 1 < each <= length), 1)
    length -= length % cycle
    sums, sizes = (np.append(0, np.cumsum(each)) for each in (rows, rows * np.log(np.maximum(rows, 1))))
    begins = np.arange(rows.size - length + 1)
    inside = (sums[begins] >= _EARLY * sums[-1]) & (sums[begins + length] <= _LATE * sums[-1])
    begins = begins[inside] if inside.any() else begins[begins.size // 2 :][:1]
    mean = (sizes[begins + length] - sizes[begins]) / np.maximum(sums[begins + length] - sums[begins], 1)
    unlike = np.abs(mean / max(sizes[-1] / max(sums[-1], 1), 1e-9) - 1)
    off_centre = np.abs((sums[begins] + sums[begins + length]) / max(2 * sums[-1], 1) - 0.5)
    begin = int(begins[np.argmin(unlike + _CENTRE * off_centre)])
    return begin, begin + length


def _weights(opening: Mask, middle: Mask, size: Numbers) -> Floats:
    """For how many rows of the feed a row of each window stands, float64 (w,); 0 of those that do not count.

    Windows of the beginning stand for it, those of the middle for all others.
    """
    stretch, rest = float(size[middle].sum()), float(size[~opening].sum())
    return np.where(opening, 1.0, np.where(middle, rest / max(stretch, 1.0), 0.0))


def _deciding(feed: Feed, policy: Policy, waits: int, *, company: bool) -> Mask:
    """Rows that decide who enters when, bool (n,): of newcomers.

    company: also of k people of each window at whose end a newcomer must enter, for nobody enters without a release.
    """
    new = feed.window == feed.first[feed.member]
    if not company:
        return new
    there = feed.presence
    low, span = int(feed.window.min()), int(feed.window.max()) - int(feed.window.min()) + 1 + waits
    place = feed.home[there.member] * span + there.window - low
    enters = np.isin(place, feed.home * span + feed.first - low + waits)
    new[there.row[enters & (there.turn < policy.k)]] = True
    return new
