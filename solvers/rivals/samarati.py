"""Samarati: the lowest height of the lattice that has a k-anonymous node, by binary search (Samarati 2001)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.node_checks import NodeChecks
from kanonflow.solvers.lattice.tags import box_between
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.hierarchy_levels import LevelVector

MOST_NODES = 2_000_000


def nodes_at_height(low: LevelVector, high: LevelVector, height: int) -> Iterator[LevelVector]:
    """Nodes between ``low`` and ``high`` whose levels sum to ``height``, in lexicographic order."""
    if not low:
        if height == 0:
            yield ()
        return
    rest_low, rest_high = sum(low[1:]), sum(high[1:])
    for level in range(max(low[0], height - rest_high), min(high[0], height - rest_low) + 1):
        for rest in nodes_at_height(low[1:], high[1:], height - level):
            yield (level, *rest)


def samarati(checks: NodeChecks) -> NDArray[np.int32]:
    """All k-anonymous nodes of the least height (sum of levels), int32 (m, d); each of them is minimal.

    Other minimal nodes may be higher and still lose less, because attributes differ in height (S1, 2.7).
    Raises BudgetError above 2,000,000 nodes.
    """
    floor, top = checks.floor, checks.lattice.top
    box = box_between(floor, top)
    if box.nodes > MOST_NODES:
        raise BudgetError(
            f"samarati: the lattice has {box.nodes:,} nodes and at most {MOST_NODES:,} are taken; use ola or kgen"
        )
    low, high = sum(floor), sum(top)
    while low < high:
        middle = (low + high) // 2
        if any(checks.anonymous(node) for node in nodes_at_height(floor, top, middle)):
            high = middle
        else:
            low = middle + 1
    found = [node for node in nodes_at_height(floor, top, low) if checks.anonymous(node)]
    return np.array(found, dtype=np.int32)
