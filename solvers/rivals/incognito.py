"""Incognito: subsets of the attributes first, bottom-up, to leave few nodes of the whole lattice (LeFevre 2005)."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.node_checks import NodeChecks
from kanonflow.solvers.problem.errors import BudgetError
from kanonflow.solvers.problem.hierarchy_levels import LevelVector

MOST_NODES = 500_000


def _anonymous_of(
    checks: NodeChecks, attributes: tuple[int, ...], below: dict[tuple[int, ...], set[LevelVector]]
) -> set[LevelVector]:
    """The k-anonymous level vectors of a subset of the attributes, breadth first by height.

    below: those of the subsets with one attribute less; a vector with a failing projection is no candidate.
    """
    heights = [checks.lattice.top[attribute] for attribute in attributes]
    chosen = np.array(attributes)
    anonymous: set[LevelVector] = set()
    vectors = sorted(product(*(range(height + 1) for height in heights)), key=sum)
    for vector in vectors:
        if vector in anonymous:
            candidate = True
        else:
            candidate = all(
                vector[:place] + vector[place + 1 :] in below[attributes[:place] + attributes[place + 1 :]]
                for place in range(len(attributes))
                if len(attributes) > 1
            )
            if candidate:
                node = np.zeros(checks.lattice.attributes, dtype=np.int64)
                node[chosen] = vector
                candidate = checks.projection_anonymous(tuple(int(level) for level in node), chosen)
        if candidate:
            anonymous.add(vector)
            for place, height in enumerate(heights):
                if vector[place] < height:
                    anonymous.add((*vector[:place], vector[place] + 1, *vector[place + 1 :]))
    return anonymous


def incognito(checks: NodeChecks) -> NDArray[np.int32]:
    """All minimal k-anonymous nodes, int32 (m, d), by a-priori pruning over the subsets of attributes.

    Raises BudgetError when the lattices of all subsets hold more than 500,000 nodes together.
    """
    top = checks.lattice.top
    nodes = 1
    for height in top:
        nodes *= height + 2
    if nodes > MOST_NODES:
        raise BudgetError(
            f"incognito: the lattices of all subsets of the attributes have {nodes:,} nodes and at most "
            f"{MOST_NODES:,} are taken; use ola or kgen"
        )
    found: dict[tuple[int, ...], set[LevelVector]] = {}
    for size in range(1, len(top) + 1):
        found = {
            subset: _anonymous_of(checks, subset, found) for subset in combinations(range(len(top)), size)
        }
    anonymous = found[tuple(range(len(top)))]
    minimal = [
        node
        for node in sorted(anonymous)
        if not any(
            level > 0 and (*node[:place], level - 1, *node[place + 1 :]) in anonymous
            for place, level in enumerate(node)
        )
    ]
    return np.array(minimal, dtype=np.int32).reshape(len(minimal), len(top))
