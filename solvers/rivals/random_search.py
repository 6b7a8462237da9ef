"""Random search: the baseline of S1 (4.3) for KGen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.node_checks import KnownNodes, NodeChecks
from kanonflow.solvers.problem.errors import BudgetError


@dataclass(frozen=True)
class RandomSearch:
    """evaluations: nodes drawn, repeats included; S1 gives each search 5,000. Raises BudgetError below 1."""

    evaluations: int = 5_000

    def __post_init__(self) -> None:
        if self.evaluations < 1:
            raise BudgetError("random-search: evaluations must be 1 or more")


def random_search(
    checks: NodeChecks, *, seed: int, parameters: RandomSearch, known: KnownNodes | None = None
) -> NDArray[np.int32]:
    """The lowest k-anonymous nodes among uniformly random ones of the raised lattice, int32 (m, d).

    The top is always among those looked at, so there is an answer. The nodes of ``known`` (an
    earlier window's) count as drawn.
    """
    generator = np.random.default_rng(seed)
    low = np.array(checks.floor)
    high = np.array(checks.lattice.top) + 1
    nodes = generator.integers(low, high, size=(parameters.evaluations, low.size))
    if known is not None:
        nodes = np.concatenate([checks.clipped(known.anonymous), nodes])[: parameters.evaluations]
    for node in nodes:
        checks.anonymous(tuple(int(level) for level in node))
    return checks.minimal
