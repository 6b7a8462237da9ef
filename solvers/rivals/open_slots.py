"""Slots that take one more member a round: the state that Greedy, SortGreedy and Hungarian share (S2, section III).

Slot j begins with row j of an order (the identity assignment, which costs nothing); a round gives every slot one row
more and every row one slot more. Within a round the price of an edge is fixed: how much the box of the slot grows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import UnservedError
from kanonflow.solvers.units.bits import lowest_bit
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.features import Features
from kanonflow.solvers.units.leaf_orders import range_cost


class OpenSlots(NamedTuple):
    """n slots with room for k members each; which places are filled is the round's number, kept by the caller.

    rows: int32 (n,), the unit of each row in order, source i and first member of slot i. members: int32 (n, k), units.
    who: int64 (n, k), their individuals. low, high: float64 (n, dn), the hull, and numeric: float64 (n,), its loss.
    words: uint64 (n, W), values present. wide: int32 (n, k, dw), the members' wide codes.
    """

    rows: NDArray[np.int32]
    members: NDArray[np.int32]
    who: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    numeric: NDArray[np.float64]
    words: NDArray[np.uint64]
    wide: NDArray[np.int32]


def lexicographic_rows(units: Units) -> NDArray[np.int32]:
    """The unit of each row, int32 (n,), sorted by attributes of ascending cardinality (S2, section III).

    Cardinality: values that occur. Ties: the attribute that stands first in the features, then the unit's number.
    """
    features = units.features
    columns = [*features.numeric.T, *features.codes.T]
    by_values = np.argsort([np.unique(column).size for column in columns], kind="stable")
    order = np.lexsort([columns[j] for j in by_values[::-1]])
    return np.repeat(order, units.weight[order]).astype(np.int32)


def open_slots(units: Units, rows: NDArray[np.int32], k: int) -> OpenSlots:
    """Slots after the identity: slot j holds row j. rows: int32 (n,), the unit of each row. O(n k d)."""
    features = units.features
    n = rows.size
    slots = OpenSlots(
        rows=rows,
        members=np.full((n, k), -1, dtype=np.int32),
        who=np.full((n, k), -1, dtype=np.int64),
        low=np.full((n, features.numeric.shape[1]), np.inf),
        high=np.full((n, features.numeric.shape[1]), -np.inf),
        numeric=np.zeros(n),
        words=np.zeros((n, features.words.shape[1]), dtype=np.uint64),
        wide=np.full((n, k, features.wide.shape[1]), -1, dtype=np.int32),
    )
    take(units, slots, 0, np.arange(n))
    return slots


@kernel
def take(units: Units, slots: OpenSlots, size: int, target: np.ndarray) -> None:
    """End of a round: source i becomes member number ``size`` of slot ``target[i]``, int64 (n,)."""
    features = units.features
    for source in range(target.size):
        unit = slots.rows[source]
        slot = target[source]
        slots.members[slot, size] = unit
        slots.who[slot, size] = units.individual[unit]
        numeric = 0.0
        for j in range(features.numeric_weight.size):
            y = features.numeric[unit, j]
            slots.low[slot, j] = min(slots.low[slot, j], y)
            slots.high[slot, j] = max(slots.high[slot, j], y)
            weight = features.numeric_weight[j]
            numeric += range_cost(features.orders, weight, j, slots.low[slot, j], slots.high[slot, j])
        slots.numeric[slot] = numeric
        for w in range(features.words.shape[1]):
            slots.words[slot, w] |= features.words[unit, w]
        for j in range(features.wide_weight.size):
            slots.wide[slot, size, j] = features.wide[unit, j]


@kernel(inner=True, forceinline=True)
def growth(features: Features, slots: OpenSlots, size: int, slot: int, unit: int) -> float:
    """How much the loss of a slot of ``size`` members grows when ``unit`` joins. O(d + size d_wide)."""
    total = 0.0
    for j in range(features.numeric_weight.size):
        y = features.numeric[unit, j]
        low, high = min(slots.low[slot, j], y), max(slots.high[slot, j], y)
        total += range_cost(features.orders, features.numeric_weight[j], j, low, high)
    total -= slots.numeric[slot]
    for w in range(features.words.shape[1]):
        new = features.words[unit, w] & ~slots.words[slot, w]
        while new:
            total += features.bit_weight[w, lowest_bit(new)]
            new &= new - np.uint64(1)
    for j in range(features.wide_weight.size):
        code = features.wide[unit, j]
        fresh = True
        for p in range(size):
            if slots.wide[slot, p, j] == code:
                fresh = False
        if fresh:
            total += features.wide_weight[j]
    return total


@kernel(inner=True, forceinline=True)
def may_join(units: Units, slots: OpenSlots, size: int, slot: int, unit: int) -> bool:
    """Whether a slot of ``size`` members may name the unit's individual once more."""
    named = 0
    for p in range(size):
        if slots.who[slot, p] == units.individual[unit]:
            named += 1
    return named < units.limit[unit]


def refuse_above(method: str, rows: int, limit: int, alternative: str) -> None:
    """Raise UnservedError if a method is asked to take more rows than it can."""
    if rows > limit:
        raise UnservedError(f"{method} takes at most {limit:,} rows at once, not {rows:,}: {alternative}")
