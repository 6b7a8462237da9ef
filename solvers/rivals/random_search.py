"""Random search: the baseline of S1 (4.3) for KGen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.node_checks import KnownNodes, NodeChecks


def random_search(
    checks: NodeChecks, *, seed: int, evaluations: int, known: KnownNodes | None = None
) -> NDArray[np.int32]:
    """The lowest k-anonymous nodes among uniformly random ones of the raised lattice, int32 (m, d).

    The top is always among those looked at, so there is an answer. evaluations: nodes drawn, repeats and the nodes of
    ``known`` (an earlier window's) included.
    """
    generator = np.random.default_rng(seed)
    low = np.array(checks.floor)
    high = np.array(checks.lattice.top) + 1
    nodes = generator.integers(low, high, size=(evaluations, low.size))
    if known is not None:
        nodes = np.concatenate([checks.clipped(known.anonymous), nodes])[:evaluations]
    for node in nodes:
        checks.anonymous(tuple(int(level) for level in node))
    return checks.minimal
