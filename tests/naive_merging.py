"""Slow, obvious twins of merging cohorts: costs from the corners themselves, and the best groups by trying all."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import strategies as st

from kanonflow.solvers.merging.merging import MergeTask
from kanonflow.solvers.problem.sensitive import Sensitive
from tests import naive, naive_diversity
from tests.mixed_tables import mixed_table


def group_cost(task: MergeTask, cohorts: list[int]) -> float:
    """Rows of some cohorts x NCP of the box of all their corners."""
    corners = np.flatnonzero(np.isin(task.table.individuals, cohorts)).tolist()
    return int(task.rows[cohorts].sum()) * naive.box_loss(task.table, corners) if cohorts else 0.0


def members(labels) -> list[list[int]]:
    """The cohorts of each group."""
    return [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]


def cost(task: MergeTask, labels) -> float:
    """Sum of the costs of all groups."""
    return sum(group_cost(task, cohorts) for cohorts in members(labels))


def loss(task: MergeTask, labels) -> float:
    """Cost by rows."""
    return cost(task, labels) / int(task.rows.sum())


def feasible(task: MergeTask, labels) -> bool:
    """Whether every group has k active people."""
    return all(int(task.active[cohorts].sum()) >= task.k for cohorts in members(labels))


def least_cost(task: MergeTask, cohorts: list[int]) -> float:
    """The least cost of feasible groups of these cohorts: the first one's group is each subset in turn."""

    @cache
    def best(left: tuple[int, ...]) -> float:
        if not left:
            return 0.0
        first, others = left[0], left[1:]
        least = np.inf
        for choice in range(1 << len(others)):
            chosen = tuple(c for place, c in enumerate(others) if choice >> place & 1)
            if int(task.active[[first, *chosen]].sum()) >= task.k:
                rest = tuple(c for c in others if c not in chosen)
                least = min(least, price((first, *chosen)) + best(rest))
        return least

    @cache
    def price(cohorts: tuple[int, ...]) -> float:
        return group_cost(task, list(cohorts))

    return best(tuple(cohorts))


def random_labels(task: MergeTask, seed: int) -> np.ndarray:
    """Feasible groups drawn at random: cohorts in a random order, a group is closed when it may be."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(task.rows.size, dtype=np.int32)
    group, active = 0, 0
    for cohort in rng.permutation(task.rows.size):
        labels[cohort] = group
        active += int(task.active[cohort])
        if active >= task.k and rng.random() < 0.7:
            group, active = group + 1, 0
    if group and active < task.k:
        labels[labels == group] = group - 1
    return labels


def merge_task(
    seed: int,
    cohorts: int,
    k: int,
    *,
    corners: int = 3,
    numeric: int = 2,
    cardinality: tuple[int, ...] = (3, 70),
    kinds: int | None = None,
    trees: int = 0,
    evaluations: int | None = None,
) -> MergeTask:
    """A window of cohorts with 1 to ``corners`` corners each on a coarse grid, so that ties are common."""
    rng = np.random.default_rng(seed)
    count = rng.integers(1, corners + 1, cohorts)
    table = mixed_table(
        seed, int(count.sum()), numeric=numeric, cardinality=cardinality, kinds=kinds, trees=trees
    )
    who = rng.permutation(np.repeat(np.arange(cohorts), count))
    active = rng.integers(1, k + 1, cohorts)
    # The last one makes the window feasible, however few there are.
    active[-1] += max(0, k - int(active.sum()))
    rows = active + rng.integers(0, 9, cohorts)
    table = replace(table, individuals=who.astype(np.int64))
    return MergeTask(table, rows.astype(np.int64), active.astype(np.int64), k, seed, evaluations=evaluations)


@st.composite
def merge_tasks(
    draw: st.DrawFn, *, least: int = 2, most: int = 14, evaluations: int | None = None
) -> MergeTask:
    """Windows of any small number of cohorts: nulls, values of narrow and wide domains, hierarchies, ties."""
    numeric = draw(st.integers(0, 2))
    return merge_task(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(least, most)),
        draw(st.integers(1, 6)),
        corners=draw(st.integers(1, 4)),
        numeric=numeric,
        cardinality=draw(st.sampled_from([(3,), (3, 70), (2, 5, 64, 65), (1, 100, 130)])),
        kinds=draw(st.sampled_from([None, 4, 9])),
        trees=draw(st.integers(0, numeric)),
        evaluations=evaluations,
    )


def ruled_task(task: MergeTask, seed: int, fields: list[Sensitive]) -> MergeTask:
    """A window with rules: fields without codes, whose values are drawn at random, some cohorts having one alone."""
    rng = np.random.default_rng(seed)
    of_row = rng.permutation(np.repeat(np.arange(task.rows.size), task.rows))
    own = rng.integers(0, 3, task.rows.size)
    drawn = []
    for field in fields:
        codes = rng.choice(4, of_row.size, p=[0.5, 0.25, 0.15, 0.1])
        one = rng.random(task.rows.size) < 0.4
        drawn.append(replace(field, codes=np.where(one[of_row], own[of_row], codes)))
    return replace(task, sensitive=tuple(drawn), of_row=of_row)


def meets_rules(task: MergeTask, cohorts: list[int]) -> bool:
    """Whether a group of these cohorts meets every rule of its window, by lists and fractions."""
    rows = np.flatnonzero(np.isin(task.of_row, cohorts)).tolist()
    return naive_diversity.meets(rows, task.sensitive, range(task.of_row.size))


def greedily_merged(task: MergeTask) -> list[list[int]] | None:
    """Each cohort that lacks something takes the group that costs least in, one after the other; None: it cannot be."""
    groups = [[cohort] for cohort in range(task.rows.size)]

    def lacks(group: list[int]) -> bool:
        return int(task.active[group].sum()) < task.k or not meets_rules(task, group)

    while any(lacks(group) for group in groups):
        if len(groups) == 1:
            return None
        group = next(group for group in groups if lacks(group))
        others = [other for other in groups if other is not group]
        best = min(others, key=lambda other: group_cost(task, group + other) - group_cost(task, other))
        groups = [other for other in others if other is not best] + [sorted(group + best)]
    return groups
