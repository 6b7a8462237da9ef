"""From a searched graph to one without two-edge cuts ("untied"), at little loss: mend, part, search on where safe.

Cuts arise where a swap joins two components, so a search that swaps within components only makes hardly any. So the
mended graph is searched once more, component by component, around the slots that the mends changed; the few cuts that
this makes are mended in the next turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.matching.components import component_labels
from kanonflow.solvers.matching.two_edge_cuts import cuts_of, without_two_edge_cuts
from kanonflow.solvers.search.crossings import mend_cuts
from kanonflow.solvers.search.kicks import kick
from kanonflow.solvers.search.rounds import KICK_DRAWS, KICK_STRENGTH, places_looked_at
from kanonflow.solvers.search.slot_loss import fill
from kanonflow.solvers.search.two_opt import descend
from kanonflow.solvers.search.workspace import build_workspace, push
from kanonflow.solvers.units.distinct_rows import Units, features_of

# Each turn searches for a quarter as long as the one before, for each makes a few new cuts. Adult, k = 3, a search of
# 2,000 evaluations a row, 500 for each slot mended: 1.8 to 1.9% more loss than with its cuts; parting alone: 6 to 7%.
TURNS = 4
EASED = 0.25
# When time is over: what a descent needs, a few milliseconds.
HURRIED = 20.0


class Untied(NamedTuple):
    """members: int32 (n, k) over rows. tied_edges: edges that are still in a cut, None when nobody looked.

    evaluations: of the searches. struck: whether time cut a search short.
    """

    members: NDArray[np.int32]
    tied_edges: int | None
    evaluations: int
    struck: bool = False


def units_of_rows(units: Units, distinct: bool) -> Units:
    """Every row as a unit of its own. distinct: whether slots must hold distinct individuals (of the units)."""
    n = units.of_row.size
    each = np.arange(n, dtype=np.int32)
    one = np.ones(n, dtype=np.int32)
    individual = units.individual[units.of_row] if distinct else np.arange(n, dtype=np.int64)
    return Units(
        features_of(units, units.of_row), one, one, individual, each, each, np.arange(n + 1, dtype=np.int64)
    )


def nearest_rows(units: Units, nearest: NDArray[np.int32]) -> NDArray[np.int32]:
    """For each row one row of each unit near its own, int32 (n, m), -1 where there are no more units.

    The rows of a unit take different rows of the other one, so that all of those are looked at.
    """
    turn = np.empty(units.of_row.size, dtype=np.int64)
    turn[units.rows] = np.arange(units.rows.size) - np.repeat(units.first[:-1], units.weight)
    near = nearest[units.of_row]
    known = np.maximum(near, 0)
    rows = units.rows[units.first[known] + turn[:, None] % units.weight[known]]
    return np.where(near < 0, -1, rows).astype(np.int32)


def _searched_within(
    rows: Units,
    slots: Any,
    nearest: NDArray[np.int32],
    changed: NDArray[np.int64],
    per_slot: float,
    seed: int,
) -> int:
    """Search within components around some slots; returns the evaluations made."""
    n, k = slots.members.shape
    work = build_workspace(n, n, seed)
    component = component_labels(slots.members)[slots.members[:, 0]]
    for slot in changed:
        push(work, slot)
    looked_at = places_looked_at(k)
    limit = int(per_slot * changed.size)
    descend(rows, slots, nearest, component, work, looked_at, False, limit, 0.0)
    if work.evaluations[0] < limit:
        kick(
            rows, slots, nearest, component, changed, work, 0, KICK_STRENGTH, KICK_DRAWS, looked_at, limit, 0.0
        )  # fmt: skip
    return int(work.evaluations[0])


def untied(
    units: Units,
    build: Callable[[Units, NDArray[np.int32]], Any],
    nearest: NDArray[np.int32],
    members: NDArray[np.int32],
    *,
    distinct: bool,
    per_slot: float,
    seed: int,
    late: Callable[[], bool] | None = None,
) -> Untied:
    """The graph without two-edge cuts as far as exchanges can do it: the fewest tied edges, then the least loss.

    members: int32 (n, k) over rows. build: the state of a search (of any loss) for units, each row one of its own, and
    members. nearest: int32 (u, m), units near each. distinct: whether slots hold distinct individuals. per_slot:
    evaluations for each slot that a mend changed. k = 2 leaves rings, in which every edge is tied to every other one.
    late: whether time is over, asked before each search, which then is short and the last one.

    Without a deadline it depends on the arguments alone. O(turns n k log(n k) + per_slot slots changed).
    """
    cuts = cuts_of(members)
    if cuts.tied.size == 0:
        return Untied(members, 0, 0)
    individuals = units.individual[units.of_row] if distinct else None
    rows = units_of_rows(units, distinct)
    near = nearest_rows(units, nearest)
    slots = build(rows, members)
    best, least = members, (members.size + 1, np.inf)
    before, evaluations, struck = members, 0, False
    turns = TURNS if members.shape[1] > 2 else 1
    for turn in range(turns):
        if turns > 1:
            cuts = mend_cuts(rows, slots, units, nearest, cuts)
        parted, tied = slots.members.copy(), cuts.tied.size
        if tied > 0:
            parted, tied = without_two_edge_cuts(parted, individuals, cuts)
            slots.members[...] = parted
            fill(rows.features, rows.individual, slots)
        if (tied, slots.loss.mean()) < least:
            best, least = parted, (tied, slots.loss.mean())
        changed = np.flatnonzero((parted != before).any(axis=1))
        before = parted
        if changed.size == 0:
            break
        struck = late is not None and late()
        each = min(per_slot, HURRIED) if struck else per_slot * EASED**turn
        evaluations += _searched_within(rows, slots, near, changed, each, seed + turn)
        cuts = cuts_of(slots.members)
        tied = cuts.tied.size
        if (tied, slots.loss.mean()) < least:
            best, least = slots.members.copy(), (tied, slots.loss.mean())
        if tied == 0 or struck:
            break
    return Untied(best, least[0], evaluations, struck)
