"""Whom does a reader leave in a cohort who knows when somebody was active? Measured, for it is not promised."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
MOST_TRIED = 2_000
SEVERAL = 3


class KnownActivity(NamedTuple):
    """What the reader knows, in words; people it was tried on; candidates left: their mean, share below k."""

    knows: str
    people: int
    mean: float
    below: float


def known_activity(
    cohort: Numbers, member: Numbers, window: Numbers, k: int, seed: int = 0
) -> tuple[KnownActivity, ...]:
    """Of cohorts, how many members fit to one window of a person, to three, to a gap of three.

    cohort: int64 (m,), of each member; -1: in none. member, window: int64 (q,), each member with each window that it
    has rows in, by member and window.

    One window: each person counts once, over all of its windows. Three: windows of a person drawn at random. Gap: three
    windows in a row without rows of a person, between two with rows; drawn at random. What nobody has is left out.
    O(q log q), and the members of the cohorts of MOST_TRIED people.
    """
    inside = cohort[member] >= 0
    member, window = member[inside], window[inside]
    if member.size == 0:
        return ()
    found = [_one_window(cohort, member, window, k)]
    rng = np.random.default_rng(seed)
    borders = np.flatnonzero(np.diff(member)) + 1
    people = member[np.append(0, borders)]
    own = dict(zip(people.tolist(), map(set, np.split(window, borders)), strict=True))
    others: dict[int, list[set[int]]] = {}
    for person, windows in own.items():
        others.setdefault(int(cohort[person]), []).append(windows)
    tried = rng.permutation(people).tolist()
    three: list[int] = []
    gap: list[int] = []
    for person in tried:
        if len(three) >= MOST_TRIED and len(gap) >= MOST_TRIED:
            break
        peers = others[int(cohort[person])]
        windows = sorted(own[person])
        if len(windows) >= SEVERAL and len(three) < MOST_TRIED:
            known = set(rng.choice(windows, SEVERAL, replace=False).tolist())
            three.append(sum(known <= each for each in peers))
        silent = [
            begin for before, after in pairwise(windows) for begin in range(before + 1, after - SEVERAL + 1)
        ]
        if silent and len(gap) < MOST_TRIED:
            begin = int(rng.choice(silent))
            absent = set(range(begin, begin + SEVERAL))
            gap.append(sum(not absent & each for each in peers))
    for knows, counts in (
        (f"{SEVERAL} windows with rows", three),
        (f"{SEVERAL} windows in a row without rows", gap),
    ):
        if counts:
            left = np.array(counts)
            found.append(KnownActivity(knows, left.size, float(left.mean()), float((left < k).mean())))
    return tuple(found)


def _one_window(cohort: Numbers, member: Numbers, window: Numbers, k: int) -> KnownActivity:
    _, place, counts = np.unique(
        np.stack([cohort[member], window], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    left = counts[place.reshape(-1)]
    windows = np.bincount(member)
    weight = 1.0 / windows[member]
    people = int((windows > 0).sum())
    return KnownActivity(
        "one window with rows",
        people,
        float((left * weight).sum() / people),
        float(((left < k) * weight).sum() / people),
    )
