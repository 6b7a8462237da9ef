"""Every node of a lattice in one byte, and the kernels that spread what is known along its order.

Nodes of a box of the lattice are numbered in mixed radix. K-anonymous nodes are closed upwards and failing ones
downwards, so on a strategy path the unknown nodes stand in one piece.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel

UNKNOWN, NO_BETTER, ANONYMOUS, FAILING = 0, 1, 2, 3
"""NO_BETTER: unknown too, but it loses at least as much as the best node known: nobody needs to know."""


class Box(NamedTuple):
    """The nodes between two nodes.

    low: int64 (d,), levels of the lowest. dims: int64 (d,), levels an attribute. strides: int64 (d,), of the numbering.
    """

    low: NDArray[np.int64]
    dims: NDArray[np.int64]
    strides: NDArray[np.int64]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(np.prod(self.dims, dtype=np.float64)) if self.dims.size > 62 else int(np.prod(self.dims))

    def levels(self, numbers: NDArray[np.int64]) -> NDArray[np.int32]:
        """Levels of numbered nodes, int32 (m, d)."""
        found = (numbers[:, None] // self.strides) % self.dims + self.low
        return found.astype(np.int32)

    def number(self, levels: NDArray[np.int32]) -> int:
        """The number of a node inside the box."""
        return int(((levels - self.low) * self.strides).sum())


def box_between(low: tuple[int, ...], high: tuple[int, ...]) -> Box:
    """The box from ``low`` to ``high``, both inside."""
    dims = np.array(high, dtype=np.int64) - np.array(low, dtype=np.int64) + 1
    strides = np.concatenate([np.cumprod(dims[::-1])[::-1][1:], [1]]).astype(np.int64)
    return Box(np.array(low, dtype=np.int64), dims, strides)


@kernel
def next_unknown(tags: np.ndarray, begin: int) -> int:
    """The first unknown node from ``begin`` on; -1 when there is none."""
    for number in range(begin, tags.size):
        if tags[number] == UNKNOWN:
            return number
    return -1


@kernel
def spread(tags: np.ndarray, number: int, dims: np.ndarray, strides: np.ndarray, upwards: bool) -> int:
    """Tag the node and all above it ANONYMOUS, or all below it FAILING; returns how many were UNKNOWN.

    Amortized O(d) a node that becomes known.
    """
    tag = ANONYMOUS if upwards else FAILING
    stack = np.empty(1024, dtype=np.int64)
    stack[0] = number
    settled = 1 if tags[number] == UNKNOWN else 0
    tags[number] = tag
    held = 1
    while held > 0:
        held -= 1
        node = stack[held]
        for j in range(dims.size):
            level = (node // strides[j]) % dims[j]
            if (level + 1 == dims[j]) if upwards else (level == 0):
                continue
            other = node + strides[j] if upwards else node - strides[j]
            if tags[other] > NO_BETTER:
                continue
            if tags[other] == UNKNOWN:
                settled += 1
            tags[other] = tag
            if held == stack.size:
                wider = np.empty(2 * stack.size, dtype=np.int64)
                wider[:held] = stack
                stack = wider
            stack[held] = other
            held += 1
    return settled


@kernel
def unknown_path(tags: np.ndarray, number: int, dims: np.ndarray, strides: np.ndarray) -> np.ndarray:
    """The unknown nodes of a strategy path through an unknown node, lowest first, int64 (length,).

    Nodes that are NO_BETTER are on it: when one of them fails, it decides many that matter.

    Climbs at the attribute of least relative level and descends at that of greatest, so that the path leads through
    the middle of what is unknown, where an answer decides most.
    """
    longest = 1
    for j in range(dims.size):
        longest += dims[j] - 1
    path = np.empty(2 * longest, dtype=np.int64)
    first = longest
    last = longest
    path[longest] = number
    for upwards in (True, False):
        node = number
        going = True
        while going:
            going = False
            best = np.inf
            chosen = -1
            for j in range(dims.size):
                level = (node // strides[j]) % dims[j]
                if (level + 1 == dims[j]) if upwards else (level == 0):
                    continue
                other = node + strides[j] if upwards else node - strides[j]
                relative = level / (dims[j] - 1)
                rank = relative if upwards else 1.0 - relative
                if tags[other] <= NO_BETTER and rank < best:
                    best = rank
                    chosen = other
            if chosen >= 0:
                going = True
                node = chosen
                if upwards:
                    last += 1
                    path[last] = node
                else:
                    first -= 1
                    path[first] = node
    return path[first : last + 1].copy()


@kernel
def drop_no_better(
    tags: np.ndarray, losses: np.ndarray, first: np.ndarray, dims: np.ndarray, best: float
) -> int:
    """Tag unknown nodes NO_BETTER whose loss is ``best`` or more; returns how many.

    losses: float64, one a level of the box, attribute after attribute; first: where each attribute's begin. O(nodes).
    """
    d = dims.size
    level = np.zeros(d, dtype=np.int64)
    total = 0.0
    settled = 0
    for j in range(d):
        total += losses[first[j]]
    for number in range(tags.size):
        if tags[number] == UNKNOWN and total >= best:
            tags[number] = NO_BETTER
            settled += 1
        j = d - 1
        while j >= 0:
            if level[j] + 1 < dims[j]:
                level[j] += 1
                break
            level[j] = 0
            j -= 1
        # Summed afresh where an outer level moved, so that rounding does not pile up over millions of nodes.
        if j == d - 1:
            total += losses[first[j] + level[j]] - losses[first[j] + level[j] - 1]
        else:
            total = 0.0
            for i in range(d):
                total += losses[first[i] + level[i]]
    return settled


@kernel
def lowest_anonymous(tags: np.ndarray, dims: np.ndarray, strides: np.ndarray) -> np.ndarray:
    """Numbers of the ANONYMOUS nodes all of whose lower neighbours are not, int64 (m,). O(nodes d)."""
    found = np.empty(1024, dtype=np.int64)
    count = 0
    for number in range(tags.size):
        if tags[number] != ANONYMOUS:
            continue
        lowest = True
        for j in range(dims.size):
            if (number // strides[j]) % dims[j] > 0 and tags[number - strides[j]] == ANONYMOUS:
                lowest = False
        if lowest:
            if count == found.size:
                wider = np.empty(2 * count, dtype=np.int64)
                wider[:count] = found
                found = wider
            found[count] = number
            count += 1
    return found[:count].copy()
