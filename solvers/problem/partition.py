"""Closed classes of individuals: the structure behind ``protect: individual``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import StructureError


@dataclass(frozen=True)
class Partition:
    """Closed classes over records.

    labels: int32 (n,), the class of each record, ``0 .. classes-1``; -1: the record waits.
    """

    labels: NDArray[np.int32]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1 if self.labels.size else 0

    def check(self, k: int, individuals: NDArray[np.int64]) -> None:
        """Raise StructureError unless every class could be released.

        Postcondition: every class has at least k individuals; every number of rows that occurs among the
        individuals of a class is shared by at least k of them; no individual stands in two classes.
        Why: then any set of linked rows of a class can belong to at least k individuals. O(n log n).
        """
        kept = self.labels >= 0
        if not kept.any():
            return
        pairs, rows = np.unique(
            np.stack([individuals[kept], self.labels[kept].astype(np.int64)], axis=1),
            axis=0,
            return_counts=True,
        )
        if np.unique(pairs[:, 0]).size != pairs.shape[0]:
            raise StructureError("an individual stands in two classes")
        if np.unique(pairs[:, 1]).size != self.classes:
            raise StructureError("a class has no record")
        _, shared = np.unique(np.stack([pairs[:, 1], rows], axis=1), axis=0, return_counts=True)
        if shared.min() < k:
            raise StructureError(f"a row count of a class is shared by fewer than k={k} individuals")
