"""Before and between the rounds of the search under rules for sensitive values: a start that meets them, the shares.

l-greedy knows hulls only, so some of its classes break the rules. Such a class is joined to one of its neighbours
along the tour until the union meets them; the search splits what became too large.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.individuals import Individuals
from kanonflow.solvers.search.class_gate import HOME, Gate, forget, meets
from kanonflow.solvers.search.class_state import Classes, room_for


@numba.njit(cache=True, nogil=True)
def _meets(people: Individuals, gate: Gate, units: np.ndarray) -> bool:
    """Whether these individuals, each with as many rows as the one of fewest, meet the rules as a class."""
    members = units.astype(np.int32).reshape(1, units.size)
    level = people.rows[units].min()
    forget(gate)
    return meets(people, gate, members, units.size, HOME, 0, level, -1, -1)


def merged_until_diverse(
    people: Individuals, labels: NDArray[np.int32], tour: NDArray[np.int64], k: int, gate: Gate | None
) -> NDArray[np.int32]:
    """Labels int32 (u,) in which classes that broke a rule are joined with the next along the tour, where that helps.

    A class that fails takes the one of its two neighbours with which it meets the rules, the next one first, and goes
    on with the union otherwise, up to the room of a class. Unchanged without a gate. O(u log u + failing classes k).
    """
    if gate is None or not (labels >= 0).any():
        return labels
    place = np.empty(tour.size)
    place[tour] = np.arange(tour.size)
    inside = labels >= 0
    middle = np.bincount(labels[inside], weights=place[inside]) / np.bincount(labels[inside])
    order = np.argsort(labels, kind="stable")
    cuts = np.searchsorted(labels[order], np.arange(middle.size + 1))
    groups = [order[cuts[number] : cuts[number + 1]] for number in np.argsort(middle, kind="stable")]
    room = room_for(labels, k, gated=True)
    done: list[NDArray[np.int64]] = []
    position = 0
    while position < len(groups):
        group = groups[position]
        position += 1
        while not _meets(people, gate, group):
            ahead = groups[position] if position < len(groups) else None
            behind = done[-1] if done else None
            if ahead is not None and _joined(people, gate, group, ahead, room):
                group = np.concatenate([group, ahead])
                position += 1
            elif behind is not None and _joined(people, gate, group, behind, room):
                group = np.concatenate([done.pop(), group])
            elif ahead is not None and group.size + ahead.size <= room:
                group = np.concatenate([group, ahead])
                position += 1
            else:
                break
        done.append(group)
    merged = np.full(labels.size, -1, dtype=np.int32)
    for number, group in enumerate(done):
        merged[group] = number
    return merged


def _joined(
    people: Individuals, gate: Gate, one: NDArray[np.int64], other: NDArray[np.int64], room: int
) -> bool:
    return one.size + other.size <= room and bool(_meets(people, gate, np.concatenate([one, other])))


@numba.njit(cache=True, nogil=True)
def released_shares(people: Individuals, classes: Classes, gate: Gate) -> bool:
    """Set the gate's shares to those of the rows that the classes keep now; whether that changes a distance.

    The distances of t-closeness are from the values of the release, and rows that wait are not in it. O(n f).
    """
    wanted = False
    for f in range(gate.kind.size):
        wanted = wanted or gate.distance[f] > 0
    total = 0
    share = np.zeros(gate.share.size)
    for number in range(classes.size.size if wanted else 0):
        size, level = classes.size[number], classes.counts[number, 1]
        if size < classes.k[0] or not _released(people, classes, gate, number, size, level):
            continue
        for p in range(size):
            unit = classes.members[number, p]
            for row in range(gate.begin[unit], gate.begin[unit] + level):
                total += 1
                for f in range(gate.kind.size):
                    share[gate.values[row, f]] += 1.0
    if total == 0:
        return False
    changed = False
    for code in range(share.size):
        share[code] /= total
        changed = changed or share[code] != gate.share[code]
        gate.share[code] = share[code]
    return changed


@numba.njit(cache=True, nogil=True)
def _released(people: Individuals, classes: Classes, gate: Gate, number: int, size: int, level: int) -> bool:
    forget(gate)
    return meets(people, gate, classes.members, size, HOME, number, level, -1, -1)
