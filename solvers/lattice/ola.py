"""OLA: all minimal k-anonymous nodes by binary search on strategy paths with predictive tags (El Emam et al. 2009)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.errors import BudgetError
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

MOST_NODES = 2**28
"""One byte a node: a quarter of a gigabyte."""


class OlaSearch:
    """The tags of one run. only_best: leave nodes undecided that cannot have less LOG than the best one known."""

    def __init__(self, checks: NodeChecks, *, only_best: bool) -> None:
        self.checks, self.only_best = checks, only_best
        self.box: Box = box_between(checks.floor, checks.lattice.top)
        if self.box.nodes > MOST_NODES:
            raise BudgetError(
                f"ola: the lattice has {self.box.nodes:,} nodes after raising its minimum and ola takes at most "
                f"{MOST_NODES:,}; use kgen, or hierarchies with fewer levels"
            )
        self.tags = np.zeros(self.box.nodes, dtype=np.int8)
        self.losses = [
            np.arange(low, high + 1) / max(high, 1) / checks.lattice.attributes
            for low, high in zip(checks.floor, checks.lattice.top, strict=True)
        ]
        self.first = np.concatenate([[0], np.cumsum(self.box.dims)[:-1]]).astype(np.int64)
        self.best = np.inf

    def loss(self, number: int) -> float:
        """LOG of a numbered node."""
        levels = (number // self.box.strides) % self.box.dims
        return float(sum(losses[level] for losses, level in zip(self.losses, levels, strict=True)))

    def decide(self, number: int) -> bool:
        """Check an unknown node and spread the answer."""
        node = tuple(int(level) for level in self.box.levels(np.array([number]))[0])
        anonymous = self.checks.anonymous(node)
        spread(self.tags, number, self.box.dims, self.box.strides, anonymous)
        if anonymous and self.loss(number) < self.best - 1e-12:
            self.best = self.loss(number)
            if self.only_best:
                drop_no_better(self.tags, np.concatenate(self.losses), self.first, self.box.dims, self.best)
        return anonymous

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
        hints = self.checks.clipped(known.failing)
        below = np.log(hints - self.box.low + 1.0).sum(axis=1)
        return np.asarray(hints[np.argsort(-below, kind="stable")])

    def search_hint(self, number: int, hints: NDArray[np.int32]) -> bool:
        """Decide the largest of the hints that stand above an unknown node; False when there is none."""
        node = self.box.levels(np.array([number]))[0]
        for hint in hints[np.all(hints >= node, axis=1)]:
            above = self.box.number(hint)
            if self.tags[above] <= NO_BETTER:
                self.decide(above)
                return True
        return False

    def run(self, known: KnownNodes | None) -> NDArray[np.int32]:
        """All minimal k-anonymous nodes (of those decided), int32 (m, d)."""
        hints = np.empty((0, self.box.dims.size), dtype=np.int32)
        if known is not None:
            hints = self.start_from(known)
        number = next_unknown(self.tags, 0)
        while number >= 0:
            if not self.search_hint(number, hints):
                self.search_path(number)
            number = next_unknown(self.tags, number)
        return self.box.levels(lowest_anonymous(self.tags, self.box.dims, self.box.strides))


def ola(checks: NodeChecks, *, known: KnownNodes | None = None, only_best: bool = False) -> NDArray[np.int32]:
    """All minimal k-anonymous nodes, int32 (m, d); one of least LOG is among them.

    The sublattices of the paper become one box of tags: while a node is unknown, a strategy path through it is
    searched by halves. About (minimal + highest failing nodes) x log(path) checks, one byte a node.
    known: what an earlier window found; where little has changed it decides nearly all.
    only_best: prune by LOG; the answer then holds a node of least LOG, and not every minimal node.

    Raises BudgetError when the lattice has more than 2^28 nodes. Source: El Emam et al. 2009; S1, 2.7.
    """
    return OlaSearch(checks, only_best=only_best).run(known)
