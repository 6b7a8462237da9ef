"""The state of the graph search, and its evaluation of a swap in O(d) (S0, section 5).

S0 keeps the two smallest and two largest values of a slot, so that the hull without one member is known in
constant time. Here that hull is worked out once, when the slot changes, for each of its members, and kept: the
*rest* of a place is the box of the other k - 1 members. Putting a unit into a place then costs one look at its rest.
The *spare* loss of a place (what the slot saves without that member) bounds the gain of any swap there and prunes
most candidates before they are evaluated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.search.slot_loss import fill, give_loss, place_fields
from kanonflow.solvers.units.bits import bits_cost, lowest_bit
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.features import Features
from kanonflow.solvers.units.leaf_orders import range_cost


class Slots(NamedTuple):
    """n slots of k units, and where each unit stands.

    members: int32 (n, k); who: int32 (n, k), their individuals; wide: int32 (n, k, dw), their wide codes.
    rest: float64 (n, k, 1 + 2 dn): of the box without a member, the categorical loss, then low and high of each
    numeric attribute. rest_words: uint64 (n, k, W). hull: float64 (n, 2 dn) and hull_words: uint64 (n, W), of the whole
    box. loss: float64 (n,). spare: float64 (n, k).
    places: int32 (n k,), the places ``slot * 256 + position`` of each unit, one run of ``k w`` entries a unit, the
    runs starting at first_place: int64 (u + 1,). entry: int32 (n, k), where a place stands in ``places``.
    """

    members: NDArray[np.int32]
    who: NDArray[np.int32]
    wide: NDArray[np.int32]
    rest: NDArray[np.float64]
    rest_words: NDArray[np.uint64]
    hull: NDArray[np.float64]
    hull_words: NDArray[np.uint64]
    loss: NDArray[np.float64]
    spare: NDArray[np.float64]
    places: NDArray[np.int32]
    first_place: NDArray[np.int64]
    entry: NDArray[np.int32]


@kernel(forceinline=True, counting=False)
def replaced_loss(features: Features, slots: Slots, slot: int, position: int, unit: int) -> float:
    """Loss of a slot after the member at ``position`` has given way to ``unit``. O(d + k d_wide)."""
    total = slots.rest[slot, position, 0]
    for j in range(features.numeric_weight.size):
        y = features.numeric[unit, j]
        low = min(slots.rest[slot, position, 1 + 2 * j], y)
        high = max(slots.rest[slot, position, 2 + 2 * j], y)
        total += range_cost(features.orders, features.numeric_weight[j], j, low, high)
    for w in range(features.words.shape[1]):
        new = features.words[unit, w] & ~slots.rest_words[slot, position, w]
        while new:
            total += features.bit_weight[w, lowest_bit(new)]
            new &= new - np.uint64(1)
    for j in range(features.wide_weight.size):
        code = features.wide[unit, j]
        fresh = True
        for p in range(slots.members.shape[1]):
            if slots.wide[slot, p, j] == code and p != position:
                fresh = False
        if fresh:
            total += features.wide_weight[j]
    return total


@kernel(forceinline=True, counting=False)
def least_added(features: Features, slots: Slots, slot: int, unit: int) -> float:
    """What ``unit`` adds to the whole box of a slot: no less than to the box without a member. O(d + k d_wide)."""
    total = 0.0
    for j in range(features.numeric_weight.size):
        y = features.numeric[unit, j]
        weight = features.numeric_weight[j]
        low, high = slots.hull[slot, 2 * j], slots.hull[slot, 2 * j + 1]
        grown = range_cost(features.orders, weight, j, min(low, y), max(high, y))
        total += grown - range_cost(features.orders, weight, j, low, high)
    for w in range(features.words.shape[1]):
        new = features.words[unit, w] & ~slots.hull_words[slot, w]
        while new:
            total += features.bit_weight[w, lowest_bit(new)]
            new &= new - np.uint64(1)
    for j in range(features.wide_weight.size):
        code = features.wide[unit, j]
        fresh = True
        for p in range(slots.members.shape[1]):
            if slots.wide[slot, p, j] == code:
                fresh = False
        if fresh:
            total += features.wide_weight[j]
    return total


@kernel(inner=True, forceinline=True, counting=False)
def _refresh_numeric(features: Features, slots: Slots, slot: int, j: int) -> float:
    """Rest lows and highs of one attribute by the two smallest and two largest values; returns its loss."""
    k = slots.members.shape[1]
    low = low2 = np.inf
    high = high2 = -np.inf
    for p in range(k):
        x = features.numeric[slots.members[slot, p], j]
        if x < low:
            low2, low = low, x
        elif x < low2:
            low2 = x
        if x > high:
            high2, high = high, x
        elif x > high2:
            high2 = x
    weight = features.numeric_weight[j]
    loss = range_cost(features.orders, weight, j, low, high)
    slots.hull[slot, 2 * j], slots.hull[slot, 2 * j + 1] = low, high
    for p in range(k):
        x = features.numeric[slots.members[slot, p], j]
        rest_low = low2 if x == low else low
        rest_high = high2 if x == high else high
        slots.rest[slot, p, 1 + 2 * j] = rest_low
        slots.rest[slot, p, 2 + 2 * j] = rest_high
        slots.spare[slot, p] += loss - range_cost(features.orders, weight, j, rest_low, rest_high)
    return loss


@kernel(inner=True, forceinline=True, counting=False)
def _refresh_words(features: Features, slots: Slots, slot: int, w: int) -> float:
    """Rest bits of one word by the bits seen once and twice; returns the word's loss."""
    k = slots.members.shape[1]
    once = np.uint64(0)
    twice = np.uint64(0)
    for p in range(k):
        word = features.words[slots.members[slot, p], w]
        twice |= once & word
        once |= word
    slots.hull_words[slot, w] = once
    for p in range(k):
        own = features.words[slots.members[slot, p], w] & ~twice
        slots.rest_words[slot, p, w] = once & ~own
        if own:
            slots.spare[slot, p] += bits_cost(own, features.bit_weight, w)
    # The first value of each attribute is free: the first member pays for none of its bits.
    return bits_cost(once & ~features.words[slots.members[slot, 0], w], features.bit_weight, w)


