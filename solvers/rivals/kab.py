"""KAB: the black hole algorithm on stars that begin as NCP clusterings (S4, Algorithm 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.rivals.black_hole import (
    BlackHoleParameters,
    StarProblem,
    StarResult,
    search_stars,
)
from kanonflow.solvers.rivals.ncp_clustering import ncp_clustering_labels
from kanonflow.solvers.rivals.stars import mended_by_clustering


def kab_result(
    problem: StarProblem,
    seed: int,
    parameters: BlackHoleParameters | None = None,
    old_star: NDArray[np.int32] | None = None,
) -> StarResult:
    """The best star found. old_star: labels of the previous window's classes, -1 for newcomers, as one of the first.

    Raises InfeasibleError when there are fewer than k individuals or a row fits nowhere. O(stars iterations u^2 d / k)
    when every star is swallowed in every iteration, as happens where fitness is normalized.
    """
    people, who, k = problem.people, problem.who, problem.k
    return search_stars(
        problem,
        parameters or BlackHoleParameters(),
        seed,
        lambda drawn: ncp_clustering_labels(people, who, k, drawn),
        lambda labels, drawn: mended_by_clustering(people, who, k, labels, drawn),
        old_star,
    )
