"""Closed classes of individuals: the structure behind ``protect: individual``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.matching.random_words import Words, shuffled_within
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.problem.hierarchy_levels import LevelVector
from kanonflow.solvers.structures.structure import Groups
from kanonflow.solvers.units.numbering import numbered


@dataclass(frozen=True)
class Partition:
    """Closed classes over records; a ``Structure``.

    labels: int32 (n,), the class of each record, ``0 .. classes-1``; -1: the record waits.
    """

    shape: ClassVar[str] = "classes"

    labels: NDArray[np.int32]

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.labels.max()) + 1 if self.labels.size else 0

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which records are in a class, bool (n,)."""
        return self.labels >= 0

    @property
    def levels(self) -> LevelVector | None:
        """None: a box is the hull of its class."""
        return None

    @property
    def groups(self) -> Groups:
        """A class covers its records, in their order; every row carries the box of its class. O(n log n)."""
        order = np.argsort(self.labels, kind="stable")
        order = order[self.labels[order] >= 0]
        _, of_row, sizes = numbered(self.labels[self.kept])
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
        return Groups(order, starts, of_row)

    def described(self) -> NDArray[np.int32]:
        """The labels, those of records that wait included."""
        return self.labels

    def released(self) -> Self:
        """The classes over the records that are in one."""
        return self if self.kept.all() else replace(self, labels=self.labels[self.kept])

    def draw(self, words: Words) -> NDArray[np.int32]:
        """The records of each class permuted uniformly among its rows (``shuffled_within``)."""
        return shuffled_within(self.labels, words.words(self.labels.size))

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
