"""What the gate looks at in a graph over individuals (``shape: graph``), worked out from members and rows alone.

The rows of such a release stand slot after slot, as many on a slot as each of its members has.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.level_graph import LevelGraph


def slots_of_rows(structure: LevelGraph) -> NDArray[np.int64]:
    """The slot of each released row, int64 (n,)."""
    counts = np.bincount(structure.of_row, minlength=structure.slots)
    return np.repeat(np.arange(structure.slots), counts[structure.members[:, 0]])


def stray_rows(structure: LevelGraph, factor: NDArray[np.int32]) -> int:
    """How many rows carry a record of nobody who is a member of the slot, or of another one than the slot's first row.

    factor: int32 (n,), the record on each released row, each record once. With as many rows on a slot as each member
    has, 0 means that all rows of an individual stand under one of its slots, and nobody else's do.
    """
    slot = slots_of_rows(structure)
    owner = structure.of_row[factor]
    member = (structure.members[slot] == owner[:, None]).any(axis=1)
    _, first = np.unique(slot, return_index=True)
    return int((~(member & (owner == owner[first][slot]))).sum())


def boxes_to_check(structure: LevelGraph) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Which box must hold which record.

    Returns the first released row of each slot, int64 (u,); and pairs (slot, record), int64 (m,) each: every record of
    every member of every slot.
    """
    slots = np.repeat(np.arange(structure.slots), structure.k)
    by_person = np.argsort(structure.of_row, kind="stable")
    counts = np.bincount(structure.of_row, minlength=structure.slots)
    begins = np.cumsum(counts) - counts
    people = structure.members.ravel()
    pairs = np.repeat(np.arange(people.size), counts[people])
    within = np.arange(pairs.size) - (np.cumsum(counts[people]) - counts[people])[pairs]
    records = by_person[begins[people[pairs]] + within]
    _, first = np.unique(slots_of_rows(structure), return_index=True)
    return first, slots[pairs], records
