"""The state of the search on closed classes when NCP is lowered: which individuals form a class, and its hull.

Loss of a class = kept rows x NCP of the hull of all its rows + rows that wait, at 1 each (``class_loss.py``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.class_search.class_loss import (
    HAIR,
    ClassLoss,
    class_fields,
    fill,
    give_class_loss,
)
from kanonflow.solvers.class_search.rules import ValueRules
from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.bits import bits_cost, lowest_bit
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost

# A row whose box is the whole domain costs 1.
WAITING = 1.0 + HAIR


class Classes(NamedTuple):
    """c classes of up to ``room`` of u individuals.

    members, size, label, position, loss, k, waiting, counts as class_loss.py asks.
    rest: float64 (c, room + 1, 1 + 2 dn): of the hull without a member, the categorical loss, then low and high of each
    numeric attribute. rest_words: uint64 (c, room + 1, W).
    """

    members: NDArray[np.int32]
    size: NDArray[np.int64]
    label: NDArray[np.int32]
    position: NDArray[np.int32]
    rest: NDArray[np.float64]
    rest_words: NDArray[np.uint64]
    loss: NDArray[np.float64]
    k: NDArray[np.int64]
    waiting: float
    counts: NDArray[np.int64]


@kernel(forceinline=True)
def changed_loss(people: Individuals, classes: Classes, number: int, out: int, unit: int) -> float:
    """Loss of a class after the member at position ``out`` left and ``unit`` came; -1 for nobody.

    O(d + values of an individual).
    """
    # As ``exchanged_counts``, written out: a function inside this one makes the search count references again.
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
    # The constant and not ``classes.waiting``, which is the same: that took the search 15% more time.
    return kept * loss + (total - kept) * WAITING if kept > 0 else total * WAITING


@kernel(forceinline=True)
def refresh(people: Individuals, classes: Classes, number: int) -> None:
    """Recompute the hulls of a class without each of its members. O(size d + size W)."""
    size = classes.size[number]
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


give_class_loss(Classes, changed_loss, refresh)


def build_classes(
    people: Individuals, labels: NDArray[np.int32], k: int, rules: ValueRules | None = None
) -> Classes:
    """State for labels int32 (u,), POOL outside; space for a class an every k individuals, of ``room_for``. O(u d)."""
    fields = class_fields(labels, k, rules is not None, WAITING)
    count, room = fields["members"].shape
    classes = Classes(
        rest=np.zeros((count, room, 1 + 2 * people.low.shape[1])),
        rest_words=np.zeros((count, room, people.words.shape[1]), dtype=np.uint64),
        **fields,
    )
    fill(people, classes, labels, rules)
    return classes


class NcpLoss:
    """GCP with waiting rows at 1, as a ``ClassLoss``."""

    def state(
        self, people: Individuals, labels: NDArray[np.int32], k: int, rules: ValueRules | None = None
    ) -> Classes:
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
