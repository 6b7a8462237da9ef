"""Is a node k-anonymous? Answered once a node, and not at all where monotonicity already knows.

Every node above a k-anonymous one is k-anonymous, with suppression too: groups only join, so rows in groups that are
too small only get fewer. The same holds for subsets of the attributes, so each attribute by itself gives a level below
which no node is k-anonymous.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.lattice.group_by import (
    check_columns,
    columns_of,
    encode_levels,
    new_grouping,
)
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.hierarchy_levels import Lattice, LevelVector


@kernel
def _holds_below(nodes: np.ndarray, count: int, node: np.ndarray) -> bool:
    """Whether one of the first ``count`` nodes is nowhere above ``node``."""
    for i in range(count):
        below = True
        for j in range(node.size):
            if nodes[i, j] > node[j]:
                below = False
                break
        if below:
            return True
    return False


@kernel
def _drop_above(nodes: np.ndarray, count: int, node: np.ndarray) -> int:
    """Remove from the first ``count`` nodes those that are nowhere below ``node``; returns how many stay."""
    kept = 0
    for i in range(count):
        above = True
        for j in range(node.size):
            if nodes[i, j] < node[j]:
                above = False
                break
        if not above:
            nodes[kept] = nodes[i]
            kept += 1
    return kept


@dataclass
class Border:
    """An antichain of nodes of d levels: the lowest ones added. O(size d) a question."""

    attributes: int
    _nodes: NDArray[np.int32] = field(init=False)
    _count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._nodes = np.empty((64, self.attributes), dtype=np.int32)

    @property
    def nodes(self) -> NDArray[np.int32]:
        """The nodes, int32 (m, d), in the order of their coming."""
        return self._nodes[: self._count].copy()

    def reaches(self, node: NDArray[np.int32]) -> bool:
        """Whether ``node`` is one of the nodes or above one."""
        return bool(_holds_below(self._nodes, self._count, node))

    def add(self, node: NDArray[np.int32]) -> None:
        """Add a node; those above it go."""
        if self.reaches(node):
            return
        self._count = int(_drop_above(self._nodes, self._count, node))
        if self._count == self._nodes.shape[0]:
            self._nodes = np.concatenate([self._nodes, np.empty_like(self._nodes)])
        self._nodes[self._count] = node
        self._count += 1


class KnownNodes(NamedTuple):
    """What an earlier window found out, to be checked first in the next: int32 (m, d) each.

    anonymous: its lowest k-anonymous nodes, least loss first. failing: its highest nodes that were not k-anonymous.
    cold: nodes that took a pass in the last window that had nothing to begin with; None: nobody counted.
    """

    anonymous: NDArray[np.int32]
    failing: NDArray[np.int32]
    cold: int | None = None


class LatticeWork(NamedTuple):
    """What a lattice solver had to do. nodes: of the whole lattice. seeded: as in CheckCounts, None where the solver
    does not count it or had nothing to begin with. last_cold: ``KnownNodes.cold`` after this window."""

    nodes: int
    seeded: int | None
    last_cold: int | None


@dataclass(frozen=True)
class CheckCounts:
    """asked: nodes that a solver wanted to know about. checked: those that took a pass over the records; the others
    were remembered or followed from monotonicity. projected: passes over some of the attributes only. seeded: of ola,
    nodes that need no check of their own once those of an earlier window were checked: decided by these, which are
    counted too, or (with only_best) known to lose more than the best of them."""

    asked: int
    checked: int
    projected: int
    seeded: int = 0


class NodeChecks:
    """Memoized checks of one lattice. Not for several threads.

    k: least individuals of a group. limit: rows that may be suppressed. even_share: of each individual
    a group shows only so many rows that nobody has more than 1/k of them (what a single row's promise of 1/k needs
    where individuals have several rows).

    Raises BudgetError for a k or a limit out of range, InfeasibleError when even the top is not k-anonymous.
    """

    def __init__(self, lattice: Lattice, k: int, limit: int = 0, *, even_share: bool = False) -> None:
        if k < 1:
            raise BudgetError("k must be 1 or more")
        if not 0 <= limit <= lattice.records:
            raise BudgetError("the rows that may be suppressed must be 0 or more, and at most all of them")
        self.lattice, self.k, self.limit, self.even_share = lattice, k, limit, even_share
        self.columns = encode_levels(lattice)
        self.work = new_grouping(self.columns.weight.size)
        self._all = np.arange(lattice.attributes)
        self._memo: dict[bytes, bool] = {}
        self._anonymous = Border(lattice.attributes)
        # Of the negated levels, so that "lowest" means "highest".
        self._failing = Border(lattice.attributes)
        self._asked = self._checked = self._projected = 0
        self.seeded = 0
        if not self.anonymous(lattice.top):
            raise InfeasibleError(
                "even the last levels of all hierarchies leave more rows to suppress than may be; end hierarchies in "
                "one root, allow more suppression, lower k or gather more records"
            )
        self.floor = self._raised_minimum()

    @property
    def counts(self) -> CheckCounts:
        """What the checks took so far."""
        return CheckCounts(self._asked, self._checked, self._projected, self.seeded)

    @property
    def minimal(self) -> NDArray[np.int32]:
        """The lowest k-anonymous nodes known, int32 (m, d)."""
        return self._anonymous.nodes

    @property
    def highest_failing(self) -> NDArray[np.int32]:
        """The highest nodes known not to be k-anonymous, int32 (m, d)."""
        return -self._failing.nodes

    def anonymous(self, node: LevelVector) -> bool:
        """Whether the node is k-anonymous but for at most ``limit`` rows. O(1), O(border d) or O(n d)."""
        self._asked += 1
        levels = np.array(node, dtype=np.int32)
        name = levels.tobytes()
        known = self._memo.get(name)
        if known is None:
            if self._anonymous.reaches(levels):
                known = True
            elif self._failing.reaches(-levels):
                known = False
            else:
                known = self.checked(node)
                (self._anonymous if known else self._failing).add(levels if known else -levels)
            self._memo[name] = known
        return known

    def checked(self, node: LevelVector) -> bool:
        """The same by a pass over the records, whatever is known."""
        self._checked += 1
        return self.suppressed(node) <= self.limit

    def suppressed(self, node: LevelVector) -> int:
        """Rows in groups that are too small; exact up to ``limit``, else a lower bound above it. O(n d)."""
        chosen = columns_of(self.columns, node, self._all)
        return int(check_columns(self.columns, chosen, self.k, self.limit, self.even_share, self.work))

    def projection_anonymous(self, node: LevelVector, attributes: NDArray[np.int64]) -> bool:
        """Whether the node is k-anonymous when only the given attributes are looked at. Not remembered."""
        self._projected += 1
        chosen = columns_of(self.columns, node, attributes)
        found = check_columns(self.columns, chosen, self.k, self.limit, self.even_share, self.work)
        return bool(found <= self.limit)

    def clipped(self, nodes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Nodes of another window between the raised minimum and the top, int32 (m, d), without repeats, in order.

        Raises BudgetError when they are of another number of attributes.
        """
        if nodes.ndim != 2 or nodes.shape[1] != self.lattice.attributes:
            raise BudgetError("the nodes to start from have another number of attributes than the lattice")
        inside = np.clip(nodes, self.floor, self.lattice.top).astype(np.int32)
        _, first = np.unique(inside, axis=0, return_index=True)
        return inside[np.sort(first)]

    def _raised_minimum(self) -> LevelVector:
        """Each attribute's lowest level that is k-anonymous by itself, under the same limit (S1, 3.2).

        No k-anonymous node lies below: leaving attributes out joins groups, so a node suppresses at least what its
        attribute alone does. S1 (7) gives the step up with suppression because it suppressed anew for each attribute;
        with one limit for all it stays exact.
        """
        floor = []
        for attribute, height in enumerate(self.lattice.top):
            only = np.array([attribute])
            low, high = 0, height
            while low < high:
                middle = (low + high) // 2
                node = tuple(middle if j == attribute else 0 for j in range(self.lattice.attributes))
                if self.projection_anonymous(node, only):
                    high = middle
                else:
                    low = middle + 1
            floor.append(low)
        return tuple(floor)
