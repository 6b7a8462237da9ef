"""OLA: all minimal k-anonymous nodes by binary search on strategy paths with predictive tags (El Emam et al. 2009)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.errors import BudgetError
from kanonflow.solvers.lattice.level_table import LevelVector
from kanonflow.solvers.lattice.node_checks import NodeChecks
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
            if self.tags[path[middle]] == NO_BETTER or self.decide(int(path[middle])):
                high = middle
            else:
                low = middle + 1

    def run(self, start: Iterable[LevelVector]) -> NDArray[np.int32]:
        """All minimal k-anonymous nodes (of those decided), int32 (m, d)."""
        for node in self.checks.note(start):
            number = self.box.number(np.array(node, dtype=np.int32))
            if self.tags[number] == UNKNOWN:
                self.decide(number)
        number = next_unknown(self.tags, 0)
        while number >= 0:
            self.search_path(number)
            number = next_unknown(self.tags, number)
        return self.box.levels(lowest_anonymous(self.tags, self.box.dims, self.box.strides))


def ola(
    checks: NodeChecks, *, start: Iterable[LevelVector] = (), only_best: bool = False
) -> NDArray[np.int32]:
    """All minimal k-anonymous nodes, int32 (m, d); one of least LOG is among them.

    The sublattices of the paper become one box of tags: while a node is unknown, a strategy path through it is
    searched by halves. About (minimal + highest failing nodes) x log(path) checks, one byte a node.
    start: nodes of an earlier window; they are decided first, and where little has changed they decide nearly all.
    only_best: prune by LOG; the answer then holds a node of least LOG, and not every minimal node.

    Raises BudgetError when the lattice has more than 2^28 nodes. Source: El Emam et al. 2009; S1, 2.7.
    """
    return OlaSearch(checks, only_best=only_best).run(start)
