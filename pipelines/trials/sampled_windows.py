"""Which windows of a feed are tried: whole ones, spread over its time, at most so many rows of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


class WindowSample(NamedTuple):
    """Windows in the order of time. partition, window, rows: int64 (w,), of each, rows as the feed has them.

    windows: how many of the feed have rows. thinned: whether not all rows of the only window are tried.
    """

    partition: Int64s
    window: Int64s
    rows: Int64s
    windows: int
    thinned: bool = False

    @property
    def row_count(self) -> int:
        """Rows of all sampled windows."""
        return int(self.rows.sum())


def sample_windows(
    partition: Int64s, window: Int64s, most: int, seed: int, *, most_windows: int | None = None
) -> WindowSample:
    """One window of each of as many equal stretches of the feed as ``most`` rows allow; one at least.

    partition, window: int64 (n,), of each row. most: rows of the windows together, but for a window that has more by
    itself. most_windows: windows at most. seed: of the draw.

    A window of a partition is as likely as another one: what is summed up over a sample and divided by its rows
    estimates the same of the feed. The sample follows from the windows of the rows alone, so that policies with windows
    of one length are tried on the same ones. O(n log n).
    """
    numbers, count = np.unique(np.stack([window, partition], axis=1), axis=0, return_counts=True)
    total = count.size
    if not total:
        none = np.empty(0, dtype=np.int64)
        return WindowSample(none, none, none, 0)
    # Where within its stretch a window is taken is drawn once, whatever number of windows comes of it.
    within = np.random.default_rng(seed).random(total)
    taken = max(1, min(total, most_windows or total, int(most / count.mean())))
    while True:
        ends = np.arange(taken + 1) * total // taken
        chosen = ends[:-1] + (within[:taken] * np.diff(ends)).astype(np.int64)
        if taken == 1 or count[chosen].sum() <= most:
            break
        taken -= 1
    return WindowSample(numbers[chosen, 1], numbers[chosen, 0], count[chosen].astype(np.int64), total)


def thinned_out(
    sample: WindowSample, partition: Int64s, window: Int64s, most: int, seed: int
) -> NDArray[np.bool_]:
    """The rows that stay, bool (n,), where a window alone has more than ``most``: all others, and of it so many.

    Fewer rows lie further apart: what is lost on a part of a window is more than is lost on the whole.
    """
    stays = np.ones(window.size, dtype=np.bool_)
    if sample.window.size == 1 and sample.row_count > most:
        here = np.flatnonzero((partition == sample.partition[0]) & (window == sample.window[0]))
        stays[here] = False
        stays[np.random.default_rng(seed).choice(here, most, replace=False)] = True
    return stays
