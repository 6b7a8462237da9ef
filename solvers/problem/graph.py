"""The generalization graph: which records' values a released row covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import StructureError


@dataclass(frozen=True)
class GeneralizationGraph:
    """A bipartite k-regular simple graph of n slots and n records (S0, section 3).

    members: int32 (n, k); row j holds the k records whose hull is the box of slot j.
    """

    members: NDArray[np.int32]

    @property
    def records(self) -> int:
        """Number of records, and of slots, n."""
        return int(self.members.shape[0])

    @property
    def k(self) -> int:
        """Degree of every slot and of every record."""
        return int(self.members.shape[1])

    def check(self, individuals: NDArray[np.int64] | None = None) -> None:
        """Raise StructureError unless the graph is k-regular, simple and its slots hold distinct individuals.

        Postcondition: every record is a member of exactly k slots, no slot names a record or an individual
        twice. Why: only then does the graph split into k perfect matchings, each edge in exactly one.
        O(n k log k).
        """
        n, k = self.members.shape
        if n == 0:
            return
        if self.members.min() < 0 or self.members.max() >= n:
            raise StructureError("a slot names a record that does not exist")
        if not np.all(np.bincount(self.members.ravel(), minlength=n) == k):
            raise StructureError(f"a record is not a member of exactly k={k} slots")
        who = self.members if individuals is None else individuals[self.members]
        ordered = np.sort(who, axis=1)
        if np.any(ordered[:, 1:] == ordered[:, :-1]):
            raise StructureError("a slot holds the same individual twice")
