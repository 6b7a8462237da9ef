"""IKA: centroids far from one another, each with its k - 1 nearest (Zheng et al. 2018)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.rivals.seeded_classes import seeded_labels
from kanonflow.solvers.units.individuals import Individuals


def ika_labels(people: Individuals, who: NDArray[np.int64], k: int, seed: int) -> NDArray[np.int32]:
    """Closed classes of at least k, int32 (u,).

    The first centroid is random; each next one is the free unit whose nearest centroid is furthest. As each is made its
    k - 1 nearest free units join it. Parameters, errors and cost: ``seeded_labels``. Source: Zheng et al. 2018; S4,
    section 2.1.
    """
    return seeded_labels(people, who, k, seed, spread=True)
