"""Measures of classes and what stands for them on graphs, straight from their definitions (S4, eq. 12-18).

Rows that wait are suppressed: CM counts each of them as an error and DM as hidden among all n rows; C_AVG and CA
look at classes only. GenTotal-IL counts a waiting row as fully generalized, at 1 in each attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.loss.ncp import attribute_ncp
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.partition import Partition

# Share of its taxonomy's height, in [0, 1], at which some codes of one attribute meet; 0 for one code.
Height = Callable[[NDArray[np.int32]], float]


def flat_height(codes: NDArray[np.int32]) -> float:
    """Without a hierarchy every two values meet at the root: 0 for one value, else 1."""
    return float(codes.size > 1)


def general_total_loss(table: Table, partition: Partition, heights: Sequence[Height] | None = None) -> float:
    """GenTotal-IL in [0, 100] (S4, eq. 13-14).

    ``100 / (n d) sum_e |e| (sum_j (max_j - min_j) / |N_j| + sum_j H(subtree at the lowest common ancestor) / H(tree))``
    over classes e: the first sum over numeric attributes, the second over categorical ones. heights: one function for
    each categorical attribute, over the distinct codes of a class; None: ``flat_height`` for all. Attribute weights do
    not count. O(n d log n).
    """
    kept = partition.labels >= 0
    n, d, dn = table.records, table.attributes, table.numeric.shape[1]
    if n == 0:
        return 0.0
    total = float(attribute_ncp(table, partition)[:dn].sum()) * int(kept.sum())
    labels = partition.labels[kept].astype(np.int64)
    sizes = np.bincount(labels, minlength=partition.classes)
    for j, column in enumerate(table.categorical[kept].T):
        height = flat_height if heights is None else heights[j]
        held = np.unique(np.stack([labels, column.astype(np.int64)], axis=1), axis=0)
        cuts = np.searchsorted(held[:, 0], np.arange(partition.classes + 1))
        for number, size in enumerate(sizes):
            total += size * height(held[cuts[number] : cuts[number + 1], 1].astype(np.int32))
    return 100.0 * (total + int((~kept).sum()) * d) / (n * d)


def classification_errors(groups: NDArray[np.int64], values: NDArray[np.int64]) -> int:
    """Rows whose value is not the majority's of their group (S4, eq. 17).

    groups, values: int64 (m,). Of equally frequent values one is the majority, whichever: the count is the same.
    """
    pairs, counts = np.unique(np.stack([groups, values], axis=1), axis=0, return_counts=True)
    most = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(most, pairs[:, 0], counts)
    return int(groups.size - most.sum())


def classification_metric(partition: Partition, values: NDArray[np.int64]) -> float:
    """CM in [0, 1] (S4, eq. 16-17): share of the rows that wait or whose value is not the majority's of their class.

    values: int64 (n,), the class label to predict (a sensitive field). O(n log n).
    """
    kept = partition.labels >= 0
    errors = classification_errors(partition.labels[kept].astype(np.int64), values[kept])
    return (errors + int((~kept).sum())) / max(values.size, 1)


def graph_classification_metric(members: NDArray[np.int32], values: NDArray[np.int64]) -> float:
    """CM of a graph in [0, 1]: over all (record, slot), how often its value is not the majority's of the slot.

    members: int32 (n, k), the candidates of each slot. Its expectation over the published matching; CM for classes.
    """
    n, k = members.shape
    groups = np.repeat(np.arange(n, dtype=np.int64), k)
    return classification_errors(groups, values[members.ravel()]) / max(n * k, 1)


def average_class_size(partition: Partition, k: int) -> float:
    """C_AVG = n / (|EC| k) over the released rows (S4, eq. 18; LeFevre et al. 2006): 1 when every class has k rows."""
    return float((partition.labels >= 0).sum() / max(partition.classes * k, 1))


def classification_accuracy(partition: Partition, k: int) -> float:
    """CA in [0, 1] (S4, eq. 12): share of the classes that have at least k rows; 1 without classes."""
    sizes = np.bincount(partition.labels[partition.labels >= 0], minlength=partition.classes)
    return float((sizes >= k).mean()) if sizes.size else 1.0


def discernibility(partition: Partition) -> int:
    """DM = sum over classes of |EC|^2, plus n for each row that waits (Bayardo & Agrawal 2005)."""
    kept = partition.labels >= 0
    sizes = np.bincount(partition.labels[kept], minlength=1).astype(np.int64)
    return int((sizes**2).sum() + (~kept).sum() * kept.size)


def candidate_discernibility(candidates: NDArray[np.int64]) -> int:
    """DM_h = sum over rows of |cand(i)|; for classes it is DM.

    candidates: int64 (n,), of each row how many records its published row may belong to (the audit's candidates; k for
    each row of a k-regular graph).
    """
    return int(candidates.sum())


def average_candidates(candidates: NDArray[np.int64], k: int) -> float:
    """C_AVG_h = mean |cand(i)| / k; for classes of equal size it is C_AVG. candidates: as above."""
    return float(candidates.mean() / k) if candidates.size else 0.0
