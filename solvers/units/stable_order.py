"""A stable sort by merging, in a tenth of the time that numba's takes to compile, and in no more to run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel

# Runs of so many are sorted by insertion before they are merged.
RUN = 16


class Scratch(NamedTuple):
    """What sorting some of u units needs: units, order, merged int64 (u,), values float64 (u,)."""

    units: NDArray[np.int64]
    order: NDArray[np.int64]
    merged: NDArray[np.int64]
    values: NDArray[np.float64]


def build_scratch(u: int) -> Scratch:
    """Scratch for u units, with nothing in it."""
    units, order, merged = (np.zeros(u, dtype=np.int64) for _ in range(3))
    return Scratch(units, order, merged, np.zeros(u))


@kernel(inner=True)
def _before(a: float, b: float) -> bool:
    """Whether a stands before b, ascending, NaN last."""
    return a < b or (b != b and a == a)


@kernel(inner=True)
def stable_order(keys: np.ndarray, count: int, order: np.ndarray, scratch: np.ndarray) -> None:
    """``order[:count] = np.argsort(keys[:count], kind="stable")``. O(count log count).

    keys: float64; order, scratch: int64; all three at least ``count`` long.
    """
    for begin in range(0, count, RUN):
        for place in range(begin, min(begin + RUN, count)):
            at = place
            while at > begin and _before(keys[place], keys[order[at - 1]]):
                order[at] = order[at - 1]
                at -= 1
            order[at] = place
    width = RUN
    while width < count:
        for begin in range(0, count, 2 * width):
            middle, end = min(begin + width, count), min(begin + 2 * width, count)
            # The left half waits in scratch; the right half is only ever read before it is written over.
            for place in range(begin, middle):
                scratch[place] = order[place]
            left, right, to = begin, middle, begin
            while left < middle:
                if right < end and _before(keys[order[right]], keys[scratch[left]]):
                    order[to] = order[right]
                    right += 1
                else:
                    order[to] = scratch[left]
                    left += 1
                to += 1
        width *= 2
