"""How many are unique in the population of which the people of a feed are a part: Pitman's model.

Hoshino (2001, Applying Pitman's sampling formula to microdata disclosure risk assessment, Journal of Official
Statistics 17) fits it to how many combinations of values one, two, ... people of the sample have. Of N people then
Gamma(theta + 1) / Gamma(theta + alpha) N^alpha are expected to be unique.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import gammaln

SOURCE = "Pitman's model (Hoshino 2001), fitted by maximum likelihood"


def population_uniques(sizes: NDArray[np.int64], population: int) -> float:
    """The expected share of a population that is unique, in [0, 1]. sizes: of each combination, people of the sample.

    Deterministic. O(combinations), a few hundred times.
    """
    people, cells = int(sizes.sum()), sizes.size
    if cells <= 1 or people >= population:
        return float((sizes == 1).sum()) / max(people, 1)
    counts = np.bincount(sizes)
    size = np.flatnonzero(counts)
    number = counts[size].astype(np.float64)
    places = np.arange(1, cells)

    def unlikely(at: NDArray[np.float64]) -> float:
        alpha, theta = 1.0 / (1.0 + np.exp(-at[0])), np.exp(min(at[1], 30.0))
        likely = np.log(theta + places * alpha).sum() - (gammaln(theta + people) - gammaln(theta + 1))
        likely += (number * (gammaln(size - alpha) - gammaln(1 - alpha))).sum()
        return -float(likely)

    best = minimize(unlikely, np.array([0.0, np.log(cells)]), method="Nelder-Mead", options={"maxiter": 400})
    alpha, theta = 1.0 / (1.0 + np.exp(-best.x[0])), float(np.exp(min(best.x[1], 30.0)))
    share = np.exp(gammaln(theta + 1) - gammaln(theta + alpha) + (alpha - 1.0) * np.log(population))
    return float(min(share, 1.0))
