"""The mixed-integer program of a segment of Split & Carry, solved by HiGHS (Liang & Samavi 2020)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.optimize import Bounds, LinearConstraint


def _program(
    values: NDArray[np.float64], who: NDArray[np.int64], k: int, classes: int
) -> tuple[NDArray[np.float64], list[LinearConstraint], NDArray[np.float64], Bounds]:
    """Costs, constraints, integrality and bounds of a segment of m rows.

    Variables: v_ic in {0, 1}, row i is in class c, in C order; then low_cj, then high_cj. Minimize sum (high - low),
    such that sum_i v_ic = k, sum_c v_ic <= 1, no class has two rows of one individual, and, if v_ic = 1,
    low_cj <= values_ij <= high_cj (otherwise a big M, the spread of attribute j, sets the constraint free).
    """
    # Loaded here: it takes half a second, and few solvers want it.
    from scipy.optimize import Bounds, LinearConstraint
    from scipy.sparse import csr_array

    m, d = values.shape
    lows, highs = m * classes, m * classes + classes * d
    total = highs + classes * d
    top, bottom = values.max(axis=0), values.min(axis=0)
    rows: list[dict[int, float]] = []
    least: list[float] = []
    most: list[float] = []

    def add(row: dict[int, float], low: float, high: float) -> None:
        rows.append(row)
        least.append(low)
        most.append(high)

    for c in range(classes):
        add({i * classes + c: 1.0 for i in range(m)}, k, k)
        for person in np.unique(who):
            own = np.flatnonzero(who == person)
            if own.size > 1:
                add({int(i) * classes + c: 1.0 for i in own}, 0, 1)
        for i in range(m):
            for j in range(d):
                spread = float(top[j] - bottom[j])
                low, high, chosen = lows + c * d + j, highs + c * d + j, i * classes + c
                add({low: 1.0, chosen: spread}, -np.inf, float(values[i, j]) + spread)
                add({high: 1.0, chosen: -spread}, float(values[i, j]) - spread, np.inf)
    for i in range(m):
        # The first row cannot be left over for ever.
        add({i * classes + c: 1.0 for c in range(classes)}, 1 if i == 0 else 0, 1)
    lower = np.concatenate([np.zeros(m * classes), np.tile(bottom, 2 * classes)])
    upper = np.concatenate([np.ones(m * classes), np.tile(top, 2 * classes)])
    lower[0] = 1.0
    for i in range(min(m, classes)):
        # Which number a class has is no choice: row i is in one of the first i + 1.
        upper[i * classes + i + 1 : (i + 1) * classes] = 0.0
    indices = [column for row in rows for column in row]
    data = [value for row in rows for value in row.values()]
    ends = np.cumsum([0, *(len(row) for row in rows)])
    matrix = csr_array((data, indices, ends), shape=(len(rows), total))
    costs = np.concatenate([np.zeros(m * classes), -np.ones(classes * d), np.ones(classes * d)])
    integrality = np.concatenate([np.ones(m * classes), np.zeros(2 * classes * d)])
    return (
        costs,
        [LinearConstraint(matrix, np.array(least), np.array(most))],
        integrality,
        Bounds(lower, upper),
    )


def least_cost_labels(
    values: NDArray[np.float64], who: NDArray[np.int64], k: int, classes: int, nodes: int
) -> NDArray[np.int64] | None:
    """The class of each row, int64 (m,), -1: left over, of the cheapest grouping found; None if none was.

    values: float64 (m, d), weighted coordinates. who: int64 (m,), individuals. nodes: of the branch and bound; a limit
    of seconds would make a repetition end elsewhere.
    """
    from scipy.optimize import milp

    costs, constraints, integrality, bounds = _program(values, who, k, classes)
    found = milp(
        costs,
        constraints=constraints,
        integrality=integrality,
        bounds=bounds,
        options={"node_limit": nodes, "mip_rel_gap": 1e-6},
    )
    if found.x is None:
        return None
    chosen = np.round(found.x[: who.size * classes]).astype(np.int64).reshape(who.size, classes)
    labels = np.where(chosen.any(axis=1), chosen.argmax(axis=1), -1)
    # Tolerances of the solver are not ours: a class of another size is no grouping.
    return labels if np.all(np.bincount(labels[labels >= 0], minlength=classes) == k) else None
