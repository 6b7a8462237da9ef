"""The state of the class search agrees with classes computed afresh."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kanonflow.solvers.partition_search.group_loss import changed_loss, move, refresh_group, total_loss
from kanonflow.solvers.partition_search.group_loss import members as members_in
from kanonflow.solvers.partition_search.groups import WAITING, Groups, build_classes
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.individuals import Individuals, gather_individuals
from tests import naive
from tests.mixed_tables import tables

pytestmark = pytest.mark.thorough

arguments = given(
    tables(trees=True, individuals=True, k=3, least=9, most=24), st.integers(2, 3), st.integers(0, 2**20)
)


@numba.njit
def loss_after(people, groups, number, out, unit):  # type: ignore[no-untyped-def]
    """``changed_loss`` as a kernel calls it."""
    return changed_loss(people, groups, np.int64(number), np.int64(out), np.int64(unit))


def build(table: Table, k: int, seed: int) -> tuple[Individuals, Groups, NDArray[np.int32]]:
    """Individuals in random classes, some in the pool."""
    people = gather_individuals(table)
    u = people.rows.size
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, max(u // k, 1), u).astype(np.int32)
    sizes = np.bincount(labels[labels >= 0], minlength=1)
    labels[np.isin(labels, np.flatnonzero(sizes > 3 * k - 1))] = -1
    return people, build_classes(people, labels, k), labels


def members_of(table: Table, labels: NDArray[np.int32], label: int) -> list[int]:
    """Values of ``Table.individuals`` in a class."""
    return np.unique(table.individuals)[labels == label].tolist()


@settings(derandomize=True, max_examples=60)
@arguments
def test_losses_are_those_of_the_classes(table: Table, k: int, seed: int) -> None:
    """Each class costs what its members' rows cost, the pool all of its rows; the total is their mean.

    A row that waits costs ``WAITING``.
    """
    people, classes, labels = build(table, k, seed)
    total = float(people.rows[labels < 0].sum()) * WAITING
    for label in range(classes.size.size):
        loss = naive.class_loss(table, members_of(table, labels, label), k, WAITING)
        assert classes.loss[label] == pytest.approx(loss, abs=1e-9)
        total += loss
    assert total_loss(people, classes) == pytest.approx(total / table.records, abs=1e-9)


@settings(derandomize=True, max_examples=60)
@arguments
def test_changed_loss_is_that_of_the_changed_class(table: Table, k: int, seed: int) -> None:
    """Anybody or nobody out, anybody from elsewhere or nobody in."""
    people, classes, labels = build(table, k, seed)
    numbers = np.unique(table.individuals).tolist()
    for label in range(classes.size.size):
        if classes.size[label] == 0:
            continue
        members = members_in(classes, np.int64(label)).tolist()
        assert sorted(numbers[unit] for unit in members) == members_of(table, labels, label)
        for out in (-1, *members):
            stay = [unit for unit in members if unit != out]
            for unit in [-1, *(int(x) for x in np.flatnonzero(labels != label)[:6])]:
                after = [numbers[member] for member in [*stay, *([unit] if unit >= 0 else [])]]
                found = loss_after(people, classes, label, out, unit)
                assert found == pytest.approx(naive.class_loss(table, after, k, WAITING), abs=1e-9)


@settings(derandomize=True, max_examples=40)
@arguments
def test_moves_keep_the_state_whole(table: Table, k: int, seed: int) -> None:
    """After random moves and refreshing what changed, the state is that of the labels."""
    people, classes, _ = build(table, k, seed)
    rng = np.random.default_rng(seed)
    for _ in range(12):
        unit, target = int(rng.integers(people.rows.size)), int(rng.integers(-1, classes.size.size))
        if target >= 0 and classes.size[target] == 0:
            # An empty one is the top of the stack.
            target = int(classes.free[classes.frees[0] - 1])
        source = int(classes.label[unit])
        if source == target or (target >= 0 and classes.size[target] >= 3 * k):
            continue
        move(people, classes, unit, target)
        for number in (source, target):
            if number >= 0:
                refresh_group(people, classes, number)
    fresh = build_classes(people, classes.label, k)
    used = classes.size > 0
    assert np.allclose(classes.loss[used], fresh.loss[: used.size][used], atol=1e-9)
    assert (
        classes.size.tolist()
        == np.bincount(classes.label[classes.label >= 0], minlength=classes.size.size).tolist()
    )
    for unit, label in enumerate(classes.label.tolist()):
        if label >= 0:
            assert unit in members_in(classes, np.int64(label)).tolist()
