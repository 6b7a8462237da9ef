"""With which window does each row of a feed leave? The rules of waiting, without a solver."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.pipelines.risks.intakes import NEVER

Int64s = NDArray[np.int64]


def release_moments(window: Int64s, who: Int64s, known: Int64s, waits: int, k: int) -> Int64s:
    """The number of the window with which each row of one partition is due, int64 (n,); NEVER: it is rejected.

    window: int64 (n,), the row's own. who: int64 (n,), whose it is. known: int64 (n,), the window from which on that
    person may be released (cohorts that last: with which it enters), NEVER: with none. waits: so many windows a row
    may wait after its own. k: people that a release needs; rows of fewer wait for the next one.

    A row that a solver holds back counts as due. O(n log n), and O(rows) for each window with too few people.
    """
    at = np.where(known <= window, window, known)
    at = np.where(at - window <= waits, at, NEVER)
    order = np.argsort(at, kind="stable")
    moments, begins = np.unique(at[order], return_index=True)
    ends = np.append(begins[1:], at.size)
    people = int(who.max(initial=0)) + 1
    place = np.empty(at.size, dtype=np.int64)
    place[order] = np.repeat(np.arange(moments.size), ends - begins)
    here = np.bincount(np.unique(place * people + who) // people, minlength=moments.size)
    carried = np.empty(0, dtype=np.int64)
    for number, moment in enumerate(moments.tolist()):
        if moment == NEVER or (here[number] >= k and not carried.size):
            continue
        over = moment - window[carried] > waits
        at[carried[over]] = NEVER
        due = np.concatenate([carried[~over], order[begins[number] : ends[number]]])
        if np.unique(who[due]).size >= k:
            at[due] = moment
            carried = due[:0]
        else:
            carried = due
    at[carried] = NEVER
    return at
