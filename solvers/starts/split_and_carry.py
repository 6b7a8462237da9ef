"""Split & Carry: a sorted order cut into short segments, each grouped at least cost by a mixed-integer program.

Source: Liang & Samavi 2020; S0, section 2. The rows are sorted as for l-greedy. A segment is a few times k of them, and
what the segment before it left over: the program groups all it can into classes of k, those left over are carried on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from kanonflow.solvers.distinct_rows import Units
from kanonflow.solvers.errors import InfeasibleError, UnservedError
from kanonflow.solvers.starts.l_greedy import members_of_classes, sorted_rows
from kanonflow.solvers.starts.open_slots import refuse_above

LARGEST_ROWS = 5_000
# Beyond this the program's first bound says nothing and its tree has no end.
LARGEST_K = 20
# Classes of a segment, and the one class more whose rows may be left over.
BLOCKS = 2
SPARE = 1
# Nodes of the branch and bound of a segment: a deterministic limit, which seconds would not be.
NODES = 100


def _program(
    values: NDArray[np.float64], who: NDArray[np.int64], k: int, classes: int
) -> tuple[NDArray[np.float64], list[LinearConstraint], NDArray[np.float64], Bounds]:
    """Costs, constraints, integrality and bounds of a segment of m rows.

    Variables: v_ic in {0, 1}, row i is in class c, in C order; then low_cj, then high_cj. Minimize sum (high - low),
    such that sum_i v_ic = k, sum_c v_ic <= 1, no class has two rows of one individual, and, if v_ic = 1,
    low_cj <= values_ij <= high_cj (otherwise a big M, the spread of attribute j, sets the constraint free).
    """
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
        # The first row cannot be left over for ever, and which class has it is no choice.
        add({i * classes + c: 1.0 for c in range(classes)}, 1 if i == 0 else 0, 1)
    lower = np.concatenate([np.zeros(m * classes), np.tile(bottom, 2 * classes)])
    upper = np.concatenate([np.ones(m * classes), np.tile(top, 2 * classes)])
    lower[0] = 1.0
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


def _range_sum(values: NDArray[np.float64], labels: NDArray[np.int64], classes: int) -> float:
    """What the program minimizes."""
    return float(sum(np.ptp(values[labels == c], axis=0).sum() for c in range(classes)))


def _sorted_blocks(who: NDArray[np.int64], k: int, classes: int) -> NDArray[np.int64] | None:
    """The incumbent: rows in order to the first class that is not full and may take them; -1: left over."""
    labels = np.full(who.size, -1, dtype=np.int64)
    for row in range(who.size):
        for c in range(classes):
            held = who[labels == c]
            if held.size < k and who[row] not in held:
                labels[row] = c
                break
    return labels if np.bincount(labels[labels >= 0], minlength=classes).min() == k else None


def _segment(
    values: NDArray[np.float64],
    who: NDArray[np.int64],
    k: int,
    classes: int,
    nodes: int,
) -> NDArray[np.int64] | None:
    """The class of each row of a segment, -1: left over; None if there is no grouping, or none was found."""
    incumbent = _sorted_blocks(who, k, classes)
    costs, constraints, integrality, bounds = _program(values, who, k, classes)
    found = milp(
        costs,
        constraints=constraints,
        integrality=integrality,
        bounds=bounds,
        options={"node_limit": nodes, "mip_rel_gap": 1e-6},
    )
    if found.x is None:
        return incumbent
    chosen = np.round(found.x[: who.size * classes]).astype(np.int64).reshape(who.size, classes)
    labels = np.where(chosen.any(axis=1), chosen.argmax(axis=1), -1)
    if incumbent is None or _range_sum(values, labels, classes) < _range_sum(values, incumbent, classes):
        return labels
    return incumbent


def split_and_carry_members(
    units: Units,
    k: int,
    *,
    distinct: bool,
    blocks: int = BLOCKS,
    spare: int = SPARE,
    nodes: int = NODES,
    limit: int = LARGEST_ROWS,
) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k): classes of k, each a circulant.

    blocks: classes made of a segment. spare: times k rows that a segment has beyond those, which are carried on (the
    last segment carries nothing). nodes: of the branch and bound of a segment (HiGHS); when they are used up, its best
    grouping or the sorted blocks are taken, whichever is cheaper. A null lies beyond all numbers, as far as the domain
    is wide. Rows left over at the end join the class that grows least.

    Raises UnservedError for categorical attributes, beyond ``limit`` rows and for k above 20, InfeasibleError when a
    segment has no grouping or no class may take a row (only where individuals have several rows).
    """
    if units.features.codes.shape[1]:
        raise UnservedError(
            "split-and-carry takes numeric quasi-identifiers only: choose l-greedy, insertion or auto"
        )
    if k > LARGEST_K:
        raise UnservedError(f"split-and-carry takes k up to {LARGEST_K}, not {k}: choose l-greedy or auto")
    rows = sorted_rows(units, np.repeat(np.arange(units.weight.size, dtype=np.int32), units.weight))
    refuse_above("split-and-carry", rows.size, limit, "choose l-greedy, insertion or auto")
    carried = np.empty(0, dtype=np.int32)
    classes: list[NDArray[np.int32]] = []
    at = 0
    while carried.size + rows.size - at >= k:
        wanted = (blocks + spare) * k - carried.size
        taken = rows[at : at + wanted]
        at += taken.size
        segment = np.concatenate([carried, taken])
        count = blocks if at < rows.size else segment.size // k
        count = min(count, blocks + spare)
        who = units.individual[segment] if distinct else np.arange(segment.size)
        labels = _segment(units.features.numeric[segment], who, k, count, nodes)
        if labels is None:
            raise InfeasibleError("split-and-carry finds no classes of distinct individuals in a segment")
        classes += [segment[labels == c] for c in range(count)]
        carried = segment[labels < 0]
    filled = np.stack(classes).astype(np.int32)
    return members_of_classes(units, filled, carried, k, distinct=distinct)
