"""Regular graphs for tests: rings, complete ones, randomly wired ones, and ones a search would end with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ring(n: int, k: int) -> NDArray[np.int32]:
    """Slot j holds the records j .. j + k - 1 (a circulant); k = n is the complete graph."""
    return ((np.arange(n)[:, None] + np.arange(k)) % n).astype(np.int32)


def side_by_side(*graphs: NDArray[np.int32]) -> NDArray[np.int32]:
    """Several graphs as components of one."""
    starts = np.cumsum([0, *(len(graph) for graph in graphs[:-1])])
    return np.concatenate([graph + start for graph, start in zip(graphs, starts, strict=True)]).astype(
        np.int32
    )


def rewired(members: NDArray[np.int32], swaps: int, seed: int) -> NDArray[np.int32]:
    """The graph after random legal exchanges of two members between two slots."""
    rng = np.random.default_rng(seed)
    members = members.copy()
    n, k = members.shape
    for _ in range(swaps):
        b, d = rng.integers(0, n, 2)
        s, t = rng.integers(0, k, 2)
        a, c = members[b, s], members[d, t]
        if a not in members[d] and c not in members[b]:
            members[b, s], members[d, t] = c, a
    return members


def searched(n: int, k: int, seed: int) -> NDArray[np.int32]:
    """A graph that improving exchanges lead to, for random points of the plane: uneven and cliquish."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2)).tolist()
    members = rewired(ring(n, k), 10 * n, seed)

    def loss(slot: NDArray[np.int32]) -> float:
        x, y = zip(*(points[record] for record in slot), strict=True)
        return max(x) - min(x) + max(y) - min(y)

    for _ in range(150 * n):
        b, d = rng.integers(0, n, 2)
        s, t = rng.integers(0, k, 2)
        a, c = members[b, s], members[d, t]
        if a in members[d] or c in members[b]:
            continue
        before = loss(members[b]) + loss(members[d])
        members[b, s], members[d, t] = c, a
        if loss(members[b]) + loss(members[d]) > before:
            members[b, s], members[d, t] = a, c
    return members
