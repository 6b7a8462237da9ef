"""How many people the windows of a feed would have, by the length of a window."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

HOUR_MS = 3_600_000
LENGTHS_MS = (HOUR_MS, 24 * HOUR_MS, 7 * 24 * HOUR_MS, 28 * 24 * HOUR_MS)
"""1h, 1d, 1w, 4w."""


class PeopleInWindows(NamedTuple):
    """Of windows of one length, each in its partition.

    length_ms: of a window. windows: with rows. median, tenth: people of a window, and what a tenth of them has not.
    small: the share of the windows with fewer than k people. rows_in_small: the share of the rows in these.
    """

    length_ms: int
    windows: int
    median: float
    tenth: float
    small: float
    rows_in_small: float


def people_in_windows(
    times: Int64s, who: Int64s, partition: Int64s, length_ms: int, k: int
) -> PeopleInWindows:
    """Count the people of every window that has rows.

    times: int64 (n,), milliseconds since 1970. who, partition: int64 (n,), from 0. Windows begin at multiples of their
    length, as those of a run without an offset. O(n log n).
    """
    window = times // length_ms
    low = int(window.min(initial=0))
    span = int(window.max(initial=0)) - low + 1
    _, place = np.unique(partition * span + window - low, return_inverse=True)
    pairs = np.unique(place * (int(who.max(initial=0)) + 1) + who)
    people = np.bincount(pairs // (int(who.max(initial=0)) + 1))
    small = people < k
    return PeopleInWindows(
        length_ms,
        people.size,
        float(np.median(people)),
        float(np.quantile(people, 0.1)),
        float(small.mean()),
        float(small[place].mean()),
    )
