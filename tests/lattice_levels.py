"""What a lattice solver's answer must be, straight from the records."""

from __future__ import annotations

import numpy as np

from kanonflow.solvers.lattice.lattice_node import LatticeNode
from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.problem.hierarchy_levels import Lattice


def check_levels(node: LatticeNode, lattice: Lattice, k: int, *, even_share: bool = False) -> None:
    """Raise StructureError unless classes are what the levels say and each has at least k individuals.

    A class holds the kept records of one generalized row, and with ``even_share`` nobody has more than 1/k of its rows.
    O(n d log n).
    """
    kept = np.flatnonzero(~node.suppressed)
    if kept.size == 0:
        return
    rows = np.stack(
        [
            table.codes[level][lattice.values[kept, j]]
            for j, (table, level) in enumerate(zip(lattice.tables, node.levels, strict=True))
        ],
        axis=1,
    )
    _, wanted = np.unique(rows, axis=0, return_inverse=True)
    wanted = wanted.ravel()
    pairs = np.unique(np.stack([wanted, node.labels[kept]], axis=1), axis=0)
    if np.unique(pairs[:, 0]).size != pairs.shape[0] or np.unique(pairs[:, 1]).size != pairs.shape[0]:
        raise StructureError("classes are not the records of equal generalized values")
    people = kept if lattice.individuals is None else lattice.individuals[kept]
    members, counts = np.unique(np.stack([wanted, people], axis=1), axis=0, return_counts=True)
    if np.bincount(members[:, 0]).min() < k:
        raise StructureError(f"a class has fewer than k={k} individuals")
    if even_share and np.any(counts * k > np.bincount(wanted)[members[:, 0]]):
        raise StructureError(f"an individual has more than 1/{k} of the rows of a class")
