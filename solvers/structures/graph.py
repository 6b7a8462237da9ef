"""The generalization graph: which records' values a released row covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.matching.matching import random_factor
from kanonflow.solvers.matching.random_words import Words
from kanonflow.solvers.matching.regular import check_regular
from kanonflow.solvers.structures.structure import Groups


@dataclass(frozen=True)
class GeneralizationGraph:
    """A bipartite k-regular simple graph of n slots and n records (S0, section 3); a ``Structure``.

    members: int32 (n, k); row j holds the k records whose hull is the box of slot j.
    """

    shape: ClassVar[str] = "row_graph"
    kept: ClassVar[None] = None
    levels: ClassVar[None] = None

    members: NDArray[np.int32]

    @property
    def records(self) -> int:
        """Number of records, and of slots, n."""
        return int(self.members.shape[0])

    @property
    def k(self) -> int:
        """Degree of every slot and of every record."""
        return int(self.members.shape[1])

    @property
    def groups(self) -> Groups:
        """Slot j covers its k members."""
        n, k = self.members.shape
        return Groups(self.members.ravel().astype(np.int64), np.arange(n + 1, dtype=np.int64) * k, None)

    def described(self) -> NDArray[np.int32]:
        """The members."""
        return self.members

    def released(self) -> GeneralizationGraph:
        """The graph itself: every record has a slot."""
        return self

    def draw(self, words: Words) -> NDArray[np.int32]:
        """One random factor (``random_factor``): each of a slot's k records with probability 1/k."""
        return random_factor(self.members, words)

    def check(self, individuals: NDArray[np.int64] | None = None) -> None:
        """Raise StructureError unless it is regular, simple and no slot holds an individual twice (``regular.py``)."""
        check_regular(self.members, individuals)
