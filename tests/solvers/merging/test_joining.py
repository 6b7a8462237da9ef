"""Groups that are not feasible always find somebody to join."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.merging.joining import join_infeasible
from kanonflow.solvers.merging.merging import MergeTask
from kanonflow.solvers.merging.near_cohorts import NEIGHBOURS, near_cohorts
from kanonflow.solvers.partition_search.groups import build_groups, in_order
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.units.individuals import gather_individuals
from tests import naive_merging
from tests.naive_merging import merge_task, merge_tasks
from tests.solvers.partition_search.test_groups import check, cohorts_of

pytestmark = pytest.mark.thorough


def joined(task: MergeTask, labels: np.ndarray):
    """The state after joining what is not feasible."""
    people = cohorts_of(task)
    groups = build_groups(people, task.active, task.k, in_order(labels))
    join_infeasible(people, groups, near_cohorts(task.table, people)[0])
    return groups


@settings(derandomize=True, max_examples=50)
@given(merge_tasks(most=30), st.integers(0, 2**20), st.integers(1, 30))
def test_whatever_groups_are_joined_end_feasible(task: MergeTask, seed: int, count: int) -> None:
    """From any groups; none is torn apart, and the state is right."""
    labels = np.random.default_rng(seed).integers(0, count, task.rows.size)
    groups = joined(task, labels)
    assert naive_merging.feasible(task, groups.label)
    for cohorts in naive_merging.members(labels):
        assert np.unique(groups.label[cohorts]).size == 1
    check(task, groups)


@settings(derandomize=True, max_examples=30)
@given(st.integers(0, 2**20), st.integers(3, 14))
def test_the_cheapest_join_comes_first(seed: int, cohorts: int) -> None:
    """Where one cohort is not feasible it joins where the cost grows least, of all groups."""
    task = merge_task(seed, cohorts, 5)
    task = replace(task, active=np.where(np.arange(cohorts) == seed % cohorts, 4, 5), rows=task.rows + 5)
    before = naive_merging.cost(task, np.arange(cohorts))
    growths = []
    for other in range(cohorts):
        labels = np.arange(cohorts)
        labels[seed % cohorts] = other
        if other != seed % cohorts:
            growths.append(naive_merging.cost(task, labels) - before)
    after = naive_merging.cost(task, joined(task, np.arange(cohorts)).label)
    assert after - before == pytest.approx(min(growths), abs=1e-9)


def far_crowds(crowds: int, each: int, k: int) -> MergeTask:
    """Crowds of equal cohorts far from each other, one active person a cohort."""
    c = crowds * each
    table = Table(
        numeric=np.repeat(np.arange(crowds) / max(crowds - 1, 1), each)[:, None],
        categorical=np.empty((c, 0), dtype=np.int32),
        cardinality=np.empty(0, dtype=np.int64),
        weights=np.ones(1),
        individuals=np.arange(c),
    )
    ones = np.ones(c, dtype=np.int64)
    return MergeTask(table, ones, ones, k, 1)


@pytest.mark.parametrize(("crowds", "each", "k"), [(2, 30, 60), (3, 20, 25), (5, NEIGHBOURS + 1, 40)])
def test_lists_that_are_exhausted_do_not_stop_a_group(crowds: int, each: int, k: int) -> None:
    """All lists name cohorts of the own crowd only, which is too small to be feasible."""
    task = far_crowds(crowds, each, k)
    near, _ = near_cohorts(task.table, gather_individuals(task.table))
    crowd = np.arange(crowds * each) // each
    assert np.array_equal(crowd[near.nearest], np.repeat(crowd[:, None], NEIGHBOURS, axis=1))
    assert naive_merging.feasible(task, joined(task, np.arange(crowds * each)).label)


def test_equal_boxes_are_not_all_one_group() -> None:
    """Joins cost nothing: each group stops growing when it is feasible, but for the last ones to be placed."""
    groups = joined(far_crowds(1, 200, 4), np.arange(200))
    sizes = np.bincount(groups.label)
    assert sizes.max() < 2 * 4
