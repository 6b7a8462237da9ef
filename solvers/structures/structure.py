"""What every answer of a solver can tell, whichever of the three it is.

row_graph     GeneralizationGraph   each row has a box of its own, over k records
classes       Partition             closed classes, whose rows share one box
lattice_node  LatticeNode           closed classes of equal labels, at one level of each hierarchy

What turns a structure into a release asks these questions and never which structure it is. The gate does not: it reads
members and labels by itself (``transforms/publishing/gate.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.matching.random_words import Words
from kanonflow.solvers.problem.hierarchy_levels import LevelVector


@dataclass(frozen=True)
class Groups:
    """b groups of records, each non-empty.

    records: int64 (starts[b],); group g is ``records[starts[g] : starts[g + 1]]``.
    starts: int64 (b + 1,).
    of_row: int64 (m,), the group whose box each released row carries; None: row j carries that of group j.
    """

    records: NDArray[np.int64]
    starts: NDArray[np.int64]
    of_row: NDArray[np.int64] | None

    @property
    def rows(self) -> NDArray[np.int64]:
        """How many released rows carry the box of each group, int64 (b,)."""
        count = self.starts.size - 1
        if self.of_row is None:
            return np.ones(count, dtype=np.int64)
        return np.bincount(self.of_row, minlength=count).astype(np.int64)

    def edges(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every record with every group that it is a member of, in the order of rows: int64 (starts[b],) each."""
        if self.of_row is None:
            return self.records, np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))
        # In closed classes a record is a member of one group, that of its own row.
        return np.sort(self.records), self.of_row


class Structure(Protocol):
    """n records and what is released of them."""

    shape: ClassVar[str]
    """``row_graph``, ``classes`` or ``lattice_node``."""

    @property
    def kept(self) -> NDArray[np.bool_] | None:
        """Which records are released, bool (n,); None: all of them, always."""

    @property
    def groups(self) -> Groups:
        """Whose values the box of each released row covers."""

    @property
    def levels(self) -> LevelVector | None:
        """The level of each attribute that every box is raised to; None: a box is the hull of its group."""

    def described(self) -> NDArray[np.int32]:
        """Numbers that tell the structure from every other one of its shape, for the keystream and for records."""

    def released(self) -> Self:
        """The same over the records that are released, numbered in their order."""

    def draw(self, words: Words) -> NDArray[np.int32]:
        """The matching to publish, int32 (n,): row j carries the payload of record ``result[j]``.

        Precondition: every record is released. Postcondition: a permutation in which every record is a member of the
        group of its row; each member has the same chance. Raises StructureError when there is no such matching.
        """
