"""Measures of classes on an example that was computed by hand, and their relations."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.solvers.loss.class_measures import (
    average_class_size,
    class_sizes,
    classification_accuracy,
    classification_metric,
    discernibility,
    general_total_loss,
    graph_classification_metric,
    level_of_generalization,
)
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.structures.partition import Partition

# Ages 20..60 scaled; three values of a categorical attribute whose tree is root -> {0, 1} and 2, of height 2.
TABLE = Table(
    numeric=np.array([[0.0], [0.25], [0.5], [0.5], [1.0], [0.75], [0.1]]),
    categorical=np.array([[0], [1], [2], [2], [0], [2], [1]], dtype=np.int32),
    cardinality=np.array([3]),
    weights=np.ones(2),
)
# {0, 1}: width 1/4, codes {0, 1}; {2, 3}: nothing; {4, 5}: width 1/4, codes {0, 2}; row 6 waits.
CLASSES = Partition(np.array([0, 0, 1, 1, 2, 2, -1], dtype=np.int32))
INCOME = np.array([1, 1, 0, 1, 0, 1, 1])


def tree_height(codes: np.ndarray) -> float:
    """Share of the height 2 at which codes meet: 0 and 1 below the root."""
    return 0.0 if codes.size == 1 else 0.5 if set(codes.tolist()) == {0, 1} else 1.0


def test_general_total_loss_by_hand() -> None:
    """100 / 14 (2 (1/4 + 1/2) + 0 + 2 (1/4 + 1) + 2 for the row that waits); flat: the first class's 1/2 is 1."""
    assert general_total_loss(TABLE, CLASSES, [tree_height]) == pytest.approx(100 / 14 * (1.5 + 2.5 + 2))
    assert general_total_loss(TABLE, CLASSES) == pytest.approx(100 / 14 * (2.5 + 2.5 + 2))


def test_general_total_loss_of_numbers_alone_is_gcp() -> None:
    """Numeric attributes of equal weight: both are the mean width."""
    rng = np.random.default_rng(3)
    table = Table(rng.random((12, 3)), np.empty((12, 0), np.int32), np.empty(0, np.int64), np.ones(3))
    classes = Partition(np.arange(12, dtype=np.int32) // 4)
    assert general_total_loss(table, classes) == pytest.approx(100 * gcp(table, classes))


def test_classification_metric_by_hand() -> None:
    """No error in {1, 1}, one in each tie {0, 1}, one for the row that waits: 3 of 7."""
    assert classification_metric(CLASSES, INCOME) == pytest.approx(3 / 7)


def test_sizes_by_hand() -> None:
    """Three classes of 2 rows: C_AVG 1 at k = 2, CA 0 at k = 3; DM 3 x 4 and 7 for the row that waits."""
    sizes = class_sizes(CLASSES)
    assert sizes.tolist() == [2, 2, 2]
    assert average_class_size(sizes, 2) == 1.0
    assert classification_accuracy(sizes, 2) == 1.0
    assert classification_accuracy(sizes, 3) == 0.0
    assert discernibility(sizes, 1) == 12 + 7
    mixed = class_sizes(Partition(np.array([0, 0, 0, 1], dtype=np.int32)))
    assert classification_accuracy(mixed, 2) == 0.5
    assert average_class_size(mixed, 2) == 1.0
    assert discernibility(mixed, 0) == 10


def test_nothing_released() -> None:
    """Everybody waits: every measure is at its end, none divides by zero."""
    nobody = Partition(np.full(7, -1, dtype=np.int32))
    assert general_total_loss(TABLE, nobody) == pytest.approx(100.0)
    assert classification_metric(nobody, INCOME) == 1.0
    sizes = class_sizes(nobody)
    assert (average_class_size(sizes, 2), classification_accuracy(sizes, 2)) == (0.0, 1.0)
    assert discernibility(sizes, 7) == 49


def test_the_metric_of_a_graph_is_that_of_classes_where_slots_are_classes() -> None:
    """Slots {0, 1}, {0, 1}, {2, 3}, {2, 3}: an error in each of the two last slots' four edges."""
    members = np.array([[0, 1], [1, 0], [2, 3], [3, 2]], dtype=np.int32)
    classes = Partition(np.array([0, 0, 1, 1], dtype=np.int32))
    assert graph_classification_metric(members, INCOME[:4]) == 0.25
    assert classification_metric(classes, INCOME[:4]) == 0.25


def test_levels_of_the_papers_example() -> None:
    """S1, 2.4: heights 3, 4 and 1; one step of the first is .11, one of the last .33."""
    nodes = np.array([(1, 0, 0), (0, 0, 1), (3, 4, 1), (0, 0, 0)], dtype=np.int32)
    assert level_of_generalization(nodes, (3, 4, 1)).round(2).tolist() == [0.11, 0.33, 1.0, 0.0]
    assert level_of_generalization(nodes[:, :1] * 0, (0,)).tolist() == [0.0] * 4
