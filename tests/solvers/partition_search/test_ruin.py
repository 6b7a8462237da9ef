"""Ruin and recreate: few cohorts are grouped in the best way, and a search never loses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.solvers.merging.merging import MergeTask
from kanonflow.solvers.partition_search.group_loss import total_loss
from kanonflow.solvers.partition_search.groups import build_groups, in_order, ordered_loss
from kanonflow.solvers.partition_search.ruin import EXACT, best_pieces, build_ruin
from kanonflow.solvers.partition_search.search import search_partition
from kanonflow.solvers.search.rounds import Effort
from tests import naive_merging
from tests.naive_merging import merge_tasks
from tests.solvers.partition_search.test_cohort_moves import prepare
from tests.solvers.partition_search.test_groups import check

pytestmark = pytest.mark.thorough


@settings(derandomize=True, max_examples=40)
@given(merge_tasks(most=10), st.integers(0, 2**20))
def test_few_cohorts_are_grouped_in_the_best_way(task: MergeTask, seed: int) -> None:
    """Whole groups of up to EXACT cohorts: the cost is the least of all partitions, and that of the pieces."""
    people, groups, _, work = prepare(task, seed)
    chosen: list[int] = []
    for cohorts in naive_merging.members(groups.label):
        if len(chosen) + len(cohorts) <= EXACT:
            chosen += cohorts
    if not chosen:
        return
    ruin = build_ruin(people)
    ruin.units[: len(chosen)] = chosen
    ruin.held[0] = len(chosen)
    cost = best_pieces(people, groups, work, ruin)
    assert cost == pytest.approx(naive_merging.least_cost(task, sorted(chosen)), abs=1e-9)
    pieces = [
        [cohort for cohort, piece in zip(chosen, ruin.piece, strict=False) if piece == number]
        for number in set(ruin.piece[: len(chosen)].tolist())
    ]
    assert all(task.active[piece].sum() >= task.k for piece in pieces)
    assert sum(naive_merging.group_cost(task, piece) for piece in pieces) == pytest.approx(cost, abs=1e-9)


@settings(derandomize=True, max_examples=40)
@given(merge_tasks(most=30), st.integers(0, 2**20), st.sampled_from([1, 50, 3000]))
def test_a_search_ends_with_a_right_state(task: MergeTask, seed: int, evaluations: int) -> None:
    """Every field is that of the labels, no group lacks people, and the cost is not higher than it was."""
    people, groups, near, _ = prepare(task, seed)
    before = naive_merging.cost(task, groups.label)
    found = search_partition(people, groups, near.tour, near.nearest, Effort(evaluations, seed))
    check(task, groups)
    assert naive_merging.feasible(task, groups.label)
    assert naive_merging.cost(task, groups.label) <= before + 1e-9
    assert found.evaluations >= evaluations


@settings(derandomize=True, max_examples=40)
@given(merge_tasks(most=30), st.integers(0, 2**20), st.sampled_from([1, 50, 3000]))
def test_a_search_without_a_trace_is_the_same(task: MergeTask, seed: int, evaluations: int) -> None:
    """One round in the place of eight, and the loss is that of a state which is built anew for the groups."""
    people, groups, near, _ = prepare(task, seed)
    _, once, _, _ = prepare(task, seed)
    effort = Effort(evaluations, seed)
    found = search_partition(people, groups, near.tour, near.nearest, effort)
    quick = search_partition(people, once, near.tour, near.nearest, effort, traced=False)
    assert quick.groups.label.tolist() == found.groups.label.tolist()
    assert (quick.evaluations, quick.trace) == (found.evaluations, [])
    labels, loss = ordered_loss(people, once)
    assert labels.tolist() == in_order(once.label).tolist()
    assert loss == total_loss(people, build_groups(people, task.active, task.k, labels))
