"""A generalization graph over individuals of equal row count: the structure behind ``shape: graph``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.errors import StructureError
from kanonflow.solvers.graph import GeneralizationGraph


@dataclass(frozen=True)
class LevelGraph:
    """A bipartite k-regular simple graph of u slots and u individuals; a slot's k individuals keep equally many rows.

    members: int32 (u, k); row j holds the k individuals whose rows' hull is the box of slot j.
    of_row: int64 (n,), the individual of each record, ``0 .. u-1``; -1: the record waits.

    Slots of one component have one row count, so a component is (part of) a *level*. Whoever is matched to slot j, as
    many rows appear under its box.
    """

    members: NDArray[np.int32]
    of_row: NDArray[np.int64]

    @property
    def k(self) -> int:
        """Degree of every slot and of every individual."""
        return int(self.members.shape[1])

    @property
    def slots(self) -> int:
        """Number of slots, and of individuals, u."""
        return int(self.members.shape[0])

    @property
    def rows(self) -> NDArray[np.int64]:
        """Kept records of each individual, int64 (u,)."""
        return np.bincount(self.of_row[self.of_row >= 0], minlength=self.slots).astype(np.int64)

    @property
    def slot_rows(self) -> NDArray[np.int64]:
        """Rows that appear under each slot's box, int64 (u,): as many as each of its members has."""
        return self.rows[self.members[:, 0]]

    def grouped(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The records under each slot's box, those of all of its members: records int64 (m,), starts int64 (u + 1,).

        Slot j covers ``records[starts[j] : starts[j + 1]]``; m = k times the kept records. O(m + n log n).
        """
        kept = np.flatnonzero(self.of_row >= 0)
        ordered = kept[np.argsort(self.of_row[kept], kind="stable")]
        first = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.rows)])
        each = self.rows[self.members.ravel()]
        ends = np.cumsum(each)
        inner = np.arange(int(each.sum())) - np.repeat(ends - each, each)
        records = ordered[np.repeat(first[self.members.ravel()], each) + inner]
        starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[self.k - 1 :: self.k]])
        return records, starts

    def published_records(self, factor: NDArray[np.int32]) -> NDArray[np.int64]:
        """The records of the individuals ``factor`` int32 (u,) puts on the slots, slot after slot: int64 (kept,)."""
        one_each = LevelGraph(factor[:, None], self.of_row)
        return one_each.grouped()[0]

    def check(self, k: int, individuals: NDArray[np.int64]) -> None:
        """Raise StructureError unless the graph could be released.

        individuals: int64 (n,), whose record each is, read from the records themselves.

        Postcondition: every individual is a member of exactly k slots, no slot names one twice; ``of_row`` tells
        individuals apart as ``individuals`` does, and gives each of them a record; the members of a slot keep equally
        many. Why: then one factor of the graph moves all rows of a person together, each of the person's k slots is
        as likely as the others, and neither the number of rows nor which rows belong together tells the slots of a
        component apart. O(u k log k + n log n).
        """
        if self.k != k:
            raise StructureError(f"the graph over individuals has degree {self.k}, not k={k}")
        GeneralizationGraph(self.members).check()
        kept = self.of_row >= 0
        if kept.any() and self.of_row.max() >= self.slots:
            raise StructureError("a record belongs to an individual that no slot names")
        pairs = np.unique(np.stack([self.of_row[kept], individuals[kept]], axis=1), axis=0)
        if np.unique(pairs[:, 0]).size != pairs.shape[0] or np.unique(pairs[:, 1]).size != pairs.shape[0]:
            raise StructureError("the rows of an individual do not stay together")
        if pairs.shape[0] != self.slots:
            raise StructureError("an individual of the graph has no row")
        of_members = self.rows[self.members]
        if np.any(of_members != of_members[:, :1]):
            raise StructureError("members of a slot have different numbers of rows")
