"""The moves of S0's search: the exhaustive scan of a slot (Fig. 3), local search (Algorithm 2), random swaps (5.4).

They know a loss only by what it is after a member has given way, and by how a slot is refreshed; the type of the state
says which loss that is, so each of them is written once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.rivals.paper_ncp import NcpSlots, ncp_from_kept, ncp_from_members, refresh_ncp
from kanonflow.solvers.rivals.paper_sil import refresh_sil, sil_from_kept, sil_from_members
from kanonflow.solvers.search.workspace import EPSILON
from kanonflow.solvers.units.bits import next_random

# Draws for one random swap before the perturbation gives it up: on tiny graphs there may be none.
DRAWS = 100


class PaperWork(NamedTuple):
    """Scratch of a search over n slots.

    listed: int32 (n,), slots to look at in its first ``size`` (int64 (1,)) entries. at: int32 (n,), where a slot
    stands there, -1: nowhere. random: uint64 (1,). evaluations: int64 (1,). move: int64 (3,), the last scan's
    position in b, other slot and position there.
    """

    listed: NDArray[np.int32]
    at: NDArray[np.int32]
    size: NDArray[np.int64]
    random: NDArray[np.uint64]
    evaluations: NDArray[np.int64]
    move: NDArray[np.int64]


def _loss_after(slots: Any, slot: int, position: int, row: int) -> float:
    """Loss of a slot after the member at ``position`` has given way to ``row``: of the state's own loss."""
    raise TypeError("called from compiled kernels only")


def _refresh(slots: Any, slot: int) -> None:
    """Work out afresh what is kept for a slot: of the state's own loss."""
    raise TypeError("called from compiled kernels only")


@overload(_loss_after, inline="always", strict=False)
def _chosen_loss_after(slots: Any, slot: int, position: int, row: int) -> Any:
    if slots.instance_class is NcpSlots:

        def ncp_after(slots: Any, slot: int, position: int, row: int) -> float:
            if slots.incremental:
                return ncp_from_kept(slots, slot, position, row)
            return ncp_from_members(slots, slot, position, row)

        return ncp_after

    def sil_after(slots: Any, slot: int, position: int, row: int) -> float:
        if slots.incremental:
            return sil_from_kept(slots, slot, position, row)
        return sil_from_members(slots, slot, position, row)

    return sil_after


@overload(_refresh, strict=False)
def _chosen_refresh(slots: Any, slot: int) -> Any:
    if slots.instance_class is NcpSlots:
        return lambda slots, slot: refresh_ncp(slots, slot)
    return lambda slots, slot: refresh_sil(slots, slot)


@kernel(inner=True, forceinline=True)
def _push(work: PaperWork, slot: int) -> None:
    if work.at[slot] < 0:
        work.at[slot] = work.size[0]
        work.listed[work.size[0]] = slot
        work.size[0] += 1


@kernel(inner=True, forceinline=True)
def _take_at_random(work: PaperWork) -> int:
    """A random slot, off the list; the last one fills its place."""
    chosen = next_random(work.random, work.size[0])
    slot = work.listed[chosen]
    work.size[0] -= 1
    last = work.listed[work.size[0]]
    work.listed[chosen] = last
    work.at[last] = chosen
    work.at[slot] = -1
    return slot


@kernel(inner=True, forceinline=True)
def _admits(slots: Any, who: np.ndarray, slot: int, position: int, row: int) -> bool:
    """Whether no other member of the slot is of the individual of ``row``."""
    free = True
    for p in range(slots.members.shape[1]):
        if p != position and who[slots.members[slot, p]] == who[row]:
            free = False
    return free


@kernel(inner=True, forceinline=True)
def _distinct(a: int, b: int, c: int, d: int) -> bool:
    """S0, section 4: the indices of two tuple disjoint edges (a, b), (c, d)."""
    return a != b and a != c and a != d and b != c and b != d and c != d


@kernel
def scan(slots: Any, who: np.ndarray, work: PaperWork, b: int, first: bool, strict: bool) -> float:
    """Gain of the best (first: of the first improving) move of slot b; ``work.move`` says which. 0 if none improves.

    Slots d come in cyclic order after b. Legal: b and d differ, a and c differ, neither slot gets an individual twice.
    """
    n, k = slots.members.shape
    best = 0.0
    evaluations = 0
    done = False
    d = b
    for _ in range(n - 1):
        d = d + 1 if d + 1 < n else 0
        if done:
            continue
        for p in range(k):
            a = slots.members[b, p]
            for q in range(k):
                c = slots.members[d, q]
                if done or a == c or (strict and not _distinct(a, b, c, d)):
                    continue
                gain = slots.loss[b] - _loss_after(slots, b, p, c)
                evaluations += 1
                # Slot d can give back at most all it loses.
                if gain + slots.loss[d] <= best + EPSILON:
                    continue
                gain += slots.loss[d] - _loss_after(slots, d, q, a)
                evaluations += 1
                if gain > best + EPSILON and _admits(slots, who, b, p, c) and _admits(slots, who, d, q, a):
                    best = gain
                    work.move[0], work.move[1], work.move[2] = p, d, q
                    done = first
    work.evaluations[0] += evaluations
    return best


@kernel(forceinline=True)
def exchange(slots: Any, b: int, p: int, d: int, q: int) -> None:
    slots.members[b, p], slots.members[d, q] = slots.members[d, q], slots.members[b, p]
    _refresh(slots, b)
    _refresh(slots, d)


@kernel
def local_search(slots: Any, who: np.ndarray, work: PaperWork, first: bool, strict: bool, limit: int) -> None:
    """Algorithm 2, until the list is empty or ``limit`` evaluations are made."""
    while work.size[0] > 0 and work.evaluations[0] < limit:
        b = _take_at_random(work)
        if scan(slots, who, work, b, first, strict) > 0.0:
            d = work.move[1]
            exchange(slots, b, work.move[0], d, work.move[2])
            _push(work, b)
            _push(work, d)


@kernel
def perturb(slots: Any, who: np.ndarray, work: PaperWork, swaps: int, strict: bool) -> None:
    """Random legal moves, whatever they cost; the slots they touch go on the list."""
    n, k = slots.members.shape
    for _ in range(swaps):
        moved = False
        for _ in range(DRAWS):
            b, p = next_random(work.random, n), next_random(work.random, k)
            d, q = next_random(work.random, n), next_random(work.random, k)
            a, c = slots.members[b, p], slots.members[d, q]
            if moved or b == d or a == c or (strict and not _distinct(a, b, c, d)):
                continue
            if _admits(slots, who, b, p, c) and _admits(slots, who, d, q, a):
                exchange(slots, b, p, d, q)
                _push(work, b)
                _push(work, d)
                moved = True


@kernel
def refresh_all(slots: Any) -> None:
    for slot in range(slots.members.shape[0]):
        _refresh(slots, slot)
