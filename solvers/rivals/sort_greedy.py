"""SortGreedy: a round takes the lightest of all edges whose ends are both free, again and again (S2, section IV).

The paper sorts all n^2 edges. The same edges come in the same order out of a heap that holds, for each row, its
lightest edge to a slot that was free when the row last looked: prices are fixed within a round and slots only leave,
so a row whose slot is gone looks again. A row remembers its ``LISTED`` lightest, so it looks seldom. Memory O(n).
"""

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
from kanonflow.solvers.units.kd_tree import KdTree

# A round takes 12 s there, on one core.
LARGEST_ROWS = 40_000
LISTED = 24
BLOCK_ROWS = 2_000


@kernel(inner=True)
def _look(
    units: Units,
    slots: OpenSlots,
    size: int,
    free: np.ndarray,
    source: int,
    listed: np.ndarray,
    price: np.ndarray,
) -> int:
    """Fill the source's list with its lightest edges to free slots, lightest and then first in order; their number.

    free: int64 (slots,), ascending.
    """
    unit = slots.rows[source]
    room = listed.shape[1]
    found = 0
    worst = np.inf
    for index in range(free.size):
        slot = free[index]
        grown = growth(units.features, slots, size, slot, unit)
        if grown >= worst or not may_join(units, slots, size, slot, unit):
            continue
        place = found if found < room else room - 1
        found = min(found + 1, room)
        while place > 0 and price[source, place - 1] > grown:
            price[source, place] = price[source, place - 1]
            listed[source, place] = listed[source, place - 1]
            place -= 1
        price[source, place] = grown
        listed[source, place] = slot
        if found == room:
            worst = price[source, room - 1]
    return found


@kernel(inner=True, forceinline=True)
def _comes_first(weight: np.ndarray, a: int, b: int) -> bool:
    return weight[a] < weight[b] or (weight[a] == weight[b] and a < b)


@kernel(inner=True)
def _sink(heap: np.ndarray, count: int, weight: np.ndarray, place: int) -> None:
    """Restore the heap of sources below a place whose weight has grown."""
    source = heap[place]
    child = 2 * place + 1
    while child < count:
        if child + 1 < count and _comes_first(weight, heap[child + 1], heap[child]):
            child += 1
        if _comes_first(weight, heap[child], source):
            heap[place] = heap[child]
            place = child
            child = 2 * place + 1
        else:
            child = count
    heap[place] = source


@kernel
def _sorted_round(units: Units, slots: OpenSlots, size: int, room: int, target: np.ndarray) -> bool:
    """Fill target, int64 (n,), the slot of each source; False if no assignment exists."""
    n = target.size
    holder = np.full(n, -1, dtype=np.int64)
    listed = np.empty((n, room), dtype=np.int64)
    price = np.empty((n, room))
    known = np.empty(n, dtype=np.int64)
    at = np.zeros(n, dtype=np.int64)
    weight = np.empty(n)
    heap = np.arange(n)
    free = np.arange(n)
    for source in range(n):
        target[source] = -1
        known[source] = _look(units, slots, size, free, source, listed, price)
        weight[source] = price[source, 0] if known[source] else np.inf
    for place in range(n // 2 - 1, -1, -1):
        _sink(heap, n, weight, place)
    left = n
    while left > 0:
        source = heap[0]
        while at[source] < known[source] and holder[listed[source, at[source]]] >= 0:
            at[source] += 1
        if at[source] == known[source] and known[source] > 0:
            free = free[holder[free] < 0]
            known[source] = _look(units, slots, size, free, source, listed, price)
            at[source] = 0
        found = price[source, at[source]] if known[source] else np.inf
        if found > weight[source]:
            weight[source] = found
        else:
            if known[source] > 0:
                slot = listed[source, at[source]]
                holder[slot] = source
                target[source] = slot
            left -= 1
            heap[0] = heap[left]
        _sink(heap, left, weight, 0)
    for source in range(n):
        if target[source] < 0 and not place_stranded(units, slots, size, holder, target, source, True):
            return False
    return True


def sort_greedy_members(
    units: Units,
    tree: KdTree,
    k: int,
    *,
    limit: int = LARGEST_ROWS,
    listed: int = LISTED,
    block_rows: int = 0,
) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k), S2's Algorithm 2 after the identity.

    Edges of equal weight: the source that comes first in lexicographic order, then the slot. Sources left without a
    slot are repaired with their nearest neighbours in the order, both ways (dead_ends.py). listed: edges that a
    source remembers; it does not change the result. block_rows: if not 0, the k-d tour is cut into blocks of about so
    many rows, each a graph of its own; there is no limit then. O(k n^2 d) for the first look of each source, and again
    as much for every ``listed`` slots that a source loses to others; with blocks O(k n block_rows d).

    Raises UnservedError beyond ``limit`` rows, InfeasibleError when a round cannot be completed (only where
    individuals have several rows).
    """
    rows = lexicographic_rows(units)
    if not block_rows:
        refuse_above("sort-greedy", rows.size, limit, "choose sort-greedy-blocks, insertion or auto")
        return _block_members(units, rows, k, listed)
    rank = np.empty(units.weight.size, dtype=np.int64)
    rank[rows[::-1]] = np.arange(rows.size)[::-1]
    tour = np.repeat(tree.order, units.weight[tree.order]).astype(np.int32)
    blocks = np.array_split(tour, max(1, round(tour.size / max(block_rows, 2 * k))))
    return np.concatenate(
        [_block_members(units, block[np.argsort(rank[block], kind="stable")], k, listed) for block in blocks]
    )


def _block_members(units: Units, rows: NDArray[np.int32], k: int, listed: int) -> NDArray[np.int32]:
    """Slots of these rows, the unit of each in order."""
    slots = open_slots(units, rows, k)
    target = np.empty(rows.size, dtype=np.int64)
    for size in range(1, k):
        if not _sorted_round(units, slots, size, listed, target):
            raise InfeasibleError(f"sort-greedy finds no assignment in round {size + 1} of {k}")
        take(units, slots, size, target)
    return slots.members
