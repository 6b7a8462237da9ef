"""LB1: no box that holds a record and k - 1 others is cheaper than the one up to its (k-1)-th nearest other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.distinct_rows import Units


@kernel
def _reach(units: Units, nearest: np.ndarray, distance: np.ndarray, k: int, reach: np.ndarray) -> None:
    for unit in range(units.weight.size):
        others = units.limit[unit] - 1
        reached = 0.0
        for index in range(nearest.shape[1]):
            if others >= k - 1 or nearest[unit, index] < 0:
                break
            others += units.limit[nearest[unit, index]]
            reached = distance[unit, index]
        reach[unit] = reached


def neighbour_reach(
    units: Units, nearest: NDArray[np.int32], distance: NDArray[np.float64], k: int
) -> NDArray[np.float64]:
    """Pair loss of each unit to its (k-1)-th nearest record, float64 (u,); arguments as of neighbour_bound.

    A k-th of it is a feasible dual of the LP bound (a slot costs at least the reach of each of its k members).
    """
    reach = np.empty(units.weight.size)
    _reach(units, nearest, distance, k, reach)
    return reach


def neighbour_bound(units: Units, nearest: NDArray[np.int32], distance: NDArray[np.float64], k: int) -> float:
    """Lower bound on the GCP of any k-regular graph over the units' rows.

    sum over records of the pair loss to the (k-1)-th nearest record it may share a slot with, over n. If the lists
    (``nearest``, ``distance`` of neighbours.nearest_units) are shorter than k - 1 the last one counts, which is still
    valid. Why: relabelled by a perfect matching, slot j holds record j. O(u m).
    """
    reach = neighbour_reach(units, nearest, distance, k)
    return float(reach @ units.weight) / max(int(units.weight.sum()), 1)
