"""The program of a segment of Split & Carry: which classes of k of its rows, each row in one, cost least (HiGHS).

Liang & Samavi 2020 give each pair of rows a variable and bounds of a big M. Here each possible class is a column
instead: the same optimum, a bound that is nearly whole at the root, and rows that are alike counted once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def count_columns(kinds: NDArray[np.int64], k: int) -> int:
    """How many classes of k rows there are, rows of a kind being alike. O(kinds k^2)."""
    ways = np.zeros(k + 1)
    ways[0] = 1.0
    for size in np.bincount(kinds):
        ways = np.convolve(ways, np.ones(min(int(size), k) + 1))[: k + 1]
    return int(ways[k])


def class_columns(kinds: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Those classes, int64 (columns, k): kinds, ascending."""
    ordered = np.sort(kinds)
    # Of rows that are alike, a later one is taken with the one before it only.
    after = np.concatenate([[False], ordered[1:] == ordered[:-1]])
    places = np.flatnonzero(~after)[:, None]
    for _ in range(k - 1):
        last = places[:, -1]
        longer = [
            np.column_stack([chosen, np.full(chosen.shape[0], place)])
            for place in range(1, ordered.size)
            if (chosen := places[last == place - 1 if after[place] else last < place]).size
        ]
        places = np.concatenate(longer) if longer else np.empty((0, places.shape[1] + 1), dtype=np.int64)
    return ordered[places]


def least_cost_labels(
    values: NDArray[np.float64],
    kinds: NDArray[np.int64],
    who: NDArray[np.int64] | None,
    k: int,
    nodes: int,
) -> NDArray[np.int64] | None:
    """The class of each row, int64 (m,), of the cheapest grouping found; None if none was. m is a multiple of k.

    values: float64 (m, d), weighted coordinates. kinds: int64 (m,), 0, 1, ...; rows of a kind are alike, in who too.
    who: int64 (m,), individuals, of whom no class holds two rows. nodes: of the branch and bound; a limit of seconds
    would make a repetition end elsewhere. Memory O(columns k).
    """
    # Loaded here: it takes half a second, and few solvers want it.
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csc_array

    columns = class_columns(kinds, k)
    first = np.unique(kinds, return_index=True)[1]
    if who is not None:
        people = np.sort(who[first][columns], axis=1)
        columns = columns[np.all(people[:, 1:] != people[:, :-1], axis=1)]
        if not columns.size:
            return None
    costs = np.ptp(values[first][columns], axis=1).sum(axis=1)
    # A kind that a column holds twice is counted twice. A copy: entries of one place are added where they lie.
    ends = np.arange(0, columns.size + 1, k)
    matrix = csc_array((np.ones(columns.size), columns.flatten(), ends), shape=(first.size, columns.shape[0]))
    matrix.sum_duplicates()
    sizes = np.bincount(kinds)
    solved = milp(
        costs,
        constraints=LinearConstraint(matrix, sizes, sizes),
        integrality=np.ones(costs.size),
        bounds=Bounds(0, np.inf),
        options={"node_limit": nodes, "mip_rel_gap": 1e-6},
    )
    if solved.x is None:
        return None
    chosen = np.repeat(np.arange(costs.size), np.round(solved.x).astype(np.int64))
    labels = np.empty(kinds.size, dtype=np.int64)
    # Rows of a kind go, in their order, to the classes that hold it.
    holds = np.argsort(columns[chosen].ravel(), kind="stable")
    if holds.size != kinds.size:
        # Tolerances of the solver are not ours.
        return None
    labels[np.argsort(kinds, kind="stable")] = holds // k
    return labels
