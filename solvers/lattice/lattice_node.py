"""What a lattice solver's answer publishes: a level an attribute, and the rows that are suppressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.group_by import encode_levels, kept_groups, new_grouping
from kanonflow.solvers.lattice.node_checks import NodeChecks
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelVector
from kanonflow.solvers.structures.partition import Partition


@dataclass(frozen=True)
class LatticeNode(Partition):
    """Classes of equal generalized values.

    labels: int32 (n,), the class of each record, in the order of records; -1: suppressed. levels: of each attribute.
    """

    shape: ClassVar[str] = "lattice_node"

    levels: LevelVector = ()

    @property
    def suppressed(self) -> NDArray[np.bool_]:
        """Mask of the suppressed records, bool (n,)."""
        return self.labels < 0

    def check_levels(self, lattice: Lattice, k: int, *, even_share: bool = False) -> None:
        """Raise StructureError unless classes are what the levels say and each has at least k individuals.

        Straight from the records: a class holds the kept records of one generalized row, and with
        ``even_share`` nobody has more than 1/k of its rows. O(n d log n).
        """
        kept = np.flatnonzero(~self.suppressed)
        if kept.size == 0:
            return
        rows = np.stack(
            [
                table.codes[level][lattice.values[kept, j]]
                for j, (table, level) in enumerate(zip(lattice.tables, self.levels, strict=True))
            ],
            axis=1,
        )
        _, wanted = np.unique(rows, axis=0, return_inverse=True)
        wanted = wanted.ravel()
        pairs = np.unique(np.stack([wanted, self.labels[kept]], axis=1), axis=0)
        if np.unique(pairs[:, 0]).size != pairs.shape[0] or np.unique(pairs[:, 1]).size != pairs.shape[0]:
            raise StructureError("classes are not the records of equal generalized values")
        people = kept if lattice.individuals is None else lattice.individuals[kept]
        members, counts = np.unique(np.stack([wanted, people], axis=1), axis=0, return_counts=True)
        if np.bincount(members[:, 0]).min() < k:
            raise StructureError(f"a class has fewer than k={k} individuals")
        if even_share and np.any(counts * k > np.bincount(wanted)[members[:, 0]]):
            raise StructureError(f"an individual has more than 1/{k} of the rows of a class")


def node_of(checks: NodeChecks, levels: LevelVector) -> LatticeNode:
    """The node with its classes. O(n d)."""
    labels = kept_groups(checks.columns, levels, checks.k, even_share=checks.even_share, work=checks.work)
    return LatticeNode(labels.astype(np.int32), levels)


def lattice_node(lattice: Lattice, levels: LevelVector, k: int, *, even_share: bool = False) -> LatticeNode:
    """The same for a lattice that is not being searched."""
    columns = encode_levels(lattice)
    work = new_grouping(columns.weight.size)
    labels = kept_groups(columns, levels, k, even_share=even_share, work=work)
    return LatticeNode(labels.astype(np.int32), levels)
