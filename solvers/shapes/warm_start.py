"""Warm start of the graph: the previous window's slots over individuals, rejoined for those who are here now.

A slot of the previous graph keeps those of its individuals that are present and still need places (an individual
with m rows needs k m of them). Slots are dissolved for those who left (warm_removal.py), and rows that are new are
inserted (starts/insertion.py). Holes that remain are filled with near units that need places; what cannot be placed
legally is swapped in; where rows cannot be inserted, every hole is filled that way. Slots that took somebody in, or are
new, are reported so that the search looks at them first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.problem.last_window import WarmGraph
from kanonflow.solvers.shapes.warm_removal import dissolve_slots
from kanonflow.solvers.starts.holes import fill_holes, holds
from kanonflow.solvers.starts.insertion import coarse_to_fine, inserted_members
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import KdTree

# Near units whose edges are considered for a new record: half of what the start by insertion takes.
LEAST_NEAR = 32
NEAR_FOR_EACH_MEMBER = 4


class Completed(NamedTuple):
    """members: int32 (n, k) over units. changed: int64, the slots that are not as they were.

    evaluations: boxes and pairs worked out on the way.
    """

    members: NDArray[np.int32]
    changed: NDArray[np.int64]
    evaluations: int


@kernel
def _keep(
    old: np.ndarray,
    individual: np.ndarray,
    first_unit: np.ndarray,
    unit_of: np.ndarray,
    need: np.ndarray,
    members: np.ndarray,
) -> None:
    """Take over the survivors of the old slots; of an individual's units the one that needs most places."""
    for slot in range(min(old.shape[0], members.shape[0])):
        for p in range(old.shape[1]):
            who = old[slot, p]
            if who < 0 or holds(members, individual, slot, who):
                continue
            best = -1
            for index in range(first_unit[who], first_unit[who + 1]):
                unit = unit_of[index]
                if need[unit] > 0 and (best < 0 or need[unit] > need[best]):
                    best = unit
            if best >= 0:
                members[slot, p] = best
                need[best] -= 1


def warm_members(
    units: Units, nearest: NDArray[np.int32], tree: KdTree, warm: WarmGraph, k: int
) -> Completed | None:
    """A legal graph over units from the old one, or None when it cannot be completed (or k changed).

    Only for tables with individuals. Raises StructureError when ``warm.members`` names an individual that the table
    does not have. O(n k) lookups for what persists; what changed costs as dissolve_slots and inserted_members say.
    """
    if warm.members.ndim != 2 or warm.members.shape[1] != k:
        return None
    people = int(units.individual.max()) + 1
    if warm.members.size and (warm.members.min() < -1 or warm.members.max() >= people):
        raise StructureError("a warm start names a position beyond the table's individuals")
    survivors = (warm.members >= 0).sum(axis=1)
    old = np.ascontiguousarray(warm.members[np.argsort(-survivors, kind="stable")])
    unit_of = np.argsort(units.individual, kind="stable")
    first_unit = np.searchsorted(units.individual[unit_of], np.arange(people + 1))
    need = units.weight.astype(np.int64) * k
    members = np.full(old.shape, -1, dtype=np.int32)
    _keep(old, units.individual, first_unit, unit_of, need, members)
    rejoined, spent = _rejoined(units, nearest, tree, members, need, k)
    return rejoined or _filled(units, nearest, tree, members, need, k, spent)


def _rejoined(
    units: Units,
    nearest: NDArray[np.int32],
    tree: KdTree,
    members: NDArray[np.int32],
    need: NDArray[np.int64],
    k: int,
) -> tuple[Completed | None, int]:
    """Slots dissolved for those who left, then rows inserted that are new. members: of the old slots, who is here.

    Returns also the evaluations, which are spent where it cannot be done.
    """
    fresh = need // k
    n = int(units.weight.sum())
    stay = n - int(fresh.sum())
    surplus = members.shape[0] - stay
    removed = dissolve_slots(units, nearest, members, max(surplus, 0))
    kept = np.concatenate([removed.members, np.full((max(-surplus, 0), k), -1, dtype=np.int32)])
    changed = np.concatenate([removed.changed, np.zeros(max(-surplus, 0), dtype=np.bool_)])
    needed = (units.weight - fresh) * k - np.bincount(kept[kept >= 0], minlength=units.weight.size)
    if stay == 0 or not fill_holes(units, nearest, tree.order, needed, kept, changed):
        return None, removed.evaluations
    tour = np.repeat(tree.order, fresh[tree.order])
    rows = tour[coarse_to_fine(tour.size)]
    near = max(LEAST_NEAR, NEAR_FOR_EACH_MEMBER * k)
    inserted = inserted_members(units, tree, kept, rows, k, distinct=True, near=near)
    if inserted is None:
        return None, removed.evaluations
    spent = removed.evaluations + inserted.evaluations
    changed = np.concatenate(
        [changed | np.any(inserted.members[:stay] != kept, axis=1), np.ones(n - stay, np.bool_)]
    )
    return Completed(inserted.members, np.flatnonzero(changed), spent), spent


def _filled(
    units: Units,
    nearest: NDArray[np.int32],
    tree: KdTree,
    members: NDArray[np.int32],
    need: NDArray[np.int64],
    k: int,
    spent: int,
) -> Completed | None:
    """Every open place filled with whoever needs one, after so many evaluations for another way."""
    n = int(units.weight.sum())
    kept = np.full((n, k), -1, dtype=np.int32)
    kept[: members.shape[0]] = members[:n]
    needed = need + np.bincount(members[n:][members[n:] >= 0], minlength=need.size)
    changed = np.zeros(n, dtype=np.bool_)
    if not fill_holes(units, nearest, tree.order, needed, kept, changed):
        return None
    return Completed(kept, np.flatnonzero(changed), spent)
