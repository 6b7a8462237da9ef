"""Split & Carry: a sorted order cut into segments, each grouped at least cost by an integer program.

Source: Liang & Samavi 2020; S0, section 2; decision 131. Rows are sorted as for l-greedy, those of a segment grouped in
classes of k; classes that hold one of its last k rows are carried on, so that no border of a segment is theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.problem.errors import UnservedError
from kanonflow.solvers.rivals.open_slots import refuse_above
from kanonflow.solvers.rivals.segment_program import count_columns, least_cost_labels
from kanonflow.solvers.starts.l_greedy import completed_classes, sorted_rows
from kanonflow.solvers.units.distinct_rows import Units

# A row takes about 10 ms.
LARGEST_ROWS = 10_000
# Beyond this two blocks have more classes than a program bears; its source ends there too.
LARGEST_K = 5
# Classes that the program of a segment may choose from; the segment is as long as they allow.
COLUMNS = 3_000
# Nodes of the branch and bound of a segment: a deterministic limit, which seconds would not be. Most need one.
NODES = 200


def _kinds(units: Units, rows: NDArray[np.int32], distinct: bool) -> NDArray[np.int64]:
    """A number for each row: the same for rows that one class may hold in each other's place."""
    alike = units.individual[rows] if distinct else np.zeros(rows.size)
    keys = np.column_stack([units.features.numeric[rows], alike])
    return np.unique(keys, axis=0, return_inverse=True)[1].ravel().astype(np.int64)


def _range_sum(values: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """What the program minimizes."""
    return float(sum(np.ptp(values[labels == c], axis=0).sum() for c in range(labels.max() + 1)))


def _sorted_blocks(who: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Rows in order to the first class that is not full and may take them; -1: of a class that was not filled."""
    labels = np.zeros(who.size, dtype=np.int64)
    held: list[set[int]] = []
    for row, person in enumerate(who.tolist()):
        open_to = (c for c, people in enumerate(held) if len(people) < k and person not in people)
        labels[row] = c = next(open_to, len(held))
        if c == len(held):
            held.append(set())
        held[c].add(person)
    full = np.array([len(people) == k for people in held])
    return np.where(full[labels], np.cumsum(full)[labels] - 1, -1)


def _segment(
    units: Units, rows: NDArray[np.int32], k: int, nodes: int, columns: int, distinct: bool
) -> NDArray[np.int64]:
    """The class of each row of a segment; -1: of none, which happens only where individuals have several rows."""
    values = units.features.numeric[rows]
    who = units.individual[rows].astype(np.int64) if distinct else np.arange(rows.size)
    blocks = _sorted_blocks(who, k)
    kinds = _kinds(units, rows, distinct)
    if rows.size % k or count_columns(kinds, k) > columns:
        return blocks
    labels = least_cost_labels(values, kinds, who if distinct else None, k, nodes)
    if labels is None or (np.all(blocks >= 0) and _range_sum(values, blocks) <= _range_sum(values, labels)):
        return blocks
    return labels


def split_and_carry_members(
    units: Units,
    k: int,
    *,
    distinct: bool,
    columns: int = COLUMNS,
    nodes: int = NODES,
    limit: int = LARGEST_ROWS,
    order: NDArray[np.int32] | None = None,
) -> NDArray[np.int32]:
    """Slots over units, int32 (n, k): classes of k, each a circulant.

    columns: classes of k that a segment may have, rows that are alike counted once; it takes as many blocks of k as
    stay below, and one at least. Of the classes of its last k rows, the latest first, as many are carried on as leave
    room for that one. nodes: of the branch and bound of a segment (HiGHS); when they are used up, its best grouping or
    the sorted blocks are taken, whichever is cheaper. order: int32 (n,), the units of the rows in another order than
    the sorted one. A null lies beyond all numbers, as far as the domain is wide. The last n mod k rows, and those that
    no class of distinct individuals was found for, join the class that grows least.

    Raises UnservedError for categorical attributes and hierarchies, beyond ``limit`` rows and for k above 5,
    InfeasibleError when no class may take a row (only where individuals have several rows).
    """
    if units.features.codes.shape[1] or units.features.orders is not None:
        raise UnservedError(
            "split-and-carry takes numeric quasi-identifiers only: choose l-greedy, insertion or auto"
        )
    if k > LARGEST_K:
        raise UnservedError(f"split-and-carry takes k up to {LARGEST_K}, not {k}: choose l-greedy or auto")
    rows = np.repeat(np.arange(units.weight.size, dtype=np.int32), units.weight)
    refuse_above("split-and-carry", rows.size, limit, "choose l-greedy, insertion or auto")
    rows = sorted_rows(units, rows) if order is None else order
    whole = rows.size - rows.size % k

    def fits(segment: list[NDArray[np.int32]]) -> bool:
        return count_columns(_kinds(units, np.concatenate(segment), distinct), k) <= columns

    carried = np.empty(0, dtype=np.int32)
    classes: list[NDArray[np.int32]] = []
    at = 0
    while at < whole:
        end = at + k
        while end < whole and fits([carried, rows[at : end + k]]):
            end += k
        segment = np.concatenate([carried, rows[at:end]])
        labels = _segment(units, segment, k, nodes, columns, distinct)
        at = end
        again = labels < 0
        for c in dict.fromkeys(labels[: -k - 1 : -1].tolist() if at < whole else ()):
            if not fits([segment[again | (labels == c)], rows[at : at + k]]):
                break
            again |= labels == c
        classes += [segment[labels == c] for c in range(labels.max() + 1) if not again[labels == c].any()]
        carried = segment[again]
    filled = np.stack(classes).astype(np.int32) if classes else np.empty((0, k), dtype=np.int32)
    return completed_classes(units, filled, np.concatenate([carried, rows[whole:]]), k, distinct=distinct)
