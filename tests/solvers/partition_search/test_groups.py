"""The state of merging: hulls with and without a member are those of the corners."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.merging.merging import MergeTask
from kanonflow.solvers.partition_search.group_loss import move, refresh_group
from kanonflow.solvers.partition_search.groups import Groups, build_groups, in_order
from kanonflow.solvers.units.individuals import Individuals, gather_individuals
from tests import naive_merging
from tests.naive_merging import merge_tasks, random_labels
from tests.solvers.partition_search.test_class_state import loss_after

pytestmark = pytest.mark.thorough

arguments = given(merge_tasks(), st.integers(0, 2**20))


def state(task: MergeTask, seed: int) -> Groups:
    """Random feasible groups."""
    labels = in_order(random_labels(task, seed))
    return build_groups(cohorts_of(task), task.active, task.k, labels)


def cohorts_of(task: MergeTask) -> Individuals:
    """The cohorts as units."""
    return gather_individuals(task.table)._replace(rows=task.rows)


def check(task: MergeTask, groups: Groups) -> None:
    """Every field is that of the labels."""
    labels = groups.label
    here = np.unique(labels).tolist()
    free = groups.free[: groups.frees[0]].tolist()
    assert sorted(here + free) == list(range(groups.size.size))
    for number in here:
        cohorts = np.flatnonzero(labels == number).tolist()
        chain, unit = [], int(groups.head[number])
        while unit >= 0:
            chain.append(unit)
            unit = int(groups.after[unit])
        assert sorted(chain) == cohorts
        assert groups.size[number] == len(cohorts)
        assert groups.total[number].tolist() == [task.rows[cohorts].sum(), task.active[cohorts].sum()]
        assert groups.loss[number] == pytest.approx(naive_merging.group_cost(task, cohorts), abs=1e-9)
        for cohort in cohorts:
            others = [other for other in cohorts if other != cohort]
            rest = naive_merging.group_cost(task, others)
            if task.active[others].sum() >= task.k:
                found = loss_after(cohorts_of(task), groups, number, cohort, -1)
                assert found == pytest.approx(rest, abs=1e-9)


@settings(derandomize=True, max_examples=50)
@arguments
def test_costs_are_those_of_the_corners(task: MergeTask, seed: int) -> None:
    """Of each group, and of each group without each of its cohorts."""
    check(task, state(task, seed))


@settings(derandomize=True, max_examples=50)
@arguments
def test_moves_and_their_undoing_keep_the_state(task: MergeTask, seed: int) -> None:
    """After random moves into groups and into empty ones, and after all of them are taken back in reverse order."""
    groups = state(task, seed)
    people = cohorts_of(task)
    before, free = groups.label.copy(), groups.free[: groups.frees[0]].copy()
    rng = np.random.default_rng(seed)
    log = []
    for _ in range(8):
        unit = int(rng.integers(task.rows.size))
        targets = [number for number in np.unique(groups.label).tolist() if number != groups.label[unit]]
        if groups.frees[0]:
            targets.append(int(groups.free[groups.frees[0] - 1]))
        if not targets:
            continue
        log.append((unit, int(groups.label[unit])))
        move(people, groups, unit, int(rng.choice(targets)))
    for number in np.unique(groups.label).tolist():
        refresh_group(people, groups, number)
    if naive_merging.feasible(task, groups.label):
        check(task, groups)
    for unit, origin in reversed(log):
        move(people, groups, unit, origin)
    assert groups.label.tolist() == before.tolist()
    assert groups.free[: groups.frees[0]].tolist() == free.tolist()
    for number in np.unique(groups.label).tolist():
        refresh_group(people, groups, number)
    check(task, groups)


def test_groups_are_numbered_by_their_first_cohort() -> None:
    """Whatever their numbers were."""
    assert in_order(np.array([7, 2, 7, 0, 2, 9])).tolist() == [0, 1, 0, 2, 1, 3]
