"""From the linear program's x to a legal graph: slots by their share, the rest completed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.distinct_rows import Units
from kanonflow.solvers.kd_tree import KdTree
from kanonflow.solvers.warm_start import fill_holes

# A share counts as whole when it is this near.
NEAR = 1e-6


def _room(slot: NDArray[np.int32], need: NDArray[np.int64]) -> int:
    """How often a slot may be taken until one of its units needs no place."""
    held, times = np.unique(slot, return_counts=True)
    return int((need[held] // times).min())


def round_slots(
    units: Units,
    nearest: NDArray[np.int32],
    tree: KdTree,
    slots: NDArray[np.int32],
    x: NDArray[np.float64],
    k: int,
    seed: int,
) -> NDArray[np.int32] | None:
    """A legal graph, int32 (n, k) of units, that keeps what the program is sure of; None if it cannot be completed.

    slots: int32 (m, k); x: float64 (m,), ``sum over S of mult_i(S) x_S = k w_i``. Each slot is taken ``floor(x)``
    times; then slots are tried again by their remaining share (jittered by ``seed``), as long as their units need
    places; then slots with as many of their members as still need places; what is empty is filled with near units.
    """
    need = units.weight.astype(np.int64) * k
    whole = np.floor(x + NEAR)
    share = np.clip(x - whole, 0.0, 1.0)
    chosen: list[NDArray[np.int32]] = []
    for index in np.flatnonzero(whole > 0):
        # The program holds its equations up to a tolerance only.
        times = min(int(whole[index]), _room(slots[index], need))
        np.subtract.at(need, slots[index], times)
        chosen += [slots[index]] * times
    draws = np.random.default_rng(seed).random(share.size)
    fractional = np.flatnonzero(share > NEAR)
    fractional = fractional[np.argsort(-(share + 0.3 * draws)[fractional], kind="stable")]
    for index in fractional:
        if _room(slots[index], need) > 0:
            np.subtract.at(need, slots[index], 1)
            chosen.append(slots[index])
    n = int(units.weight.sum())
    members = np.full((n, k), -1, dtype=np.int32)
    if chosen:
        members[: len(chosen)] = np.array(chosen)
    _seed_the_rest(members, len(chosen), need, slots[fractional])
    if not fill_holes(units, nearest, tree, need, members, np.zeros(n, dtype=np.bool_)):
        return None
    return members


def _seed_the_rest(
    members: NDArray[np.int32], filled: int, need: NDArray[np.int64], slots: NDArray[np.int32]
) -> None:
    """Give each open slot the members of a fractional slot that still need places, as many as there are."""
    k = members.shape[1]
    for least in range(k - 1, 1, -1):
        for slot in slots:
            if filled == members.shape[0]:
                return
            free = [unit for unit in np.unique(slot) if need[unit] > 0]
            if len(free) >= least:
                members[filled, : len(free)] = free
                need[free] -= 1
                filled += 1
