"""Moves of cohorts: gains are true, none that is better is left out, groups stay feasible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.merging.merging import MergeTask
from kanonflow.solvers.merging.near_cohorts import NearCohorts, near_cohorts
from kanonflow.solvers.partition_search.groups import Groups, build_groups, in_order
from kanonflow.solvers.partition_search.moves import best_move, descend, make_move
from kanonflow.solvers.search.workspace import Workspace, build_workspace, push
from kanonflow.solvers.units.individuals import Individuals
from tests import naive_merging
from tests.naive_merging import merge_tasks, random_labels
from tests.solvers.partition_search.test_groups import cohorts_of

pytestmark = pytest.mark.thorough

arguments = given(merge_tasks(), st.integers(0, 2**20))


class Search(NamedTuple):
    """Random feasible groups, and what their search needs."""

    people: Individuals
    groups: Groups
    near: NearCohorts
    work: Workspace


def prepare(task: MergeTask, seed: int) -> Search:
    """The state before a search."""
    people = cohorts_of(task)
    c = task.rows.size
    labels = in_order(random_labels(task, seed))
    groups = build_groups(people, task.active, task.k, labels)
    work = build_workspace(c, groups.size.size, seed, log=512)
    return Search(people, groups, near_cohorts(task.table, people)[0], work)


@settings(derandomize=True, max_examples=40)
@arguments
def test_a_move_gains_what_it_says(task: MergeTask, seed: int) -> None:
    """The cost falls by the gain, and every group is feasible afterwards."""
    people, groups, near, work = prepare(task, seed)
    for unit in range(task.rows.size):
        before = naive_merging.cost(task, groups.label)
        gain = best_move(people, groups, near.nearest, work, unit)
        assert gain >= 0
        if gain > 0:
            work.logged[0] = 0
            make_move(people, groups, work, unit)
            assert before - naive_merging.cost(task, groups.label) == pytest.approx(gain, abs=1e-9)
            assert naive_merging.feasible(task, groups.label)


@settings(derandomize=True, max_examples=40)
@arguments
def test_no_better_move_is_left_out(task: MergeTask, seed: int) -> None:
    """All shifts, swaps, leaving alone and in pairs, tried afresh; in so small a window every cohort is near."""
    people, groups, near, work = prepare(task, seed)
    unit = seed % task.rows.size
    labels = groups.label.copy()
    home, fresh = labels[unit], labels.max() + 1
    changed = []
    for other in range(task.rows.size):
        if labels[other] != home:
            changed += [{unit: labels[other]}, {unit: labels[other], other: home}]
            changed.append({unit: fresh, other: fresh})
    changed.append({unit: fresh})
    before = naive_merging.cost(task, labels)
    best = 0.0
    for change in changed:
        after = labels.copy()
        after[list(change)] = list(change.values())
        if naive_merging.feasible(task, after):
            best = max(best, before - naive_merging.cost(task, after))
    assert best_move(people, groups, near.nearest, work, unit) == pytest.approx(best, abs=1e-9)


@settings(derandomize=True, max_examples=40)
@arguments
def test_a_descent_lowers_the_cost_by_what_it_says(task: MergeTask, seed: int) -> None:
    """And ends where no cohort has a move that gains."""
    people, groups, near, work = prepare(task, seed)
    before = naive_merging.cost(task, groups.label)
    for unit in range(task.rows.size):
        push(work, unit)
    change = descend(people, groups, near.nearest, work, 2**40)
    assert change <= 0
    assert naive_merging.cost(task, groups.label) - before == pytest.approx(change, abs=1e-9)
    assert naive_merging.feasible(task, groups.label)
    gains = [best_move(people, groups, near.nearest, work, unit) for unit in range(task.rows.size)]
    assert np.all(np.array(gains) == 0)
