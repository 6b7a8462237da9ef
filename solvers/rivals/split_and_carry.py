"""Split & Carry: a sorted order cut into short segments, each grouped at least cost by a mixed-integer program.

Source: Liang & Samavi 2020; S0, section 2. The rows are sorted as for l-greedy. A segment is a few times k of them, and
what the segment before it left over: the program groups all it can into classes of k, those left over are carried on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import InfeasibleError, UnservedError
from kanonflow.solvers.rivals.open_slots import refuse_above
from kanonflow.solvers.starts.l_greedy import completed_classes, sorted_rows
from kanonflow.solvers.units.distinct_rows import Units

# A row takes 20-40 ms.
LARGEST_ROWS = 2_000
# Beyond this the program's first bound says nothing and its tree has no end.
LARGEST_K = 10
# Classes of a segment, and the one class more whose rows may be left over.
BLOCKS = 4
SPARE = 1
# Nodes of the branch and bound of a segment: a deterministic limit, which seconds would not be.
NODES = 20


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
    # scipy.optimize takes as long to load as everything else together, and few want it.
    from kanonflow.solvers.rivals.segment_program import least_cost_labels

    incumbent = _sorted_blocks(who, k, classes)
    labels = least_cost_labels(values, who, k, classes, nodes)
    if labels is None:
        return incumbent
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

    Raises UnservedError for categorical attributes and hierarchies, beyond ``limit`` rows and for k above 10,
    InfeasibleError when a segment has no grouping or no class may take a row (only where individuals have several
    rows).
    """
    if units.features.codes.shape[1] or units.features.orders is not None:
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
    return completed_classes(units, filled, carried, k, distinct=distinct)
