"""KGen's operators on level vectors: selection with a penalty for age, crossover by meet and join, two mutations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Levels = NDArray[np.int32]
"""Levels of one node, int32 (d,)."""

OLDEST = 9


def selection_weights(
    log: NDArray[np.float64], age: NDArray[np.int64], *, literal: bool
) -> NDArray[np.float64]:
    """Chance of each solution to become a parent, float64 (m,), sum 1.

    (1 - 0.1 age) (1 - LOG), ages up to 9. literal: (1 - 0.1 age) LOG, which S1's figure 5 prints (.51, .19, .30) and
    which favours loss.
    """
    weights = (1.0 - 0.1 * np.minimum(age, OLDEST)) * (log if literal else 1.0 - log)
    total = weights.sum()
    return np.full(log.size, 1.0 / log.size) if total <= 0 else weights / total


def between(low: Levels, high: Levels, generator: np.random.Generator) -> Levels:
    """A uniformly random node with ``low <= node <= high``."""
    return generator.integers(low, high + 1).astype(np.int32)


def crossover(
    first: Levels,
    second: Levels,
    anonymous: tuple[bool, bool],
    ask: Callable[[Levels], bool],
    generator: np.random.Generator,
) -> list[Levels]:
    """Children of two parents by their meet (attribute-wise minimum) and join (maximum) (S1, 3.5 and figure 6).

    Both parents k-anonymous: the join, and the meet if it is k-anonymous, else a random node between the meet and
    each parent. None: the join. One: a random node between the meet and that one.
    ask: whether a node is k-anonymous; called for the meet of two k-anonymous parents only.
    """
    meet, join = np.minimum(first, second), np.maximum(first, second)
    if all(anonymous):
        if ask(meet):
            return [join, meet]
        return [join, between(meet, first, generator), between(meet, second, generator)]
    if not any(anonymous):
        return [join]
    return [between(meet, first if anonymous[0] else second, generator)]


def standard_mutation(node: Levels, low: Levels, high: Levels, generator: np.random.Generator) -> Levels:
    """One random attribute at a random level: mostly a step along the same strategy path."""
    child = node.copy()
    attribute = int(generator.integers(node.size))
    child[attribute] = generator.integers(low[attribute], high[attribute] + 1)
    return child


def horizontal_mutation(
    node: Levels, low: Levels, high: Levels, share: float, generator: np.random.Generator
) -> Levels:
    """A share of the attributes, in turn raised to a random higher level and lowered to a random lower one.

    Leaves the strategy path. At least two attributes where there are two; the own level is among the choices.
    """
    child = node.copy()
    count = min(node.size, max(2, int(share * node.size)))
    for turn, attribute in enumerate(generator.choice(node.size, size=count, replace=False)):
        if turn % 2 == 0:
            child[attribute] = generator.integers(node[attribute], high[attribute] + 1)
        else:
            child[attribute] = generator.integers(low[attribute], node[attribute] + 1)
    return child
