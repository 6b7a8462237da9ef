"""Datafly: generalize the attribute with most distinct values until the rest can be suppressed (Sweeney 1997)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.node_checks import NodeChecks


def datafly(checks: NodeChecks) -> NDArray[np.int32]:
    """One k-anonymous node, int32 (1, d); it need not be minimal. At most sum(heights) checks.

    Distinct values are those that occur at the attribute's level; of equal counts the first attribute is taken.
    """
    lattice, columns = checks.lattice, checks.columns
    occurring = [
        [np.unique(columns.encoded[columns.first[j] + level]).size for level in range(height + 1)]
        for j, height in enumerate(lattice.top)
    ]
    node = list(lattice.bottom)
    while not checks.anonymous(tuple(node)):
        open_ones = [j for j in range(lattice.attributes) if node[j] < lattice.top[j]]
        most = max(open_ones, key=lambda j: (occurring[j][node[j]], -j))
        node[most] += 1
    return np.array([node], dtype=np.int32)
