"""Random search: the baseline of S1 (4.3) for KGen."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.lattice.level_table import LevelVector
from kanonflow.solvers.lattice.node_checks import NodeChecks

EVALUATIONS = 5_000


def random_search(
    checks: NodeChecks, *, seed: int, evaluations: int = EVALUATIONS, start: Iterable[LevelVector] = ()
) -> NDArray[np.int32]:
    """The lowest k-anonymous nodes among uniformly random ones of the raised lattice, int32 (m, d).

    The top is always among those looked at, so there is an answer. evaluations: nodes drawn, repeats included.
    """
    generator = np.random.default_rng(seed)
    asked = 0
    for node in checks.note(start):
        if asked < evaluations:
            checks.anonymous(node)
            asked += 1
    low = np.array(checks.floor)
    high = np.array(checks.lattice.top) + 1
    for drawn in generator.integers(low, high, size=(evaluations - asked, low.size)):
        checks.anonymous(tuple(int(level) for level in drawn))
    return checks.minimal
