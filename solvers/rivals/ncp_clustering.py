"""NCP clustering: random centroids, each with its k - 1 nearest by NCP (S4, Algorithm 1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.rivals.seeded_classes import seeded_labels
from kanonflow.solvers.units.individuals import Individuals


def ncp_clustering_labels(
    people: Individuals, who: NDArray[np.int64], k: int, seed: int
) -> NDArray[np.int32]:
    """Closed classes of at least k, int32 (u,): what KAB's stars begin as.

    floor(u / k) times: a random free unit and its k - 1 nearest free ones. Parameters, errors and cost:
    ``seeded_labels``. Source: S4, Algorithm 1 (its Fig. 2) and eq. 1-3.
    """
    return seeded_labels(people, who, k, seed, spread=False)
