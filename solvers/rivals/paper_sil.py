"""SIL of slots as S0 keeps it: running sums of numeric attributes, modes from counts (S0, eq. 5-7, section 5.3).

Two readings of eq. 7, which compares "the" record i with the average of slot i: over all k records of a slot (what
solvers/loss/sil.py defines: the expectation over the published matching), or for record i alone, as printed
(``own``). With sums, the second costs O(d) a candidate; the first visits the k members because each of their
distances is a root of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.paper_values import Values, occurring_values


class SilSlots(NamedTuple):
    """n slots of k rows of a table of n rows, and their loss.

    members: int32 (n, k). loss: float64 (n,), mean distance to the slot's average over its members (own: of row
    ``slot`` alone), divided by d. incremental, codes, counts: as in paper_ncp.NcpSlots.
    own: see above. attributes: d, a number.
    numeric: float64 (n, dn), values over their attribute's standard deviation, 0 for a null; attributes that do not
    vary are left out. known: float64 (n, dn), 1 but for nulls. null_gap: float64 (dn,), how far a null is from numbers.
    sums, knowns: float64 (n, dn), over the members of each slot.
    top, ties: uint8 (n, dc), how often the commonest value of an attribute stands in a slot, and how many do so.
    tally: int64 (V,), scratch.
    """

    members: NDArray[np.int32]
    loss: NDArray[np.float64]
    incremental: bool
    own: bool
    attributes: float
    numeric: NDArray[np.float64]
    known: NDArray[np.float64]
    null_gap: NDArray[np.float64]
    sums: NDArray[np.float64]
    knowns: NDArray[np.float64]
    codes: NDArray[np.int32]
    counts: NDArray[np.uint8]
    top: NDArray[np.uint8]
    ties: NDArray[np.uint8]
    tally: NDArray[np.int64]


@kernel(inner=True, forceinline=True, error_model="numpy")
def sil_from_kept(slots: SilSlots, slot: int, position: int, row: int) -> float:
    """Loss of a slot after the member at ``position`` has given way to ``row``: O(k dn + dc); own: O(d).

    One function without calls, and without Python's check of divisors: for either, numba would count references to all
    these arrays, at three to ten times the cost.
    """
    k = slots.members.shape[1]
    out = slots.members[slot, position]
    asked = 1 if slots.own else k
    distance = 0.0
    for p in range(asked):
        member = row if p == position else slots.members[slot, p]
        if slots.own:
            member = slot
        square = 0.0
        for j in range(slots.null_gap.size):
            total = slots.sums[slot, j] - slots.numeric[out, j] + slots.numeric[row, j]
            count = slots.knowns[slot, j] - slots.known[out, j] + slots.known[row, j]
            if slots.known[member, j] != 0.0 and count > 0.0:
                gap = slots.numeric[member, j] - total / count
            else:
                # Nulls and numbers are a whole domain apart, nulls among themselves are equal.
                gap = slots.null_gap[j] * (slots.known[member, j] + min(count, 1.0))
            square += gap * gap
        distance += np.sqrt(square)
    for j in range(slots.codes.shape[1]):
        gone, come = slots.codes[out, j], slots.codes[row, j]
        top = int(slots.top[slot, j])
        if gone != come:
            # The commonest value loses a member; if none other is as common, it is still as common as any.
            if slots.counts[slot, gone] == top and slots.ties[slot, j] == 1:
                top -= 1
            top = max(top, int(slots.counts[slot, come]) + 1)
        if not slots.own:
            distance += k - top
            continue
        code = slots.codes[slot, j]
        here = int(slots.counts[slot, code]) - int(code == gone) + int(code == come)
        is_mode = here == top
        if is_mode and 2 * here <= k:
            # Other values may be as common: the smallest of them is the mode.
            for p in range(k):
                other = slots.codes[row if p == position else slots.members[slot, p], j]
                count_of_other = int(slots.counts[slot, other]) - int(other == gone) + int(other == come)
                if count_of_other == here and other < code:
                    is_mode = False
        distance += 0.0 if is_mode else 1.0
    return distance / (asked * slots.attributes)


@kernel(inner=True, forceinline=True, error_model="numpy")
def sil_from_members(slots: SilSlots, slot: int, position: int, row: int) -> float:
    """The same by scans of the slot's members: O(k^2 dn + k dc); own: O(k d)."""
    k = slots.members.shape[1]
    asked = 1 if slots.own else k
    distance = 0.0
    for p in range(asked):
        member = row if p == position else slots.members[slot, p]
        if slots.own:
            member = slot
        square = 0.0
        for j in range(slots.null_gap.size):
            total = count = 0.0
            for q in range(k):
                other = row if q == position else slots.members[slot, q]
                total += slots.numeric[other, j]
                count += slots.known[other, j]
            if slots.known[member, j] != 0.0 and count > 0.0:
                gap = slots.numeric[member, j] - total / count
            else:
                gap = slots.null_gap[j] * (slots.known[member, j] + min(count, 1.0))
            square += gap * gap
        distance += np.sqrt(square)
    for j in range(slots.codes.shape[1]):
        for p in range(k):
            slots.tally[slots.codes[row if p == position else slots.members[slot, p], j]] = 0
        mode, times = -1, 0
        for p in range(k):
            code = slots.codes[row if p == position else slots.members[slot, p], j]
            slots.tally[code] += 1
        for p in range(k):
            code = slots.codes[row if p == position else slots.members[slot, p], j]
            if slots.tally[code] > times or (slots.tally[code] == times and code < mode):
                mode, times = code, slots.tally[code]
        if not slots.own:
            distance += k - times
        elif slots.codes[slot, j] != mode:
            distance += 1.0
    return distance / (asked * slots.attributes)


