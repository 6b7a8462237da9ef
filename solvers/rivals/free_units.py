"""The units that no class has taken yet."""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.kernels.kernel import kernel


@kernel(inner=True)
def keep_free(free: np.ndarray, left: int, labels: np.ndarray, distance: np.ndarray) -> tuple:
    """Keep those of the first ``left`` free units that have no label, in their order.

    Returns how many they are, and the one of the greatest distance (the first of equals; -1 without any). O(left).
    """
    kept = 0
    furthest = -1.0
    found = -1
    for index in range(left):
        unit = free[index]
        if labels[unit] < 0:
            free[kept] = unit
            kept += 1
            if distance[unit] > furthest:
                furthest = distance[unit]
                found = unit
    return kept, found
