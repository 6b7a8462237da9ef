"""Which classes are held, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.budget import Budget
from kanonflow.solvers.loss.ncp import class_ncp, gcp
from kanonflow.solvers.partition import Partition
from kanonflow.solvers.solve import solve
from kanonflow.solvers.table import Table
from kanonflow.transforms.selective_holding import hold_worst
from tests.mixed_tables import mixed_table

K = 3


def people_table(seed: int, people: int = 24) -> Table:
    """A mixed table of people with one to three rows."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rng.integers(1, 4, people))
    return replace(mixed_table(seed, who.size), individuals=who)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), share=st.floats(0.05, 0.5), free=st.floats(0.3, 1.0))
def test_whole_classes_wait_the_worst_first(seed: int, share: float, free: float) -> None:
    """Within the share, none that has a row that may not wait, none better than the mean; the rest stays."""
    table = people_table(seed)
    solution = solve(table, K, shape="classes", seed=1, budget=Budget(5))
    may_wait = np.random.default_rng(seed).random(table.records) < free
    held = hold_worst(solution, table, share, may_wait)
    before, after = solution.partition, held.solution.partition
    assert table.individuals is not None
    after.check(K, table.individuals)
    assert held.by_choice.sum() <= share * table.records
    assert may_wait[held.by_choice].all()
    gone = (before.labels >= 0) & (after.labels < 0)
    assert not gone[~held.by_choice].any()
    loss = class_ncp(table, before)
    for label in range(before.classes):
        members = before.labels == label
        assert gone[members].all() or not gone[members].any()
        people = np.isin(table.individuals, table.individuals[members])
        assert held.by_choice[people].all() == gone[members].all()
        if not gone[members].any():
            assert np.unique(after.labels[members]).size == 1
    mean = gcp(table, before)
    assert all(loss[label] > mean for label in np.unique(before.labels[gone]))


def test_the_loss_of_classes_adds_up() -> None:
    """Weighted by rows, the classes' NCP is the GCP."""
    table = people_table(4)
    partition = solve(table, K, shape="classes", seed=1, budget=Budget(5)).partition
    rows = np.bincount(partition.labels[partition.labels >= 0])
    assert np.average(class_ncp(table, partition), weights=rows) == pytest.approx(gcp(table, partition))


def test_the_worst_class_is_the_one_that_waits() -> None:
    """Two narrow classes and a wide one; with a row of it that may not wait, nobody waits."""
    value = np.array([0, 0, 0.1, 0.5, 0.5, 0.5, 0.2, 0.9, 1.0])
    table = Table(value[:, None], np.empty((9, 0), np.int32), np.empty(0, np.int64), np.ones(1))
    solution = solve(table, K, shape="classes", seed=1, start="one-class", budget=Budget(0.1))
    solution = replace(solution, structure=Partition(np.repeat([0, 1, 2], 3).astype(np.int32)))
    free = np.ones(9, dtype=np.bool_)
    held = hold_worst(solution, table, 0.4, free)
    assert held.by_choice.tolist() == [False] * 6 + [True] * 3
    assert held.solution.partition.labels.tolist() == [0] * 3 + [1] * 3 + [-1] * 3
    assert not hold_worst(solution, table, 0.3, free).by_choice.any()
    free[7] = False
    assert not hold_worst(solution, table, 0.4, free).by_choice.any()
