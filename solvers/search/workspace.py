"""Scratch memory of one search thread: the list of slots to look at, the undo log, counters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel

EPSILON = 1e-12


class Workspace(NamedTuple):
    """Scratch of one search thread over n slots and u units.

    stamp: int64 (u,), last scan that saw a unit. clock: int64 (1,). evaluations: int64 (1,).
    queue: int32 (n + 1,), ring buffer of slots to look at; bounds: int64 (2,), its head and tail.
    queued: bool (n,), the don't-look bits inverted.
    log: int32 (room, 4), swaps since the last commit; logged: int64 (1,).
    random: uint64 (1,). found: int64 (5,), the last scan's best move:
    position, other slot and its position, and for a chain the third slot and its position.
    opening: int64 (2, 3), the two most promising swaps that a chain may be able to close, their gains at the scanned
    slot in opening_gain: float64 (2,); openings: int64 (1,), how many there are.
    """

    stamp: NDArray[np.int64]
    clock: NDArray[np.int64]
    evaluations: NDArray[np.int64]
    queue: NDArray[np.int32]
    bounds: NDArray[np.int64]
    queued: NDArray[np.bool_]
    log: NDArray[np.int32]
    logged: NDArray[np.int64]
    random: NDArray[np.uint64]
    found: NDArray[np.int64]
    opening: NDArray[np.int64]
    opening_gain: NDArray[np.float64]
    openings: NDArray[np.int64]


def build_workspace(slots: int, units: int, seed: int, log: int = 256) -> Workspace:
    """Fresh scratch; seed: any 64-bit number. log: swaps or moves that can be undone."""
    return Workspace(
        stamp=np.zeros(units, dtype=np.int64),
        clock=np.zeros(1, dtype=np.int64),
        evaluations=np.zeros(1, dtype=np.int64),
        queue=np.empty(slots + 1, dtype=np.int32),
        bounds=np.zeros(2, dtype=np.int64),
        queued=np.zeros(slots, dtype=np.bool_),
        log=np.empty((log, 4), dtype=np.int32),
        logged=np.zeros(1, dtype=np.int64),
        random=np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64),
        found=np.zeros(5, dtype=np.int64),
        opening=np.zeros((2, 3), dtype=np.int64),
        opening_gain=np.zeros(2),
        openings=np.zeros(1, dtype=np.int64),
    )


@kernel(forceinline=True, counting=False)
def push(work: Workspace, slot: int) -> None:
    """Put a slot on the list of those to look at, unless it is there."""
    if not work.queued[slot]:
        work.queued[slot] = True
        work.queue[work.bounds[1]] = slot
        work.bounds[1] = (work.bounds[1] + 1) % work.queue.size


def push_all(work: Workspace, slots: NDArray[np.int64]) -> None:
    """Put slots, none of them twice, on the list of fresh scratch, in this order."""
    work.queue[: slots.size] = slots
    work.queued[slots] = True
    work.bounds[1] = slots.size


@kernel(inner=True, forceinline=True, counting=False)
def pop(work: Workspace) -> int:
    """Take the oldest slot off the list, -1 when it is empty."""
    if work.bounds[0] == work.bounds[1]:
        return -1
    slot = work.queue[work.bounds[0]]
    work.bounds[0] = (work.bounds[0] + 1) % work.queue.size
    work.queued[slot] = False
    return slot
