"""The state of the search when NCP is lowered: who stands where, the hulls, and the hulls without each member.

Loss of a group = kept rows x NCP of the hull of all its rows + rows that wait (``group_loss.py``). Two groups that are
feasible by themselves never cost more apart than together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.partition_search.group_loss import (
    HAIR,
    NEVER,
    ClassLoss,
    fill,
    give_group_loss,
    group_fields,
    room_for,
)
from kanonflow.solvers.partition_search.rules import ValueRules
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.bits import bits_cost, lowest_bit
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost
from kanonflow.solvers.units.numbering import numbered

# A row whose box is the whole domain costs 1.
WAITING = 1.0 + HAIR


class Groups(NamedTuple):
    """At most g groups of u units.

    label ... frees: as group_loss.py asks. box: float64 (g + u, 1 + 2 dn), the categorical loss, then low and high of
    each numeric attribute: of the hull of each group, then of each unit's group without it. words: uint64 (g + u, W),
    the values in them.
    """

    label: NDArray[np.int32]
    head: NDArray[np.int32]
    after: NDArray[np.int32]
    before: NDArray[np.int32]
    size: NDArray[np.int64]
    room: int
    active: NDArray[np.int64]
    strongest: NDArray[np.int64]
    total: NDArray[np.int64]
    fewest: NDArray[np.int64]
    even: bool
    loss: NDArray[np.float64]
    k: NDArray[np.int64]
    waiting: NDArray[np.float64]
    free: NDArray[np.int32]
    frees: NDArray[np.int64]
    box: NDArray[np.float64]
    words: NDArray[np.uint64]


@kernel(inner=True, forceinline=True, counting=False)
def joined_ncp(people: Individuals, box: np.ndarray, words: np.ndarray, at: int, unit: int) -> float:
    """NCP of the hull of a box and a unit. box: float64 (., 1 + 2 dn), words: uint64 (., W); row ``at`` is meant.

    O(d + values of the unit).
    """
    ncp = box[at, 0]
    for j in range(people.numeric_weight.size):
        low = min(box[at, 1 + 2 * j], people.low[unit, j])
        high = max(box[at, 2 + 2 * j], people.high[unit, j])
        ncp += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    # Most units have few values an attribute: only the words where they have any are looked at.
    for index in range(people.touched.shape[1]):
        w = people.touched[unit, index]
        if w >= 0:
            new = people.words[unit, w] & ~words[at, w]
            if new:
                ncp += bits_cost(new, people.bit_weight, w)
    return ncp


@kernel(inner=True, forceinline=True, counting=False)
def box_ncp(people: Individuals, box: np.ndarray, at: int) -> float:
    """NCP of a box that is not empty. O(d)."""
    ncp = box[at, 0]
    for j in range(people.numeric_weight.size):
        ncp += range_cost(people.orders, people.numeric_weight[j], j, box[at, 1 + 2 * j], box[at, 2 + 2 * j])
    return ncp


@kernel(inner=True, forceinline=True, counting=False)
def both_ncp(people: Individuals, box: np.ndarray, words: np.ndarray, a: int, b: int) -> float:
    """NCP of the hull of two boxes. O(d + W)."""
    ncp = -people.first_value[0]
    for j in range(people.numeric_weight.size):
        low = min(box[a, 1 + 2 * j], box[b, 1 + 2 * j])
        high = max(box[a, 2 + 2 * j], box[b, 2 + 2 * j])
        ncp += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    for w in range(words.shape[1]):
        ncp += bits_cost(words[a, w] | words[b, w], people.bit_weight, w)
    return ncp


@kernel(inner=True, forceinline=True, counting=False)
def empty_box(people: Individuals, box: np.ndarray, words: np.ndarray, at: int) -> None:
    """Make a box that holds nothing."""
    box[at, 0] = -people.first_value[0]
    for j in range(people.numeric_weight.size):
        box[at, 1 + 2 * j] = np.inf
        box[at, 2 + 2 * j] = -np.inf
    for w in range(words.shape[1]):
        words[at, w] = np.uint64(0)


@kernel(inner=True, forceinline=True, counting=False)
def widen_box(people: Individuals, box: np.ndarray, words: np.ndarray, at: int, unit: int) -> None:
    """Take a unit into a box."""
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


@kernel(inner=True, forceinline=True, counting=False)
def group_cost(groups: Groups, size: int, rows: int, fewest: int, ncp: float) -> float:
    """What a group of at least k people costs: kept rows x NCP, and the price of those that wait."""
    kept = size * fewest if groups.even else rows
    cost = kept * ncp
    if kept < rows:
        cost += (rows - kept) * groups.waiting[0]
    return cost


@kernel(forceinline=True, counting=False)
def changed_loss(people: Individuals, groups: Groups, number: int, out: int, unit: int) -> float:
    """Loss of a group after the member ``out`` left and ``unit`` came; -1 for nobody. O(d + values of a unit)."""
    # As ``exchanged_counts``, written out.
    size = groups.size[number]
    rows, active = groups.total[number, 0], groups.total[number, 1]
    fewest = groups.fewest[number, 0]
    at = np.int64(number)
    if out >= 0:
        size -= 1
        leaver = people.rows[out]
        rows -= leaver
        active -= groups.active[out]
        if leaver == fewest:
            fewest = groups.fewest[number, 1]
        at = np.int64(groups.head.size + out)
    if unit >= 0:
        size += 1
        rows += people.rows[unit]
        active += groups.active[unit]
        fewest = min(fewest, people.rows[unit])
    ncp = groups.box[at, 0]
    for j in range(people.numeric_weight.size):
        low, high = groups.box[at, 1 + 2 * j], groups.box[at, 2 + 2 * j]
        if unit >= 0:
            low, high = min(low, people.low[unit, j]), max(high, people.high[unit, j])
        ncp += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    for index in range(people.touched.shape[1]):
        w = people.touched[unit, index] if unit >= 0 else -1
        if w >= 0:
            new = people.words[unit, w] & ~groups.words[at, w]
            while new:
                ncp += people.bit_weight[w, lowest_bit(new)]
                new &= new - np.uint64(1)
    kept = rows + groups.even * (size * fewest - rows) if active >= groups.k[0] else 0
    return kept * ncp + (rows - kept) * groups.waiting[0] if kept > 0 else rows * groups.waiting[0]


@kernel(forceinline=True, counting=False)
def fresh_loss(people: Individuals, groups: Groups, unit: int, other: int) -> float:
    """Loss of a group of two units."""
    ncp = -people.first_value[0]
    for j in range(people.numeric_weight.size):
        low = min(people.low[unit, j], people.low[other, j])
        high = max(people.high[unit, j], people.high[other, j])
        ncp += range_cost(people.orders, people.numeric_weight[j], j, low, high)
    for index in range(people.touched.shape[1]):
        w = people.touched[unit, index]
        if w >= 0:
            new = people.words[unit, w]
            while new:
                ncp += people.bit_weight[w, lowest_bit(new)]
                new &= new - np.uint64(1)
    for index in range(people.touched.shape[1]):
        w = people.touched[other, index]
        if w >= 0:
            new = people.words[other, w] & ~people.words[unit, w]
            while new:
                ncp += people.bit_weight[w, lowest_bit(new)]
                new &= new - np.uint64(1)
    one, two = people.rows[unit], people.rows[other]
    rows = one if unit == other else one + two
    kept = min(2 * min(one, two), rows) if groups.even else rows
    return kept * ncp + (rows - kept) * groups.waiting[0] if rows > kept else kept * ncp


@kernel(inner=True, counting=False)
def refresh_hull(people: Individuals, groups: Groups, number: int) -> None:
    """Recompute the hull of a group, from its values alone, whatever came before. O(size (d + W))."""
    empty_box(people, groups.box, groups.words, number)
    unit = np.int64(groups.head[number])
    while unit >= 0:
        widen_box(people, groups.box, groups.words, number, unit)
        unit = np.int64(groups.after[unit])
    # In the order of the words, so that equal sets have equal sums.
    groups.box[number, 0] = -people.first_value[0]
    for w in range(groups.words.shape[1]):
        groups.box[number, 0] += bits_cost(groups.words[number, w], people.bit_weight, w)


@kernel(forceinline=True, counting=False)
def refresh(people: Individuals, groups: Groups, number: int) -> None:
    """Recompute the hull of a group, and those without each member. O(size (d + W))."""
    refresh_hull(people, groups, number)
    rest = groups.head.size
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
            groups.box[rest + unit, 1 + 2 * j] = low2 if people.low[unit, j] == low else low
            groups.box[rest + unit, 2 + 2 * j] = high2 if people.high[unit, j] == high else high
            unit = np.int64(groups.after[unit])
    unit = first
    while unit >= 0:
        groups.box[rest + unit, 0] = -people.first_value[0]
        unit = np.int64(groups.after[unit])
    for w in range(people.words.shape[1]):
        once = groups.words[number, w]
        twice = np.uint64(0)
        if once:
            seen = np.uint64(0)
            unit = first
            while unit >= 0:
                word = people.words[unit, w]
                twice |= seen & word
                seen |= word
                unit = np.int64(groups.after[unit])
        unit = first
        while unit >= 0:
            left = once & ~(people.words[unit, w] & ~twice)
            groups.words[rest + unit, w] = left
            if left:
                groups.box[rest + unit, 0] += bits_cost(left, people.bit_weight, w)
            unit = np.int64(groups.after[unit])


give_group_loss(Groups, changed_loss, fresh_loss, refresh)


def _built(people: Individuals, labels: NDArray[np.int32], fields: dict[str, Any], rules: Any) -> Groups:
    rooms = fields["head"].size + labels.size
    groups = Groups(
        box=np.zeros((rooms, 1 + 2 * people.low.shape[1])),
        words=np.zeros((rooms, people.words.shape[1]), dtype=np.uint64),
        **fields,
    )
    fill(people, groups, labels, rules)
    return groups


def build_classes(
    people: Individuals, labels: NDArray[np.int32], k: int, rules: ValueRules | None = None
) -> Groups:
    """State of closed classes for labels int32 (u,), POOL outside; space for one an every k individuals. O(u d)."""
    room = room_for(labels, k, rules is not None)
    fields = group_fields(labels, k, waiting=WAITING, groups=labels.size // k, room=room)
    return _built(people, labels, fields, rules)


def build_groups(people: Individuals, active: NDArray[np.int64], k: int, labels: NDArray[np.int32]) -> Groups:
    """State of groups of cohorts for labels int32 (c,), groups 0..g-1 without a gap. O(c (d + W)).

    people.rows: int64 (c,), of each cohort here. active: int64 (c,), people of them.
    """
    fields = group_fields(labels, k, waiting=NEVER, groups=labels.size, active=active)
    return _built(people, labels, fields, None)


class NcpLoss:
    """GCP with waiting rows at 1, as a ``ClassLoss``."""

    def state(
        self, people: Individuals, labels: NDArray[np.int32], k: int, rules: ValueRules | None = None
    ) -> Groups:
        """``build_classes``."""
        return build_classes(people, labels, k, rules)

    def part(self, chosen: NDArray[np.int64]) -> ClassLoss:
        """All that it knows of individuals is in ``Individuals``."""
        return self

    def row_counts(
        self, people: Individuals, labels: NDArray[np.int32], row_counts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The row counts: rows within the hull cost no more than waiting."""
        return row_counts

    def total(self, table: Table, partition: Partition) -> float:
        """GCP of the rows that are released, and 1 for each that waits."""
        waiting = float((partition.labels < 0).mean())
        return waiting + (1.0 - waiting) * gcp(table, partition)


def in_order(labels: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """The same groups, numbered 0.. by their first unit."""
    return _in_order(labels)[0]


def _in_order(labels: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The same, and the first unit of each group."""
    first, group, _ = numbered(labels)
    order = np.argsort(first)
    number = np.empty(first.size, dtype=np.int32)
    number[order] = np.arange(first.size, dtype=np.int32)
    return number[group], first[order]


def ordered_loss(people: Individuals, groups: Groups) -> tuple[NDArray[np.int32], float]:
    """The labels of a state ``in_order``, and what ``total_loss`` says of a state that is built for them. O(c log c).

    Precondition: every unit is in a group, and what is kept of each group is of its members as they are now. Why it
    is the same: a group's loss follows from its members alone, so only the order of the sum could differ.
    """
    labels, first = _in_order(groups.label)
    lost = np.cumsum(groups.loss[groups.label[first]])[-1]
    return labels, float(lost / max(people.rows.sum(), 1))
