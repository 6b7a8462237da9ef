"""l-greedy over individuals: classes of k whose loss per row, with waiting rows at 1, grows least."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.units.bits import bits_cost
from kanonflow.solvers.units.individuals import Individuals
from kanonflow.solvers.units.leaf_orders import range_cost


@kernel
def _grow(people: Individuals, block: np.ndarray, k: int, first_label: int, labels: np.ndarray) -> int:
    """Label the individuals of a block (sorted by row count); what is left keeps -1. Returns the next label."""
    dn, width = people.low.shape[1], people.words.shape[1]
    low, high = np.empty(dn), np.empty(dn)
    words = np.empty(width, dtype=np.uint64)
    free = np.ones(block.size, dtype=np.bool_)
    left = block.size
    begin = 0
    label = first_label
    while left >= k:
        while not free[begin]:
            begin += 1
        pick = begin
        fewest = people.rows[block[begin]]
        total = 0
        for size in range(1, k + 1):
            unit = block[pick]
            free[pick] = False
            labels[unit] = label
            fewest = min(fewest, people.rows[unit])
            total += people.rows[unit]
            for j in range(dn):
                low[j] = people.low[unit, j] if size == 1 else min(low[j], people.low[unit, j])
                high[j] = people.high[unit, j] if size == 1 else max(high[j], people.high[unit, j])
            for w in range(width):
                words[w] = people.words[unit, w] | (words[w] if size > 1 else np.uint64(0))
            if size == k:
                break
            pick = -1
            best = np.inf
            for index in range(begin, block.size):
                if not free[index]:
                    continue
                candidate = block[index]
                loss = -people.first_value[0]
                for j in range(dn):
                    loss += range_cost(
                        people.orders,
                        people.numeric_weight[j],
                        j,
                        min(low[j], people.low[candidate, j]),
                        max(high[j], people.high[candidate, j]),
                    )
                for w in range(width):
                    merged = words[w] | people.words[candidate, w]
                    if merged:
                        loss += bits_cost(merged, people.bit_weight, w)
                kept = (size + 1) * min(fewest, people.rows[candidate])
                rows = total + people.rows[candidate]
                loss = (kept * loss + rows - kept) / rows
                if loss < best:
                    best = loss
                    pick = index
        left -= k
        label += 1
    return label


def class_greedy_labels(
    people: Individuals, order: NDArray[np.int64], k: int, *, block: int = 1500
) -> NDArray[np.int32]:
    """Labels int32 (u,), -1 for the fewer than k that are left over.

    order: a tour; it is cut into blocks, inside which individuals of many rows come first. What a block leaves over
    goes on to the next. O(u block (d + W)). After l-greedy (Liang & Samavi 2020), over individuals.
    """
    labels = np.full(order.size, -1, dtype=np.int32)
    label = 0
    left = np.empty(0, dtype=np.int64)
    for part in np.array_split(order, max(1, round(order.size / max(block, 2 * k)))):
        members = np.concatenate([left, part])
        members = members[np.argsort(-people.rows[members], kind="stable")]
        label = int(_grow(people, members, k, label, labels))
        left = members[labels[members] < 0]
    return labels
