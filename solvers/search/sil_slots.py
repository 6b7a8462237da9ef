"""The state of the graph search when SIL is lowered (S0, eq. 5-7, section 5.3): the moves are those of every loss.

The loss of a slot is the mean, over its members, of their distance to the slot's average, over d: the mean over slots
is SIL as loss/sil.py defines it. As in slots.py what a slot is without one member is kept: sums, and how often the
commonest value occurs. With the sums of the rest a candidate's average is known at once; its k distances are roots of
their own, so a candidate costs O(k d).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search.slot_loss import fill, give_loss, place_fields
from kanonflow.solvers.units.distinct_rows import Units


class SilFeatures(NamedTuple):
    """Arrays of u units.

    numeric: float64 (u, dn), values over their attribute's standard deviation in the table, NaN for a null;
    attributes that do not vary are left out. null_gap: float64 (dn,), from a null to numbers, a whole domain.
    codes: int32 (u, dc). inverse: float64 (k + 1,), 1 / count, 0 for 0. scale: 1 / (k d).
    """

    numeric: NDArray[np.float64]
    null_gap: NDArray[np.float64]
    codes: NDArray[np.int32]
    inverse: NDArray[np.float64]
    scale: float


class SilSlots(NamedTuple):
    """n slots of k units; members, who, loss, spare, places, first_place, entry as slot_loss.py asks.

    value: float64 (n, k, dn), the members' numbers. code: int32 (n, dc, k), their codes, members last.
    rest_sum: float64 (n, k, dn), sum of the numbers without a member; rest_known: int32 (n, k, dn), how many they are.
    rest_top: int32 (n, k, dc), how often the commonest value occurs without a member; top: int32 (n, dc), with all.
    """

    members: NDArray[np.int32]
    who: NDArray[np.int32]
    value: NDArray[np.float64]
    code: NDArray[np.int32]
    rest_sum: NDArray[np.float64]
    rest_known: NDArray[np.int32]
    rest_top: NDArray[np.int32]
    top: NDArray[np.int32]
    loss: NDArray[np.float64]
    spare: NDArray[np.float64]
    places: NDArray[np.int32]
    first_place: NDArray[np.int64]
    entry: NDArray[np.int32]


@kernel(forceinline=True, counting=False)
def replaced_loss(features: SilFeatures, slots: SilSlots, slot: int, position: int, unit: int) -> float:
    """Loss of a slot after the member at ``position`` has given way to ``unit``. O(k d)."""
    k = slots.members.shape[1]
    total = 0.0
    for p in range(k):
        square = 0.0
        for j in range(features.null_gap.size):
            new = features.numeric[unit, j]
            x = new if p == position else slots.value[slot, p, j]
            known = slots.rest_known[slot, position, j] + int(new == new)
            if x == x:
                mean = slots.rest_sum[slot, position, j] + (new if new == new else 0.0)
                gap = x - mean * features.inverse[known]
            else:
                gap = features.null_gap[j] if known > 0 else 0.0
            square += gap * gap
        total += np.sqrt(square)
    for j in range(features.codes.shape[1]):
        code = features.codes[unit, j]
        count = 1 - int(slots.code[slot, j, position] == code)
        for p in range(k):
            count += int(slots.code[slot, j, p] == code)
        total += k - max(slots.rest_top[slot, position, j], count)
    return total * features.scale


@kernel(forceinline=True, counting=False)
def least_added(features: SilFeatures, slots: SilSlots, slot: int, unit: int) -> float:
    """A mismatch for each attribute in which the unit's value is two behind the commonest: so it is without anyone.

    Numbers add nothing for certain: the average may move to where the others are. O(k dc).
    """
    total = 0
    for j in range(features.codes.shape[1]):
        code = features.codes[unit, j]
        count = 0
        for p in range(slots.members.shape[1]):
            count += int(slots.code[slot, j, p] == code)
        total += int(count + 2 <= slots.top[slot, j])
    return total * features.scale


@kernel(inner=True, forceinline=True, counting=False)
def _distance_without(features: SilFeatures, slots: SilSlots, slot: int, position: int) -> float:
    """Sum of the other members' distances to their own average; position -1: of all members to theirs.

    With nulls among the others, as a bound on what is left when somebody takes the place, 0.
    """
    k = slots.members.shape[1]
    total = 0.0
    nulls = False
    for p in range(k):
        square = 0.0
        for j in range(features.null_gap.size):
            summed, known = 0.0, 0
            for q in range(k):
                y = slots.value[slot, q, j]
                if q != position and y == y:
                    summed += y
                    known += 1
            x = slots.value[slot, p, j]
            if x == x:
                gap = x - summed * features.inverse[known]
            else:
                gap = features.null_gap[j] if known > 0 else 0.0
                nulls = nulls or p != position
            square += gap * gap
        if p != position:
            total += np.sqrt(square)
    return 0.0 if nulls and position >= 0 else total


@kernel(inner=True, forceinline=True, counting=False)
def _top_without(slots: SilSlots, slot: int, j: int, position: int) -> int:
    """How often the commonest value of attribute j occurs among the other members; position -1: among all."""
    k = slots.members.shape[1]
    top = 0
    for p in range(k):
        count = 0
        for q in range(k):
            count += int(q != position and slots.code[slot, j, q] == slots.code[slot, j, p])
        top = max(top, count)
    return top


@kernel(inner=True, forceinline=True, counting=False)
def refresh(features: SilFeatures, slots: SilSlots, slot: int) -> None:
    """Recompute what is kept for a slot. O(k^3 d): members are few, and most of the time goes into candidates.

    spare: what is left cannot be less than the others' distances to their own average r. Whoever comes moves the
    average to some m, which takes at most (k - 1) |m - r| off them, and is itself (k - 1) |m - r| away from m.
    """
    k = slots.members.shape[1]
    for p in range(k):
        unit = slots.members[slot, p]
        for j in range(features.null_gap.size):
            slots.value[slot, p, j] = features.numeric[unit, j]
        for j in range(features.codes.shape[1]):
            slots.code[slot, j, p] = features.codes[unit, j]
    loss = _distance_without(features, slots, slot, -1)
    for j in range(features.codes.shape[1]):
        slots.top[slot, j] = _top_without(slots, slot, j, -1)
        loss += k - slots.top[slot, j]
    slots.loss[slot] = loss * features.scale
    for p in range(k):
        rest = _distance_without(features, slots, slot, p)
        for j in range(features.null_gap.size):
            summed, known = 0.0, 0
            for q in range(k):
                y = slots.value[slot, q, j]
                if q != p and y == y:
                    summed += y
                    known += 1
            slots.rest_sum[slot, p, j], slots.rest_known[slot, p, j] = summed, known
        for j in range(features.codes.shape[1]):
            slots.rest_top[slot, p, j] = _top_without(slots, slot, j, p)
            rest += k - 1 - slots.rest_top[slot, p, j]
        slots.spare[slot, p] = (loss - rest) * features.scale


give_loss(SilSlots, replaced_loss, refresh, least_added)


def deviations(table: Table) -> NDArray[np.float64]:
    """Standard deviation of each numeric attribute's known values, float64 (dn,)."""
    known = [column[~np.isnan(column)] for column in table.numeric.T]
    return np.array([column.std() if column.size else 0.0 for column in known])