@kernel(inner=True, forceinline=True, counting=False)
def _refresh_wide(features: Features, slots: Slots, slot: int, j: int) -> float:
    """Spare loss of one attribute of codes; returns its loss."""
    k = slots.members.shape[1]
    loss = 0.0
    for p in range(k):
        slots.wide[slot, p, j] = features.wide[slots.members[slot, p], j]
    for p in range(k):
        first = True
        alone = True
        for q in range(k):
            if q != p and slots.wide[slot, q, j] == slots.wide[slot, p, j]:
                alone = False
                if q < p:
                    first = False
        if alone:
            slots.spare[slot, p] += features.wide_weight[j]
        if first and p > 0:
            loss += features.wide_weight[j]
    return loss


@kernel(inner=True, forceinline=True, counting=False)
def refresh(features: Features, slots: Slots, slot: int) -> None:
    """Recompute what is kept for a slot. O(k d + k^2 d_wide)."""
    k = slots.members.shape[1]
    for p in range(k):
        slots.spare[slot, p] = 0.0
    numeric = 0.0
    for j in range(features.numeric_weight.size):
        numeric += _refresh_numeric(features, slots, slot, j)
    categorical = 0.0
    for p in range(k):
        # So far the spare is the numeric part; the difference at the end is the categorical one.
        slots.rest[slot, p, 0] = slots.spare[slot, p]
    for w in range(features.words.shape[1]):
        categorical += _refresh_words(features, slots, slot, w)
    for j in range(features.wide_weight.size):
        categorical += _refresh_wide(features, slots, slot, j)
    for p in range(k):
        slots.rest[slot, p, 0] = categorical - (slots.spare[slot, p] - slots.rest[slot, p, 0])
    slots.loss[slot] = numeric + categorical


give_loss(Slots, replaced_loss, refresh, least_added)


def build_slots(units: Units, members: NDArray[np.int32]) -> Slots:
    """State over units for members int32 (n, k) of unit numbers (copied). O(n k d)."""
    n, k = members.shape
    dn, width = units.features.numeric.shape[1], units.features.words.shape[1]
    slots = Slots(
        wide=np.empty((n, k, units.features.wide.shape[1]), dtype=np.int32),
        rest=np.empty((n, k, 1 + 2 * dn)),
        rest_words=np.empty((n, k, width), dtype=np.uint64),
        hull=np.empty((n, 2 * dn)),
        hull_words=np.empty((n, width), dtype=np.uint64),
        **place_fields(units, members),
    )
    fill(units.features, units.individual, slots)
    return slots
