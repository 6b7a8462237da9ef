"""Hungarian: each of k - 1 rounds is a least-cost assignment under the prices that the rounds before left.

Source: S0, section 2, on the long version of S2 (Doka et al., "k-anonymization by freeform generalization", 2015). Each
round is optimal, the sum of them is not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import InfeasibleError
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

# A round takes 2-3 s there, and its prices 200 MB.
LARGEST_ROWS = 5_000


@kernel
def _prices(units: Units, slots: OpenSlots, size: int, price: np.ndarray) -> None:
    """Fill price, float64 (n, n): of each source on each slot, infinite where it may not join."""
    for source in range(price.shape[0]):
        unit = slots.rows[source]
        for slot in range(price.shape[1]):
            grown = growth(units.features, slots, size, slot, unit)
            price[source, slot] = grown if may_join(units, slots, size, slot, unit) else np.inf


def hungarian_members(units: Units, k: int, *, limit: int = LARGEST_ROWS) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k): the identity and k - 1 optimal assignments. O(k n^3), 8 n^2 bytes.

    Raises UnservedError beyond ``limit`` rows, InfeasibleError when a round has no assignment (only where individuals
    have several rows).
    """
    # scipy.optimize takes as long to load as everything else together, and few want it.
    from scipy.optimize import linear_sum_assignment

    rows = lexicographic_rows(units)
    refuse_above("hungarian", rows.size, limit, "choose sort-greedy, insertion or auto")
    slots = open_slots(units, rows, k)
    price = np.empty((rows.size, rows.size))
    for size in range(1, k):
        _prices(units, slots, size, price)
        try:
            _, target = linear_sum_assignment(price)
        except ValueError:
            raise InfeasibleError(f"hungarian finds no assignment in round {size + 1} of {k}") from None
        take(units, slots, size, target.astype(np.int64))
    return slots.members
