"""NCP of slots as S0 keeps it: two smallest and two largest values, and how often each category stands in a slot.

S0, sections 5.1 and 5.2. "Second smallest" counts multiplicity: of the values 3, 3, 5 the second smallest is 3, so the
box without one member is known from these numbers alone, in constant time an attribute.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.paper_values import Values, occurring_values
from kanonflow.solvers.units.features import normalized_weights, weighted_coordinates
from kanonflow.solvers.units.leaf_orders import LeafOrders, range_cost


class NcpSlots(NamedTuple):
    """n slots of k rows of a table of n rows, and their loss.

    members: int32 (n, k). loss: float64 (n,), weighted mean of NCP. incremental: whether a candidate is worked out
    from what is kept for its slot, or by a scan of the slot's members.
    numeric: float64 (n, dn), weighted coordinates (see solvers/units/features.py). numeric_weight: float64 (dn,).
    codes: int32 (n, dc), each value's column in ``counts``. code_weight: float64 (dc,), of a value beyond the first.
    extremes: float64 (n, dn, 4), min, second min, max, second max. counts: uint8 (n, V), members with each value.
    seen: int64 (V,), the last scan that met a value. scans: int64 (1,). orders: hierarchies among the numeric ones.
    """

    members: NDArray[np.int32]
    loss: NDArray[np.float64]
    incremental: bool
    numeric: NDArray[np.float64]
    numeric_weight: NDArray[np.float64]
    codes: NDArray[np.int32]
    code_weight: NDArray[np.float64]
    extremes: NDArray[np.float64]
    counts: NDArray[np.uint8]
    seen: NDArray[np.int64]
    scans: NDArray[np.int64]
    orders: LeafOrders | None = None


@kernel(inner=True, forceinline=True)
def ncp_from_kept(slots: NcpSlots, slot: int, position: int, row: int) -> float:
    """Loss of a slot after the member at ``position`` has given way to ``row``, in O(d)."""
    out = slots.members[slot, position]
    total = slots.loss[slot]
    for j in range(slots.numeric_weight.size):
        low, high = slots.extremes[slot, j, 0], slots.extremes[slot, j, 2]
        weight = slots.numeric_weight[j]
        total -= range_cost(slots.orders, weight, j, low, high)
        gone, come = slots.numeric[out, j], slots.numeric[row, j]
        rest_low = slots.extremes[slot, j, 1] if gone == low else low
        rest_high = slots.extremes[slot, j, 3] if gone == high else high
        total += range_cost(slots.orders, weight, j, min(rest_low, come), max(rest_high, come))
    for j in range(slots.code_weight.size):
        gone_code, come_code = slots.codes[out, j], slots.codes[row, j]
        # Without branches, which would be mispredicted: twice as fast.
        lost = int(slots.counts[slot, gone_code] == 1) & int(gone_code != come_code)
        fresh = int(slots.counts[slot, come_code] == 0)
        total += (fresh - lost) * slots.code_weight[j]
    return total


@kernel(inner=True, forceinline=True)
def ncp_from_members(slots: NcpSlots, slot: int, position: int, row: int) -> float:
    """The same by a scan of the slot's members, in O(k d)."""
    k = slots.members.shape[1]
    total = 0.0
    for j in range(slots.numeric_weight.size):
        low = high = slots.numeric[row, j]
        for p in range(k):
            if p != position:
                x = slots.numeric[slots.members[slot, p], j]
                low = min(low, x)
                high = max(high, x)
        total += range_cost(slots.orders, slots.numeric_weight[j], j, low, high)
    slots.scans[0] += 1
    scan = slots.scans[0]
    for j in range(slots.code_weight.size):
        slots.seen[slots.codes[row, j]] = scan
        distinct = 0
        for p in range(k):
            code = slots.codes[slots.members[slot, p], j]
            if p != position and slots.seen[code] != scan:
                slots.seen[code] = scan
                distinct += 1
        total += distinct * slots.code_weight[j]
    return total


@kernel
def refresh_ncp(slots: NcpSlots, slot: int) -> None:
    """Work out afresh what is kept for a slot, in O(k d)."""
    k = slots.members.shape[1]
    total = 0.0
    for j in range(slots.numeric_weight.size):
        low = low2 = np.inf
        high = high2 = -np.inf
        for p in range(k):
            x = slots.numeric[slots.members[slot, p], j]
            if x < low:
                low2, low = low, x
            elif x < low2:
                low2 = x
            if x > high:
                high2, high = high, x
            elif x > high2:
                high2 = x
        slots.extremes[slot, j, 0], slots.extremes[slot, j, 1] = low, low2
        slots.extremes[slot, j, 2], slots.extremes[slot, j, 3] = high, high2
        total += range_cost(slots.orders, slots.numeric_weight[j], j, low, high)
    slots.counts[slot, :] = 0
    for p in range(k):
        for j in range(slots.code_weight.size):
            code = slots.codes[slots.members[slot, p], j]
            slots.counts[slot, code] += 1
            if p > 0 and slots.counts[slot, code] == 1:
                total += slots.code_weight[j]
    slots.loss[slot] = total


def build_ncp(table: Table, members: NDArray[np.int32], *, incremental: bool = True) -> NcpSlots:
    """The state for members int32 (n, k) over rows (copied). O(n (k d + V)).

    Raises UnservedError when V is too large.
    """
    n, dn = table.numeric.shape
    weights = normalized_weights(table)
    values: Values = occurring_values(table)
    coordinates, orders = weighted_coordinates(table, np.arange(n))
    slots = NcpSlots(
        members=np.ascontiguousarray(members, dtype=np.int32).copy(),
        loss=np.empty(n),
        incremental=incremental,
        numeric=coordinates,
        numeric_weight=weights[:dn].copy(),
        codes=values.codes,
        code_weight=weights[dn:] / np.maximum(table.cardinality - 1, 1),
        extremes=np.empty((n, dn, 4)),
        counts=np.zeros((n, values.total), dtype=np.uint8),
        seen=np.zeros(values.total, dtype=np.int64),
        scans=np.zeros(1, dtype=np.int64),
        orders=orders,
    )
    for slot in range(n):
        refresh_ncp(slots, slot)
    return slots
