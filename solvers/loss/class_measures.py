"""Measures of closed classes and of levels, straight from their definitions (S4, eq. 12-18; S1, eq. 1).

``left_out`` are rows that stand in no class. They count as suppressed: CM takes each of them for an error, DM for
hidden among all rows, and GenTotal-IL for fully generalized. C_AVG and CA look at classes only.
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


def class_sizes(partition: Partition) -> NDArray[np.int64]:
    """Rows of each class, int64 (classes,). O(n)."""
    return np.bincount(partition.labels[partition.labels >= 0], minlength=partition.classes).astype(np.int64)


def total_loss(shares: Sequence[float], left_out: float) -> float:
    """GenTotal-IL in [0, 100] from what it is the mean of (S4, eq. 13): ``100 ((1 - w) mean_j s_j + w)``.

    shares: of each attribute, the mean over the rows that went out of their width over the domain's, or of the height
    of their subtree over the tree's. left_out: w, the share of the rows that did not. 0 without attributes.
    """
    mean = sum(shares) / len(shares) if shares else 0.0
    return 100.0 * ((1.0 - left_out) * mean + left_out)


def general_total_loss(table: Table, partition: Partition, heights: Sequence[Height] | None = None) -> float:
    """GenTotal-IL in [0, 100] (S4, eq. 13-14).

    ``100 / (n d) sum_e |e| (sum_j (max_j - min_j) / |N_j| + sum_j H(subtree at the lowest common ancestor) / H(tree))``
    over classes e: the first sum over numeric attributes, the second over categorical ones. heights: one function for
    each categorical attribute, over the distinct codes of a class; None: ``flat_height`` for all. Attribute weights do
    not count. O(n d log n).
    """
    n, numeric = table.records, table.numeric.shape[1]
    if n == 0:
        return 0.0
    sizes = class_sizes(partition)
    rows = int(sizes.sum())
    shares = attribute_ncp(table, partition)[:numeric].tolist()
    labels = partition.labels[partition.labels >= 0].astype(np.int64)
    for j, column in enumerate(table.categorical[partition.labels >= 0].T):
        height = flat_height if heights is None else heights[j]
        held = np.unique(np.stack([labels, column.astype(np.int64)], axis=1), axis=0)
        cuts = np.searchsorted(held[:, 0], np.arange(sizes.size + 1))
        lost = sum(
            size * height(held[cuts[number] : cuts[number + 1], 1].astype(np.int32))
            for number, size in enumerate(sizes.tolist())
        )
        shares.append(lost / max(rows, 1))
    return total_loss(shares, 1.0 - rows / n)


def classification_errors(groups: NDArray[np.int64], values: NDArray[np.int64]) -> int:
    """Rows whose value is not the majority's of their group (S4, eq. 17).

    groups, values: int64 (m,). Of equally frequent values one is the majority, whichever: the count is the same.
    """
    pairs, counts = np.unique(np.stack([groups, values], axis=1), axis=0, return_counts=True)
    most = np.zeros(int(groups.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(most, pairs[:, 0], counts)
    return int(groups.size - most.sum())


def classification_metric(partition: Partition, values: NDArray[np.int64]) -> float:
    """CM in [0, 1] (S4, eq. 16-17): share of the rows that are left out or whose value is not the majority's of their
    class.

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


def average_class_size(sizes: NDArray[np.int64], k: int) -> float:
    """C_AVG = n / (|EC| k) over the rows in classes (S4, eq. 18; LeFevre et al. 2006): 1 when every class has k rows.

    sizes: int64 (classes,), rows of each; 0 without classes.
    """
    return float(sizes.sum() / max(sizes.size * k, 1))


def classification_accuracy(sizes: NDArray[np.int64], k: int) -> float:
    """CA in [0, 1] (S4, eq. 12): share of the classes that have at least k rows; 1 without classes."""
    return float((sizes >= k).mean()) if sizes.size else 1.0


def discernibility(sizes: NDArray[np.int64], left_out: int) -> int:
    """DM = sum over classes of |EC|^2, plus n for each row that is left out, of all n (Bayardo & Agrawal 2005)."""
    return int((sizes**2).sum()) + left_out * (int(sizes.sum()) + left_out)


def level_of_generalization(levels: NDArray[np.int32], heights: Sequence[int]) -> NDArray[np.float64]:
    """LOG (Prec) of nodes in [0, 1], float64 (m,): mean over attributes of level / height (S1, eq. 1 and 2).

    levels: int32 (m, d), d at least 1. heights: of each hierarchy, steps from a leaf to the root; 0 counts 0.
    """
    return np.asarray((levels / np.maximum(np.array(heights, dtype=np.float64), 1.0)).mean(axis=1))
