"""What makes a graph split into matchings: every slot and every record has k edges, and no edge stands twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import StructureError


def check_regular(members: NDArray[np.int32], individuals: NDArray[np.int64] | None = None) -> None:
    """Raise StructureError unless the graph is k-regular, simple and its slots hold distinct individuals.

    members: int32 (n, k), the records of each slot. individuals: int64 (n,); None: each record is its own.

    Postcondition: every record is a member of exactly k slots, no slot names a record or an individual twice.
    Why: only then does the graph split into k perfect matchings, each edge in exactly one. O(n k log k).
    """
    n, k = members.shape
    if n == 0:
        return
    if members.min() < 0 or members.max() >= n:
        raise StructureError("a slot names a record that does not exist")
    if not np.all(np.bincount(members.ravel(), minlength=n) == k):
        raise StructureError(f"a record is not a member of exactly k={k} slots")
    who = members if individuals is None else individuals[members]
    ordered = np.sort(who, axis=1)
    if np.any(ordered[:, 1:] == ordered[:, :-1]):
        raise StructureError("a slot holds the same individual twice")
