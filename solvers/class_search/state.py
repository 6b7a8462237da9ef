"""The state of the search on closed classes: which individuals form a class, and what a class costs.

Everybody in a class keeps as many rows as its member of fewest has; then every row count that occurs is shared by at
least k individuals. Loss of a class = kept rows x NCP of its hull + rows that wait, at 1 each. (Several levels of k
individuals each would keep more rows of a class of 2k or more, but as classes of their own the levels have smaller
hulls and keep as many: the search has no need of them. ``row_counts.py`` finds them where a class was given.)
Individuals outside every class are in the *pool*; all of their rows wait.

The functions that evaluate are inlined and have one exit: with a second return, a break or a call that is not
inlined, numba counts array references in the innermost loops, at ten times the cost (measured: 150 against 15 ns).
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.class_search.rules import HOME, Gate, forget, meets
from kanonflow.solvers.units.bits import bits_cost, lowest_bit
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost

POOL = -1
# Waiting rows cost a hair more than rows whose box is the whole domain: what may be released is.
WAITING = 1.0 + 1e-6
# As numpy's number: kernels are compiled once more for each argument that is a literal, or of another integer type.
# So individuals, classes and positions are made int64 where they are read.
NOBODY = np.int64(-1)


class Classes(NamedTuple):
    """c classes of up to ``room`` of u individuals.

    members: int32 (c, room); size: int64 (c,); label: int32 (u,), POOL outside; position: int32 (u,).
    rest: float64 (c, room, 1 + 2 dn): of the hull without a member, the categorical loss, then low and high of each
    numeric attribute. rest_words: uint64 (c, room, W). loss: float64 (c,). k: int64 (1,).
    counts: int64 (c, 3), rows of all members, and the smallest and second smallest row count of one.
    """

    members: NDArray[np.int32]
    size: NDArray[np.int64]
    label: NDArray[np.int32]
    position: NDArray[np.int32]
    rest: NDArray[np.float64]
    rest_words: NDArray[np.uint64]
    loss: NDArray[np.float64]
    k: NDArray[np.int64]
    counts: NDArray[np.int64]


@numba.njit(cache=True, nogil=True, forceinline=True)
def changed_loss(people: Individuals, classes: Classes, number: int, out: int, unit: int) -> float:
    """Loss of a class after the member at position ``out`` left and ``unit`` came; -1 for nobody.

    O(d + values of an individual).
    """
    size = classes.size[number]
    total = classes.counts[number, 0]
    fewest = classes.counts[number, 1]
    if out >= 0:
        leaver = people.rows[classes.members[number, out]]
        size -= 1
        total -= leaver
        if leaver == fewest:
            fewest = classes.counts[number, 2]
    if unit >= 0:
        size += 1
        total += people.rows[unit]
        fewest = min(fewest, people.rows[unit])
    kept = size * fewest if size >= classes.k[0] else 0
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
        loss += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    # Most individuals have one value an attribute: only the words where they have any are looked at.
    for index in range(people.touched.shape[1]):
        w = people.touched[unit, index] if unit >= 0 else -1
        if w >= 0:
            new = people.words[unit, w] & ~classes.rest_words[number, base, w]
            while new:
                loss += people.bit_weight[w, lowest_bit(new)]
                new &= new - np.uint64(1)
    for index in range(people.touched.shape[1]):
        w = people.touched[joined, index] if out < 0 else -1
        if w >= 0:
            new = people.words[joined, w] & ~classes.rest_words[number, base, w]
            if unit >= 0:
                new &= ~people.words[unit, w]
            while new:
                loss += people.bit_weight[w, lowest_bit(new)]
                new &= new - np.uint64(1)
    return kept * loss + (total - kept) * WAITING if kept > 0 else total * WAITING


@numba.njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
def gated_loss(
    people: Individuals, classes: Classes, gate: Gate, side: int, number: int, out: int, unit: int
) -> float:
    """``changed_loss``, or the price of waiting when the class then breaks a rule. O(that and ``meets``)."""
    size = classes.size[number]
    total = classes.counts[number, 0]
    fewest = classes.counts[number, 1]
    if out >= 0:
        leaver = people.rows[classes.members[number, out]]
        size -= 1
        total -= leaver
        if leaver == fewest:
            fewest = classes.counts[number, 2]
    if unit >= 0:
        size += 1
        total += people.rows[unit]
        fewest = min(fewest, people.rows[unit])
    loss = total * WAITING
    if size >= classes.k[0] and meets(
        people, gate, classes.members, classes.size[number], side, number, fewest, out, unit
    ):
        loss = changed_loss(people, classes, number, out, unit)
    return loss


@numba.njit(cache=True, nogil=True)
def refresh_class(people: Individuals, classes: Classes, number: int, gate: Gate | None = None) -> None:
    """Recompute what is kept for a class. O(size d + size W), with a gate the rows of the class more."""
    size = classes.size[number]
    classes.counts[number, 0] = 0
    classes.counts[number, 1] = classes.counts[number, 2] = np.iinfo(np.int64).max
    for p in range(size):
        rows = people.rows[classes.members[number, p]]
        classes.counts[number, 0] += rows
        if rows < classes.counts[number, 1]:
            classes.counts[number, 2], classes.counts[number, 1] = classes.counts[number, 1], rows
        elif rows < classes.counts[number, 2]:
            classes.counts[number, 2] = rows
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
    classes.loss[number] = changed_loss(people, classes, number, NOBODY, NOBODY)
    # Compiled away where there is no gate, as are all such branches.
    if gate is not None:
        forget(gate)
        classes.loss[number] = gated_loss(people, classes, gate, HOME, number, NOBODY, NOBODY)


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


def room_for(labels: NDArray[np.int32], k: int, gated: bool) -> int:
    """Most members of a class: 2k can be split in two, so no class needs more, unless the halves break a rule.

    Larger classes that are given stay as they are.
    """
    return max((3 if gated else 2) * k, int(np.bincount(labels[labels >= 0], minlength=1).max()))


def build_classes(
    people: Individuals, labels: NDArray[np.int32], k: int, gate: Gate | None = None
) -> Classes:
    """State for labels int32 (u,), POOL outside; space for a class an every k individuals, of ``room_for``. O(u d)."""
    u = labels.size
    room = room_for(labels, k, gate is not None)
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
        counts=np.zeros((count, 3), dtype=np.int64),
    )
    _fill(people, classes, labels, gate)
    return classes


@numba.njit(cache=True, nogil=True)
def _fill(people: Individuals, classes: Classes, labels: np.ndarray, gate: Gate | None = None) -> None:
    for unit in range(labels.size):
        if labels[unit] >= 0:
            move(classes, unit, np.int64(labels[unit]))
    refresh_all(people, classes, gate)


@numba.njit(cache=True, nogil=True)
def refresh_all(people: Individuals, classes: Classes, gate: Gate | None = None) -> None:
    """Recompute what is kept for every class."""
    for number in range(classes.size.size):
        refresh_class(people, classes, number, gate)


def total_loss(people: Individuals, classes: Classes) -> float:
    """GCP with waiting rows at 1: (losses of classes + rows of the pool) / rows."""
    waiting = people.rows[classes.label == POOL].sum()
    return float((classes.loss.sum() + WAITING * waiting) / max(people.rows.sum(), 1))
