"""What a lattice solver's answer publishes: a level an attribute, and the rows that are suppressed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.group_by import encode_levels, kept_groups, new_grouping
from kanonflow.solvers.lattice.node_checks import NodeChecks
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
