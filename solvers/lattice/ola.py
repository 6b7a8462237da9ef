"""OLA: all minimal k-anonymous nodes by binary search on strategy paths with predictive tags (El Emam et al. 2009)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.node_checks import KnownNodes, NodeChecks
from kanonflow.solvers.lattice.tags import (
    NO_BETTER,
    UNKNOWN,
    Box,
    box_between,
    drop_no_better,
    lowest_anonymous,
    next_unknown,
    spread,
    unknown_path,
)
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.hierarchy_levels import LevelVector

MOST_NODES = 2**28
"""One byte a node: a quarter of a gigabyte."""


ROUNDING = 1e-12
"""Losses that differ by less are equal: the order of their summands may be another."""


class OlaSearch:
    """The tags of one run. only_best: leave nodes undecided that cannot lose less than the best one known.

    losses: loss of each level of each attribute, float64 (height + 1,), never less a level higher; None: LOG. With
    losses of its own a search also decides the nodes that lose as much as the best one; by LOG, where many do, one.
    """

    def __init__(
        self, checks: NodeChecks, *, only_best: bool, losses: list[NDArray[np.float64]] | None = None
    ) -> None:
        self.checks, self.only_best = checks, only_best
        self.slack = -ROUNDING if losses is None else ROUNDING
        self.box: Box = box_between(checks.floor, checks.lattice.top)
        if self.box.nodes > MOST_NODES:
            raise BudgetError(
                f"ola: the lattice has {self.box.nodes:,} nodes after raising its minimum and ola takes at most "
                f"{MOST_NODES:,}; use kgen, or hierarchies with fewer levels"
            )
        self.tags = np.zeros(self.box.nodes, dtype=np.int8)
        if losses is None:
            heights = checks.lattice.top
            losses = [np.arange(height + 1) / max(height, 1) / len(heights) for height in heights]
        self.losses = [each[low:] for each, low in zip(losses, checks.floor, strict=True)]
        self.first = np.concatenate([[0], np.cumsum(self.box.dims)[:-1]]).astype(np.int64)
        self.best = np.inf
        self.settled = 0

    def loss(self, number: int) -> float:
        """Loss of a numbered node."""
        levels = (number // self.box.strides) % self.box.dims
        return float(sum(losses[level] for losses, level in zip(self.losses, levels, strict=True)))

    def decide(self, number: int) -> bool:
        """Check an unknown node and spread the answer."""
        node = tuple(int(level) for level in self.box.levels(np.array([number]))[0])
        anonymous = self.checks.anonymous(node)
        self.settled += spread(self.tags, number, self.box.dims, self.box.strides, anonymous)
        if anonymous and self.loss(number) < self.best - ROUNDING:
            self.best = self.loss(number)
            if self.only_best:
                self._drop()
        return anonymous

    def _drop(self) -> None:
        least = self.best + self.slack
        self.settled += drop_no_better(
            self.tags, np.concatenate(self.losses), self.first, self.box.dims, least
        )

    def decide_all(self) -> NDArray[np.int32]:
        """All minimal nodes after all, int32 (m, d): what was left undecided is searched too."""
        self.only_best = False
        self.tags[self.tags == NO_BETTER] = UNKNOWN
        return self._search(np.empty((0, self.box.dims.size), dtype=np.int32))

    def search_path(self, number: int) -> None:
        """Decide every node of a path through an unknown node; each answer decides half of what is left."""
        path = unknown_path(self.tags, number, self.box.dims, self.box.strides)
        low, high = 0, path.size
        while low < high:
            middle = (low + high) // 2
            if self.decide(int(path[middle])):
                high = middle
            else:
                low = middle + 1

    def start_from(self, known: KnownNodes) -> NDArray[np.int32]:
        """Decide an earlier window's k-anonymous nodes as far as they matter; returns its failing ones, largest first.

        A failing node is decided later, when an unknown node stands below it, so that those that no longer matter
        cost nothing.
        """
        for levels in self.checks.clipped(known.anonymous):
            number = self.box.number(levels)
            if self.tags[number] == UNKNOWN:
                self.decide(number)
        self.checks.seeded += self.settled
        hints = self.checks.clipped(known.failing)
        below = np.log(hints - self.box.low + 1.0).sum(axis=1)
        return np.asarray(hints[np.argsort(-below, kind="stable")])

    def search_hint(self, number: int, hints: NDArray[np.int32]) -> bool:
        """Decide the largest of the hints that stand above an unknown node; False when there is none."""
        node = self.box.levels(np.array([number]))[0]
        for hint in hints[np.all(hints >= node, axis=1)]:
            above = self.box.number(hint)
            if self.tags[above] <= NO_BETTER:
                before = self.settled
                self.decide(above)
                self.checks.seeded += self.settled - before
                return True
        return False

    def run(self, known: KnownNodes | None) -> NDArray[np.int32]:
        """All minimal k-anonymous nodes (of those decided), int32 (m, d)."""
        hints = np.empty((0, self.box.dims.size), dtype=np.int32)
        if known is not None:
            hints = self.start_from(known)
        return self._search(hints)

    def _search(self, hints: NDArray[np.int32]) -> NDArray[np.int32]:
        number = next_unknown(self.tags, 0)
        while number >= 0:
            if not self.search_hint(number, hints):
                self.search_path(number)
            number = next_unknown(self.tags, number)
        return self.box.levels(lowest_anonymous(self.tags, self.box.dims, self.box.strides))


Acceptable = Callable[[LevelVector], bool]
"""Whether a k-anonymous node may be taken, by what the lattice does not know."""


def ola(
    checks: NodeChecks,
    *,
    known: KnownNodes | None = None,
    only_best: bool = False,
    losses: list[NDArray[np.float64]] | None = None,
    acceptable: Acceptable | None = None,
) -> NDArray[np.int32]:
    """All minimal k-anonymous nodes, int32 (m, d); one of least LOG is among them.

    The sublattices of the paper become one box of tags: while a node is unknown, a strategy path through it is
    searched by halves. About (minimal + highest failing nodes) x log(path) checks, one byte a node.
    known: what an earlier window found; where little has changed it decides nearly all.
    only_best: prune by LOG; the answer then holds a node of least LOG, and not every minimal node. losses: prune by
    these instead (``OlaSearch``); the answer then holds every minimal node of least loss. acceptable: where it takes
    none of those, the search goes on and the answer holds every minimal node.

    Raises BudgetError when the lattice has more than 2^28 nodes. Source: El Emam et al. 2009; S1, 2.7.
    """
    search = OlaSearch(checks, only_best=only_best, losses=losses)
    found = search.run(known)
    if not only_best or acceptable is None:
        return found
    lost = np.array([search.loss(search.box.number(node)) for node in found])
    least = found[lost <= lost.min() + ROUNDING]
    return found if any(acceptable(tuple(node.tolist())) for node in least) else search.decide_all()
