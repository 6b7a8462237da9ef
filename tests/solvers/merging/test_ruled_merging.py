"""Merging cohorts under rules for sensitive values: every group meets them, and where none can, a slow twin agrees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.merging.merging import MergeTask, merge_cohorts
from kanonflow.solvers.problem.errors import NotDiverseError, TableError
from kanonflow.solvers.problem.sensitive import Sensitive
from tests import naive_merging
from tests.naive_merging import greedily_merged, meets_rules, members, merge_task, merge_tasks, ruled_task
from tests.solvers.merging.test_merging import last_groups

pytestmark = pytest.mark.thorough

NONE = np.empty(0, dtype=np.int64)
RULES = {
    "distinct": [Sensitive(NONE, "distinct", 3)],
    "entropy": [Sensitive(NONE, "entropy", 2.4)],
    "frequency": [Sensitive(NONE, "frequency", 2)],
    "equal": [Sensitive(NONE, None, 1.0, "equal", 0.25)],
    "ordered": [Sensitive(NONE, None, 1.0, "ordered", 0.1)],
    "two fields": [Sensitive(NONE, "distinct", 2, "equal", 0.3), Sensitive(NONE, "frequency", 1.5)],
}
KINDS = st.sampled_from(sorted(RULES))


@settings(derandomize=True, max_examples=150)
@given(merge_tasks(most=14), KINDS, st.integers(0, 2**20), st.sampled_from([0, 40, 2000]), st.booleans())
def test_every_group_meets_the_rules_or_no_groups_do(
    task: MergeTask, kind: str, seed: int, evaluations: int, warm: bool
) -> None:
    """Whatever the search begins with. Where it cannot, neither can plain merging, nor all cohorts together."""
    task = replace(ruled_task(task, seed, RULES[kind]), evaluations=evaluations)
    task = replace(task, warm=last_groups(task, seed) if warm else None)
    slow = greedily_merged(task)
    assert (slow is None) != meets_rules(task, list(range(task.rows.size)))
    if slow is None:
        with pytest.raises(NotDiverseError):
            merge_cohorts(task)
        return
    found = merge_cohorts(task)
    assert naive_merging.feasible(task, found.labels)
    assert all(meets_rules(task, group) for group in members(found.labels))
    assert found.loss == pytest.approx(naive_merging.loss(task, found.labels), abs=1e-9)
    plain = merge_cohorts(replace(task, sensitive=(), of_row=None))
    if all(meets_rules(task, group) for group in members(plain.labels)):
        assert found == plain._replace(labels=found.labels)
        assert found.labels.tolist() == plain.labels.tolist()
    else:
        assert found.plain_loss == plain.loss


def test_groups_lose_less_than_where_each_takes_the_nearest_in() -> None:
    """Joined as the plain twin does, and parted again where that can be."""
    fast, slow = [], []
    for seed in range(12):
        task = ruled_task(merge_task(seed, 14, 3, evaluations=4000), seed, RULES["distinct"])
        groups = greedily_merged(task)
        if groups is not None:
            fast.append(merge_cohorts(task).loss)
            slow.append(sum(naive_merging.group_cost(task, group) for group in groups) / task.rows.sum())
    assert len(fast) > 8
    assert np.mean(fast) < 0.97 * np.mean(slow)


@settings(derandomize=True, max_examples=60)
@given(merge_tasks(most=30, evaluations=500), KINDS, st.integers(0, 2**20))
def test_who_of_a_cohort_has_which_row_is_not_seen(task: MergeTask, kind: str, seed: int) -> None:
    """Rows in another order, bit for bit the same answer: it follows from each cohort's values as a whole."""
    task = ruled_task(task, seed, RULES[kind])
    order = np.random.default_rng(seed).permutation(task.of_row.size)
    fields = tuple(replace(field, codes=field.codes[order]) for field in task.sensitive)
    other = replace(task, sensitive=fields, of_row=task.of_row[order])
    try:
        found = merge_cohorts(task)
    except NotDiverseError:
        with pytest.raises(NotDiverseError):
            merge_cohorts(other)
        return
    again = merge_cohorts(other)
    assert again.labels.tolist() == found.labels.tolist()
    assert again[1:] == found[1:]


def test_rules_need_the_cohort_of_each_row() -> None:
    """As many rows as each cohort has."""
    task = ruled_task(merge_task(1, 5, 2), 1, RULES["distinct"])
    with pytest.raises(TableError):
        replace(task, of_row=None)
    with pytest.raises(TableError):
        replace(task, of_row=task.of_row[1:])
