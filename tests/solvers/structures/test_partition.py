"""What closed classes must be: each invariant has a planted fault."""

from __future__ import annotations

import numpy as np
import pytest

from kanonflow.solvers.problem.errors import StructureError
from kanonflow.solvers.structures.partition import Partition


def partition(*labels: int) -> Partition:
    """A partition with these labels."""
    return Partition(np.array(labels, dtype=np.int32))


def people(*numbers: int) -> np.ndarray:
    """Individuals of the records."""
    return np.array(numbers, dtype=np.int64)


def test_classes_of_k_individuals_pass() -> None:
    """Two classes of two, one with two rows each, one row waiting."""
    closed = partition(0, 0, 0, 0, 1, 1, -1)
    assert closed.classes == 2
    closed.check(2, people(7, 7, 8, 8, 9, 5, 9))


def test_several_row_counts_pass_when_k_share_each() -> None:
    """Counts 2 and 1 in one class, each shared by two."""
    partition(0, 0, 0, 0, 0, 0).check(2, people(1, 1, 2, 2, 3, 4))


def test_nothing_released_passes() -> None:
    """Everybody waits, or there is nobody."""
    partition(-1, -1).check(5, people(1, 2))
    partition().check(5, people())
    assert partition().classes == 0


def test_a_small_class_is_found() -> None:
    """A class of fewer than k individuals, though it has k rows."""
    with pytest.raises(StructureError, match="fewer than k=2"):
        partition(0, 0, 1, 1).check(2, people(1, 2, 3, 3))


def test_a_row_count_of_its_own_is_found() -> None:
    """Three individuals, of whom one has more rows than the others."""
    with pytest.raises(StructureError, match="fewer than k=2"):
        partition(0, 0, 0, 0).check(2, people(1, 1, 2, 3))


def test_waiting_rows_do_not_count() -> None:
    """The extra row of the same individual waits, and the class may be released."""
    partition(0, -1, 0, 0).check(2, people(1, 1, 2, 3))


def test_an_individual_in_two_classes_is_found() -> None:
    """All rows of an individual stand in one class."""
    with pytest.raises(StructureError, match="two classes"):
        partition(0, 0, 1, 1, 1).check(2, people(1, 2, 1, 3, 4))


def test_a_class_without_records_is_found() -> None:
    """Labels are 0 .. classes - 1 without a gap."""
    with pytest.raises(StructureError, match="no record"):
        partition(0, 0, 2, 2).check(2, people(1, 2, 3, 4))


def test_labels_below_minus_one_wait() -> None:
    """Only labels from 0 on name a class."""
    partition(0, 0, -1).check(2, people(1, 2, 3))
