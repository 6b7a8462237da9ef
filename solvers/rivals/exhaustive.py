"""Exhaustive search: every node is checked by a pass over the records (S1, 4.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.node_checks import NodeChecks
from kanonflow.solvers.lattice.tags import ANONYMOUS, FAILING, box_between, lowest_anonymous
from kanonflow.solvers.problem.errors import BudgetError

MOST_NODES = 2_000_000


def exhaustive(checks: NodeChecks) -> NDArray[np.int32]:
    """All minimal k-anonymous nodes, int32 (m, d). Uses no monotonicity, so it confirms the solvers that do.

    O(nodes n d). Raises BudgetError above 2,000,000 nodes.
    """
    lattice = checks.lattice
    if lattice.nodes > MOST_NODES:
        raise BudgetError(
            f"exhaustive: the lattice has {lattice.nodes:,} nodes and at most {MOST_NODES:,} are taken; use ola"
        )
    box = box_between(lattice.bottom, lattice.top)
    tags = np.empty(box.nodes, dtype=np.int8)
    for number in range(box.nodes):
        node = tuple(int(level) for level in (number // box.strides) % box.dims)
        tags[number] = ANONYMOUS if checks.checked(node) else FAILING
    return box.levels(lowest_anonymous(tags, box.dims, box.strides))
