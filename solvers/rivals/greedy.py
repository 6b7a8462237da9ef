"""Greedy: in each of k - 1 rounds every row takes the free slot that it makes grow least (S2, section III)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
from kanonflow.solvers.rivals.dead_ends import place_stranded
from kanonflow.solvers.rivals.open_slots import (
    OpenSlots,
    growth,
    lexicographic_rows,
    may_join,
    open_slots,
    refuse_above,
    take,
)
from kanonflow.solvers.units.distinct_rows import Units

# A round takes 6 s there, on one core.
LARGEST_ROWS = 40_000


@kernel
def _greedy_round(units: Units, slots: OpenSlots, size: int, target: np.ndarray) -> bool:
    """Fill target, int64 (n,), the slot of each source; False if no assignment exists."""
    n = target.size
    holder = np.full(n, -1, dtype=np.int64)
    # Free slots as a list in order: after[-1] is the first, n ends it.
    after = np.arange(1, n + 2)
    after[n] = 0
    for source in range(n):
        target[source] = -1
    for source in range(n):
        unit = slots.rows[source]
        best = np.inf
        before_best = -1
        before, slot = n, after[n]
        while slot < n:
            if holder[slot] >= 0:
                # A repair has taken it.
                after[before] = after[slot]
                slot = after[slot]
                continue
            price = growth(units.features, slots, size, slot, unit)
            if price < best and may_join(units, slots, size, slot, unit):
                best = price
                before_best = before
            before, slot = slot, after[slot]
        if before_best >= 0:
            slot = after[before_best]
            after[before_best] = after[slot]
            holder[slot] = source
            target[source] = slot
        elif not place_stranded(units, slots, size, holder, target, source, False):
            return False
    return True


def greedy_members(units: Units, k: int, *, limit: int = LARGEST_ROWS) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k), S2's Algorithm 1 after the identity; O(k n^2 d).

    Sources come in lexicographic order, attributes of few values first; each takes the free slot of least growth, the
    first of equals. A source that finds none takes its nearest predecessor's, which takes another (dead_ends.py).

    Raises UnservedError beyond ``limit`` rows, InfeasibleError when a round cannot be completed (only where
    individuals have several rows).
    """
    rows = lexicographic_rows(units)
    refuse_above("greedy", rows.size, limit, "choose l-greedy, insertion or auto")
    slots = open_slots(units, rows, k)
    target = np.empty(rows.size, dtype=np.int64)
    for size in range(1, k):
        if not _greedy_round(units, slots, size, target):
            raise InfeasibleError(f"greedy finds no assignment in round {size + 1} of {k}")
        take(units, slots, size, target)
    return slots.members