def weighted_for_sil(table: Table) -> Table:
    """The table with weights under which the pair loss of NCP is near the distance of SIL.

    A step of one standard deviation and a mismatch of categories cost the same; NCP's own weights go by the width of
    domains. Neighbours and starts of a search for SIL are taken from this table. The attribute weights of the policy
    do not enter, as SIL has none.
    """
    sigma = deviations(table)
    # An attribute that does not vary must have some weight; what it costs is 0 anyway.
    numeric = 1.0 / np.where(sigma > 0.0, sigma, 1.0)
    return replace(table, weights=np.concatenate([numeric, np.maximum(table.cardinality - 1, 1)]))


def sil_units(table: Table, units: Units, k: int) -> Units:
    """The units with the features of SIL for slots of k in the place of those of NCP, for ``build_sil_slots``."""
    rows = units.rows[units.first[:-1]]
    sigma = deviations(table)
    varies = np.flatnonzero(sigma > 0.0)
    features = SilFeatures(
        numeric=np.ascontiguousarray(table.numeric[rows][:, varies] / sigma[varies]),
        null_gap=1.0 / sigma[varies],
        codes=np.ascontiguousarray(table.categorical[rows], dtype=np.int32),
        inverse=np.concatenate([[0.0], 1.0 / np.arange(1, k + 1)]),
        scale=1.0 / (k * table.attributes),
    )
    return units._replace(features=features)  # type: ignore[arg-type]


def build_sil_slots(units: Units, members: NDArray[np.int32]) -> SilSlots:
    """State over units of ``sil_units`` for members int32 (n, k) of unit numbers (copied). O(n k^3 d)."""
    n, k = members.shape
    dn, dc = units.features.numeric.shape[1], units.features.codes.shape[1]
    slots = SilSlots(
        value=np.empty((n, k, dn)),
        code=np.empty((n, dc, k), dtype=np.int32),
        rest_sum=np.empty((n, k, dn)),
        rest_known=np.empty((n, k, dn), dtype=np.int32),
        rest_top=np.empty((n, k, dc), dtype=np.int32),
        top=np.empty((n, dc), dtype=np.int32),
        **place_fields(units, members),
    )
    fill(units.features, units.individual, slots)
    return slots
