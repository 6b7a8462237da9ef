"""The state of the search on groups of cohorts: who stands where, the hulls, and the hulls without each member.

Cost of a group = rows here x NCP of the hull of its cohorts' boxes. Two groups that are feasible by themselves never
cost more apart than together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost

NOBODY = np.int64(-1)
# Cohorts that are grouped afresh at once: they get new groups before their old ones are empty.
MOST = 24


class Groups(NamedTuple):
    """Up to g = c + MOST groups of c cohorts, each a chain of its members.

    label: int32 (c,), the group of each cohort. head: int32 (g,), a group's first member; after, before: int32 (c,),
    the neighbours of each cohort in its chain, -1 at its ends. size: int64 (g,).
    rows, active: int64 (c,), of each cohort. total: int64 (g, 2), rows and active people of each group.
    loss: float64 (g,), cost of each group. without: float64 (c,), cost of each cohort's group without it.
    hull: float64 (g, 1 + 2 dn), of each group the categorical loss, then low and high of each numeric attribute;
    hull_words: uint64 (g, W). rest, rest_words: the same with c rows, of each cohort's group without it.
    free: int32 (g,), a stack of the groups that are empty; frees: int64 (1,), how many.
    k: int64 (1,), active people that a group needs.
    """

    label: NDArray[np.int32]
    head: NDArray[np.int32]
    after: NDArray[np.int32]
    before: NDArray[np.int32]
    size: NDArray[np.int64]
    rows: NDArray[np.int64]
    active: NDArray[np.int64]
    total: NDArray[np.int64]
    loss: NDArray[np.float64]
    without: NDArray[np.float64]
    hull: NDArray[np.float64]
    hull_words: NDArray[np.uint64]
    rest: NDArray[np.float64]
    rest_words: NDArray[np.uint64]
    free: NDArray[np.int32]
    frees: NDArray[np.int64]
    k: NDArray[np.int64]


@kernel(inner=True, forceinline=True)
def joined_ncp(people: Individuals, box: np.ndarray, words: np.ndarray, at: int, unit: int) -> float:
    """NCP of the hull of a box and a cohort. box: float64 (., 1 + 2 dn), words: uint64 (., W); row ``at`` is meant.

    O(d + values of the cohort). One exit and no break, or numba counts array references in the innermost loops.
    """
    ncp = box[at, 0]
    for j in range(people.numeric_weight.size):
        low = min(box[at, 1 + 2 * j], people.low[unit, j])
        high = max(box[at, 2 + 2 * j], people.high[unit, j])
        ncp += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    for index in range(people.touched.shape[1]):
        w = people.touched[unit, index]
        if w >= 0:
            new = people.words[unit, w] & ~words[at, w]
            if new:
                ncp += bits_cost(new, people.bit_weight, w)
    return ncp


@kernel(inner=True, forceinline=True)
def box_ncp(people: Individuals, box: np.ndarray, at: int) -> float:
    """NCP of a box that is not empty. O(d)."""
    ncp = box[at, 0]
    for j in range(people.numeric_weight.size):
        ncp += range_cost(people.orders, people.numeric_weight[j], j, box[at, 1 + 2 * j], box[at, 2 + 2 * j])
    return ncp


@kernel(inner=True, forceinline=True)
def empty_box(people: Individuals, box: np.ndarray, words: np.ndarray, at: int) -> None:
    """Make a box that holds nothing."""
    box[at, 0] = -people.first_value[0]
    for j in range(people.numeric_weight.size):
        box[at, 1 + 2 * j] = np.inf
        box[at, 2 + 2 * j] = -np.inf
    for w in range(words.shape[1]):
        words[at, w] = np.uint64(0)


@kernel(inner=True, forceinline=True)
def widen_box(people: Individuals, box: np.ndarray, words: np.ndarray, at: int, unit: int) -> None:
    """Take a cohort into a box."""
    for j in range(people.numeric_weight.size):
        box[at, 1 + 2 * j] = min(box[at, 1 + 2 * j], people.low[unit, j])
        box[at, 2 + 2 * j] = max(box[at, 2 + 2 * j], people.high[unit, j])
    for index in range(people.touched.shape[1]):
        w = people.touched[unit, index]
        if w >= 0:
            new = people.words[unit, w] & ~words[at, w]
            if new:
                box[at, 0] += bits_cost(new, people.bit_weight, w)
                words[at, w] |= new


@kernel(inner=True)
def refresh_hull(people: Individuals, groups: Groups, number: int) -> None:
    """Recompute the hull and cost of a group, from its values alone, whatever came before. O(size (d + W))."""
    empty_box(people, groups.hull, groups.hull_words, number)
    unit = np.int64(groups.head[number])
    while unit >= 0:
        widen_box(people, groups.hull, groups.hull_words, number, unit)
        unit = np.int64(groups.after[unit])
    groups.loss[number] = 0.0
    if groups.size[number] > 0:
        # In the order of the words, so that equal sets have equal sums.
        groups.hull[number, 0] = -people.first_value[0]
        for w in range(groups.hull_words.shape[1]):
            groups.hull[number, 0] += bits_cost(groups.hull_words[number, w], people.bit_weight, w)
        groups.loss[number] = groups.total[number, 0] * box_ncp(people, groups.hull, number)


@kernel
def refresh(people: Individuals, groups: Groups, number: int) -> None:
    """Recompute the hull and cost of a group, and those without each member. O(size (d + W))."""
    refresh_hull(people, groups, number)
    first = np.int64(groups.head[number])
    for j in range(people.numeric_weight.size):
        low = low2 = np.inf
        high = high2 = -np.inf
        unit = first
        while unit >= 0:
            x, y = people.low[unit, j], people.high[unit, j]
            low2 = min(low2, max(low, x))
            low = min(low, x)
            high2 = max(high2, min(high, y))
            high = max(high, y)
            unit = np.int64(groups.after[unit])
        unit = first
        while unit >= 0:
            groups.rest[unit, 1 + 2 * j] = low2 if people.low[unit, j] == low else low
            groups.rest[unit, 2 + 2 * j] = high2 if people.high[unit, j] == high else high
            unit = np.int64(groups.after[unit])
    unit = first
    while unit >= 0:
        groups.rest[unit, 0] = -people.first_value[0]
        unit = np.int64(groups.after[unit])
    for w in range(people.words.shape[1]):
        once = groups.hull_words[number, w]
        if once:
            seen = np.uint64(0)
            twice = np.uint64(0)
            unit = first
            while unit >= 0:
                word = people.words[unit, w]
                twice |= seen & word
                seen |= word
                unit = np.int64(groups.after[unit])
            unit = first
            while unit >= 0:
                left = once & ~(people.words[unit, w] & ~twice)
                groups.rest_words[unit, w] = left
                groups.rest[unit, 0] += bits_cost(left, people.bit_weight, w)
                unit = np.int64(groups.after[unit])
        else:
            unit = first
            while unit >= 0:
                groups.rest_words[unit, w] = once
                unit = np.int64(groups.after[unit])
    unit = first
    while unit >= 0:
        groups.without[unit] = 0.0
        if groups.size[number] > 1:
            rows = groups.total[number, 0] - groups.rows[unit]
            groups.without[unit] = rows * box_ncp(people, groups.rest, unit)
        unit = np.int64(groups.after[unit])


@kernel
def move(groups: Groups, unit: int, target: int) -> None:
    """Put a cohort into another group; both are left to refresh. O(1).

    An empty target must be the top of ``free``; a group that is emptied goes there. So moves that are undone in
    reverse order leave the stack as it was.
    """
    source = np.int64(groups.label[unit])
    before, after = groups.before[unit], groups.after[unit]
    if before >= 0:
        groups.after[before] = after
    else:
        groups.head[source] = after
    if after >= 0:
        groups.before[after] = before
    groups.size[source] -= 1
    groups.total[source, 0] -= groups.rows[unit]
    groups.total[source, 1] -= groups.active[unit]
    _link(groups, unit, target)
    if groups.size[source] == 0:
        groups.free[groups.frees[0]] = source
        groups.frees[0] += 1


@kernel(inner=True)
def _link(groups: Groups, unit: int, target: int) -> None:
    if groups.size[target] == 0:
        groups.frees[0] -= 1
    first = groups.head[target]
    groups.label[unit] = target
    groups.before[unit] = -1
    groups.after[unit] = first
    if first >= 0:
        groups.before[first] = unit
    groups.head[target] = unit
    groups.size[target] += 1
    groups.total[target, 0] += groups.rows[unit]
    groups.total[target, 1] += groups.active[unit]


@kernel
def _fill(people: Individuals, groups: Groups, labels: np.ndarray) -> None:
    for unit in range(labels.size):
        _link(groups, unit, np.int64(labels[unit]))
    for number in range(labels.size):
        if groups.size[number] > 0:
            refresh(people, groups, number)


def build_groups(
    people: Individuals,
    rows: NDArray[np.int64],
    active: NDArray[np.int64],
    k: int,
    labels: NDArray[np.int32],
) -> Groups:
    """State for labels int32 (c,), groups 0..g-1 without a gap. O(c (d + W))."""
    c = labels.size
    count = int(labels.max(initial=-1)) + 1
    dn, width = people.low.shape[1], people.words.shape[1]
    room = c + MOST
    free = np.zeros(room, dtype=np.int32)
    # ``_link`` takes one off for each group that gets its first member.
    free[: room - count] = np.arange(room - 1, count - 1, -1)
    groups = Groups(
        label=np.zeros(c, dtype=np.int32),
        head=np.full(room, -1, dtype=np.int32),
        after=np.full(c, -1, dtype=np.int32),
        before=np.full(c, -1, dtype=np.int32),
        size=np.zeros(room, dtype=np.int64),
        rows=rows,
        active=active,
        total=np.zeros((room, 2), dtype=np.int64),
        loss=np.zeros(room),
        without=np.zeros(c),
        hull=np.zeros((room, 1 + 2 * dn)),
        hull_words=np.zeros((room, width), dtype=np.uint64),
        rest=np.zeros((c, 1 + 2 * dn)),
        rest_words=np.zeros((c, width), dtype=np.uint64),
        free=free,
        frees=np.array([room], dtype=np.int64),
        k=np.array([k], dtype=np.int64),
    )
    _fill(people, groups, labels)
    return groups


def in_order(labels: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """The same groups, numbered 0.. by their first cohort."""
    _, first, group = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(first.size, dtype=np.int32)
    number[np.argsort(first)] = np.arange(first.size, dtype=np.int32)
    return np.asarray(number[group], dtype=np.int32)
