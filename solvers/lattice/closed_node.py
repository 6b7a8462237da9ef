"""A lattice node whose classes may be released where several rows belong to one person."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.lattice_node import LatticeNode
from kanonflow.solvers.units.row_counts import shared_row_counts
from kanonflow.solvers.units.trimming import kept_rows


def closed_node(
    node: LatticeNode, individuals: NDArray[np.int64], k: int, priority: NDArray[np.int64]
) -> tuple[LatticeNode, NDArray[np.bool_]]:
    """The node with closed classes of individuals, and the mask of the suppressed records, bool (n,).

    individuals: int64 (n,), codes from 0. priority: int64 (n,), smaller stays first. An individual whose records fall
    into several classes, or are suppressed in part, is suppressed as a whole; then a class needs k individuals, and
    every row count in it must be shared by k: rows above that are in no class either, but they are not suppressed.

    Postcondition: ``Partition.check`` passes. O(n log n + members k).
    """
    people = int(individuals.max(initial=-1)) + 1
    least = np.full(people, np.iinfo(np.int32).max, dtype=np.int32)
    most = np.full(people, -1, dtype=np.int32)
    np.minimum.at(least, individuals, node.labels)
    np.maximum.at(most, individuals, node.labels)
    label = np.where(least == most, most, -1).astype(np.int32)
    rows = np.bincount(individuals, minlength=people).astype(np.int64)
    row_counts = shared_row_counts(rows, label, k)
    row_counts[label < 0] = 0
    kept = kept_rows(individuals, row_counts, priority)
    _, dense = np.unique(np.where(kept, label[individuals], -1), return_inverse=True)
    labels = dense.astype(np.int32) - (0 if kept.all() else 1)
    return LatticeNode(labels, node.levels), row_counts[individuals] == 0