@kernel
def refresh_sil(slots: SilSlots, slot: int) -> None:
    """Work out afresh what is kept for a slot, in O(k d)."""
    k = slots.members.shape[1]
    slots.sums[slot, :] = 0.0
    slots.knowns[slot, :] = 0.0
    slots.counts[slot, :] = 0
    slots.top[slot, :] = 0
    for p in range(k):
        member = slots.members[slot, p]
        for j in range(slots.null_gap.size):
            slots.sums[slot, j] += slots.numeric[member, j]
            slots.knowns[slot, j] += slots.known[member, j]
        for j in range(slots.codes.shape[1]):
            slots.counts[slot, slots.codes[member, j]] += 1
            count = slots.counts[slot, slots.codes[member, j]]
            if count > slots.top[slot, j]:
                slots.top[slot, j] = count
                slots.ties[slot, j] = 1
            elif count == slots.top[slot, j]:
                slots.ties[slot, j] += 1
    # A member that gives way to itself changes nothing.
    slots.loss[slot] = sil_from_kept(slots, slot, 0, slots.members[slot, 0])


def build_sil(
    table: Table, members: NDArray[np.int32], *, incremental: bool = True, own: bool = False
) -> SilSlots:
    """The state for members int32 (n, k) over rows (copied). O(n (k d + V)). Raises UnservedError when V is too large.

    sigma is each attribute's standard deviation over the table's known values, 1 for categorical attributes.
    """
    table = table.by_leaves()
    n = table.records
    known = ~np.isnan(table.numeric)
    sigma = np.array(
        [
            column[there].std() if there.any() else 0.0
            for column, there in zip(table.numeric.T, known.T, strict=True)
        ]
    )
    varies = np.flatnonzero(sigma > 0.0)
    sigma = sigma[varies]
    values: Values = occurring_values(table)
    slots = SilSlots(
        members=np.ascontiguousarray(members, dtype=np.int32).copy(),
        loss=np.empty(n),
        incremental=incremental,
        own=own,
        attributes=float(table.attributes),
        numeric=np.ascontiguousarray(np.where(known, table.numeric, 0.0)[:, varies] / sigma),
        known=np.ascontiguousarray(known[:, varies].astype(np.float64)),
        null_gap=1.0 / sigma,
        sums=np.empty((n, varies.size)),
        knowns=np.empty((n, varies.size)),
        codes=values.codes,
        counts=np.zeros((n, values.total), dtype=np.uint8),
        top=np.zeros((n, values.codes.shape[1]), dtype=np.uint8),
        ties=np.zeros((n, values.codes.shape[1]), dtype=np.uint8),
        tally=np.zeros(values.total, dtype=np.int64),
    )
    for slot in range(n):
        refresh_sil(slots, slot)
    return slots
