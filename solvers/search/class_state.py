"""The state of the search on closed classes: which individuals form a class, and what a class costs.

A class keeps, of its T rows, as many as its *levels* allow: individuals sorted by row count are cut into runs of at
least k, and everybody in a run keeps as many rows as the run's last has. Then every row count that occurs is shared
by at least k individuals. Loss of a class = kept rows x NCP of its hull + (T - kept) rows that wait, at 1 each.
Individuals outside every class are in the *pool*; all of their rows wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bits import bits_cost
from kanonflow.solvers.individuals import Individuals

POOL = -1


class Classes(NamedTuple):
    """c classes of up to ``room`` of u individuals.

    members: int32 (c, room); size: int64 (c,); label: int32 (u,), POOL outside; position: int32 (u,).
    rest: float64 (c, room, 1 + 2 dn): of the hull without a member, the categorical loss, then low and high of each
    numeric attribute. rest_words: uint64 (c, room, W). loss: float64 (c,). k: int64 (1,).
    """

    members: NDArray[np.int32]
    size: NDArray[np.int64]
    label: NDArray[np.int32]
    position: NDArray[np.int32]
    rest: NDArray[np.float64]
    rest_words: NDArray[np.uint64]
    loss: NDArray[np.float64]
    k: NDArray[np.int64]


@numba.njit(cache=True, nogil=True)
def kept_by_levels(counts: np.ndarray, size: int, k: int, best: np.ndarray) -> int:
    """Most rows that levels can keep: runs of at least k of the counts, which are sorted largest first.

    ``best[i]`` = max over runs j..i-1 with i - j >= k of ``best[j] + (i - j) counts[i - 1]``; best: scratch int64.
    0 when size < k. O(size^2).
    """
    best[0] = 0
    for i in range(1, size + 1):
        value = -1
        for j in range(i - k + 1):
            if best[j] >= 0:
                kept = best[j] + (i - j) * counts[i - 1]
                if kept > value:
                    value = kept
        best[i] = value
    return max(best[size], 0)


@numba.njit(cache=True, nogil=True, forceinline=True)
def _insert_sorted(counts: np.ndarray, size: int, count: int) -> None:
    index = size
    while index > 0 and counts[index - 1] < count:
        counts[index] = counts[index - 1]
        index -= 1
    counts[index] = count


@numba.njit(cache=True, nogil=True)
def changed_loss(
    people: Individuals,
    classes: Classes,
    number: int,
    out: int,
    unit: int,
    counts: np.ndarray,
    best: np.ndarray,
) -> float:
    """Loss of a class after the member at position ``out`` left and ``unit`` came; -1 for nobody.

    counts, best: scratch int64 of room + 2. O(size^2 + d).
    """
    size = 0
    for p in range(classes.size[number]):
        if p != out:
            _insert_sorted(counts, size, people.rows[classes.members[number, p]])
            size += 1
    if unit >= 0:
        _insert_sorted(counts, size, people.rows[unit])
        size += 1
    total = 0
    for p in range(size):
        total += counts[p]
    kept = kept_by_levels(counts, size, classes.k[0], best)
    if kept == 0:
        return float(total)
    # Without a leaver the hull is the rest of any member joined with that member.
    base = out if out >= 0 else 0
    joined = classes.members[number, 0]
    loss = classes.rest[number, base, 0]
    for j in range(people.numeric_weight.size):
        low = classes.rest[number, base, 1 + 2 * j]
        high = classes.rest[number, base, 2 + 2 * j]
        if unit >= 0:
            low, high = min(low, people.low[unit, j]), max(high, people.high[unit, j])
        if out < 0:
            low, high = min(low, people.low[joined, j]), max(high, people.high[joined, j])
        loss += min(high - low, people.numeric_weight[j])
    for w in range(people.words.shape[1]):
        new = np.uint64(0)
        if unit >= 0:
            new |= people.words[unit, w]
        if out < 0:
            new |= people.words[joined, w]
        new &= ~classes.rest_words[number, base, w]
        if new:
            loss += bits_cost(new, people.bit_weight, w)
    return kept * loss + (total - kept)


@numba.njit(cache=True, nogil=True)
def refresh_class(
    people: Individuals, classes: Classes, number: int, counts: np.ndarray, best: np.ndarray
) -> None:
    """Recompute what is kept for a class. O(size d + size W)."""
    size = classes.size[number]
    if size == 0:
        classes.loss[number] = 0.0
        return
    for j in range(people.numeric_weight.size):
        low = low2 = np.inf
        high = high2 = -np.inf
        for p in range(size):
            unit = classes.members[number, p]
            x, y = people.low[unit, j], people.high[unit, j]
            if x < low:
                low2, low = low, x
            elif x < low2:
                low2 = x
            if y > high:
                high2, high = high, y
            elif y > high2:
                high2 = y
        for p in range(size):
            unit = classes.members[number, p]
            classes.rest[number, p, 1 + 2 * j] = low2 if people.low[unit, j] == low else low
            classes.rest[number, p, 2 + 2 * j] = high2 if people.high[unit, j] == high else high
    for p in range(size):
        classes.rest[number, p, 0] = -people.first_value[0]
    for w in range(people.words.shape[1]):
        once = np.uint64(0)
        twice = np.uint64(0)
        for p in range(size):
            word = people.words[classes.members[number, p], w]
            twice |= once & word
            once |= word
        whole = bits_cost(once, people.bit_weight, w)
        for p in range(size):
            own = people.words[classes.members[number, p], w] & ~twice
            classes.rest_words[number, p, w] = once & ~own
            classes.rest[number, p, 0] += whole
            if own:
                classes.rest[number, p, 0] -= bits_cost(own, people.bit_weight, w)
    classes.loss[number] = changed_loss(people, classes, number, -1, -1, counts, best)


@numba.njit(cache=True, nogil=True)
def move(classes: Classes, unit: int, target: int) -> None:
    """Take an individual out of its class (or the pool) into another; both classes are left to refresh."""
    source = classes.label[unit]
    if source >= 0:
        last = classes.size[source] - 1
        hole = classes.position[unit]
        mover = classes.members[source, last]
        classes.members[source, hole] = mover
        classes.position[mover] = hole
        classes.size[source] = last
    classes.label[unit] = target
    if target >= 0:
        classes.members[target, classes.size[target]] = unit
        classes.position[unit] = classes.size[target]
        classes.size[target] += 1


def build_classes(people: Individuals, labels: NDArray[np.int32], k: int, room: int) -> Classes:
    """State for labels int32 (u,), POOL outside; there is space for one class an every k individuals. O(u d)."""
    u = labels.size
    count = max(u // k, int(labels.max(initial=-1)) + 1, 1)
    dn, width = people.low.shape[1], people.words.shape[1]
    classes = Classes(
        members=np.full((count, room + 1), -1, dtype=np.int32),
        size=np.zeros(count, dtype=np.int64),
        label=np.full(u, POOL, dtype=np.int32),
        position=np.zeros(u, dtype=np.int32),
        rest=np.zeros((count, room + 1, 1 + 2 * dn)),
        rest_words=np.zeros((count, room + 1, width), dtype=np.uint64),
        loss=np.zeros(count),
        k=np.array([k], dtype=np.int64),
    )
    _fill(people, classes, labels)
    return classes


@numba.njit(cache=True, nogil=True)
def _fill(people: Individuals, classes: Classes, labels: np.ndarray) -> None:
    counts = np.empty(classes.members.shape[1] + 2, dtype=np.int64)
    best = np.empty(classes.members.shape[1] + 2, dtype=np.int64)
    for unit in range(labels.size):
        if labels[unit] >= 0:
            move(classes, unit, labels[unit])
    for number in range(classes.size.size):
        refresh_class(people, classes, number, counts, best)


def total_loss(people: Individuals, classes: Classes) -> float:
    """GCP with waiting rows at 1: (losses of classes + rows of the pool) / rows."""
    waiting = people.rows[classes.label == POOL].sum()
    return float((classes.loss.sum() + waiting) / max(people.rows.sum(), 1))
