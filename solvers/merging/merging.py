"""Merging cohorts for a window: a partition of the cohorts here into groups of k active people, at little loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.merging.joining import join_infeasible
from kanonflow.solvers.merging.near_cohorts import NearCohorts, near_cohorts
from kanonflow.solvers.merging.value_descent import descend_under_rules
from kanonflow.solvers.partition_search.diversity import check_eligible, failing_classes
from kanonflow.solvers.partition_search.group_loss import total_loss
from kanonflow.solvers.partition_search.groups import Groups, build_groups, in_order, ordered_loss
from kanonflow.solvers.partition_search.rules import ValueRules, build_rules
from kanonflow.solvers.partition_search.search import search_partition
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError, TableError
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.search.rounds import Effort
from kanonflow.solvers.units.individuals import Individuals, gather_individuals
from kanonflow.solvers.units.numbering import numbered

# One evaluation costs 100 ns with all around it, the start 2 us a row. Sparkov's days, k = 5, loss and CPU us a row:
# .0772 greedy, .0667 at 20 (5 us), .0663 at 50 (8), .0662 at 100 (12), .0660 at 200 (22), .0658 at 800 (75). Its weeks,
# which have nine times the rows: .0652 greedy, .0583 at 5, .0581 at 20, .0580 at 50; complete_journey's weeks: .1367
# greedy, .0996 at 50, .0972 at 200.
EVALUATIONS_PER_ROW = 50


@dataclass(frozen=True)
class MergeTask:
    """What is to be merged: c cohorts with rows in this window.

    table: n >= c rows, the corners of the cohorts' frozen boxes; ``table.individuals`` int64 (n,) is the cohort of each
    row, and every one of 0 .. c-1 has one at least. rows: int64 (c,), of each cohort in this window, >= 1.
    active: int64 (c,), different people among them, 1 .. rows. k: active people that a group needs.
    seed: of the search. evaluations: of the search; None for the default, 0 for the start itself.
    warm: int64 (c,), the last window's group of each cohort, any non-negative numbers; -1: it was not there.
    sensitive: fields of the r rows of the window, whose rules every group has to meet. of_row: int64 (r,), the cohort
    of each of them; None: there are no such fields.

    Raises TableError when shapes or numbers do not fit, BudgetError for a negative budget or k below 1.
    """

    table: Table
    rows: NDArray[np.int64]
    active: NDArray[np.int64]
    k: int
    seed: int
    evaluations: int | None = None
    warm: NDArray[np.int64] | None = None
    sensitive: Sequence[Sensitive] = ()
    of_row: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        who = self.table.individuals
        c = self.rows.size
        if who is None or not _each_there(who, c):
            raise TableError("the corners must name each cohort from 0 on, and rows each cohort once")
        if self.rows.shape != (c,) or self.active.shape != (c,):
            raise TableError("rows and active need one entry a cohort")
        if np.any(self.active < 1) or np.any(self.active > self.rows):
            raise TableError("each cohort needs active people, and no more of them than rows")
        if self.warm is not None and self.warm.shape != (c,):
            raise TableError("warm needs one entry a cohort")
        if self.sensitive and (
            self.of_row is None or not np.array_equal(np.bincount(self.of_row, minlength=c), self.rows)
        ):
            raise TableError("rules for sensitive values need the cohort of each row")
        if self.k < 1:
            raise BudgetError("k must be 1 or more")
        if self.evaluations is not None and self.evaluations < 0:
            raise BudgetError("evaluations must be 0 or more")


def _each_there(codes: NDArray[np.int64], count: int) -> bool:
    """Whether codes are ``0 .. count - 1``, each of them at least once."""
    if codes.size == 0 or codes.min() < 0 or codes.max() >= count:
        return codes.size == count == 0
    return bool(np.bincount(codes, minlength=count).all())


class Merged(NamedTuple):
    """An answer, and how it was found.

    labels: int32 (c,), groups 0 .. g-1, numbered by their first cohort. loss: of them. start: what the search began
    with, "greedy" or "warm". greedy_loss, warm_loss: of both starts, None without a last window.
    warm_kept: of the groups that the search began with, the share that are groups of the last window; 0 where the
    greedy ones won, None without a last window.
    groups_kept: groups of the answer that are a group of the last window, restricted to the cohorts that are here.
    lower_bound: no groups of these cohorts lose less: each by itself, without a floor.
    plain_loss: of the groups as they were before the rules for sensitive values were looked at; None: all met them.
    groups_merged: groups of more than one cohort. evaluations: hulls that were priced, for the starts too.
    """

    labels: NDArray[np.int32]
    loss: float
    lower_bound: float
    start: str
    greedy_loss: float
    warm_loss: float | None
    warm_kept: float | None
    groups_kept: int
    groups_merged: int
    evaluations: int
    plain_loss: float | None = None


def _state(task: MergeTask, people: Individuals, labels: NDArray[np.integer[Any]]) -> Groups:
    """labels: (c,), any numbers."""
    return build_groups(people, task.active.astype(np.int64), task.k, in_order(labels))


def _cohorts(task: MergeTask) -> Individuals:
    """The cohorts as units: their boxes, and their rows here."""
    return gather_individuals(task.table)._replace(rows=task.rows.astype(np.int64))


def merge_loss(task: MergeTask, labels: NDArray[np.integer[Any]]) -> float:
    """Loss of groups: sum of (rows of a group x NCP of the hull of its boxes) / rows, float in [0, 1]. O(n d).

    labels: (c,), any whole numbers. Whether groups have k active people or not.
    """
    people = _cohorts(task)
    return total_loss(people, _state(replace(task, k=1), people, labels))


def _groups_kept(labels: NDArray[np.int32], warm: NDArray[np.int64] | None) -> int:
    """Groups of ``labels`` that are, as sets, the cohorts that one number of ``warm`` has."""
    if warm is None:
        return 0
    # Such a group has as many cohorts as the number of its first one, and all of them have that number.
    ours, theirs = numbered(labels), numbered(warm)
    one = theirs.number[ours.first]
    as_many = (theirs.counts[one] == ours.counts) & (warm[ours.first] >= 0)
    as_many[ours.number[theirs.number != one[ours.number]]] = False
    return int(np.count_nonzero(as_many))


class _Start(NamedTuple):
    """Feasible groups: their labels as ``Merged`` has them, their loss, evaluations.

    groups: a state of them, as it is built for the labels where nothing was evaluated.
    """

    groups: Groups
    labels: NDArray[np.int32]
    loss: float
    evaluations: int


def _joined(people: Individuals, near: NearCohorts, groups: Groups) -> _Start:
    """The groups of a state, those that are not feasible joined."""
    evaluations = join_infeasible(people, groups, near)
    return _Start(groups, *ordered_loss(people, groups), evaluations)


def _last_groups(task: MergeTask, warm: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last window's groups of the cohorts here, int64 (c,); new cohorts are groups by themselves.

    Feasible cohorts leave a group that is feasible without them, which never costs more, those of lesser number first.
    """
    fresh = int(warm.max(initial=0)) + 1
    everybody = np.arange(warm.size)
    labels = np.where(warm >= 0, warm, fresh + everybody)
    group = numbered(labels).number
    left = np.bincount(group, weights=task.active).astype(np.int64)
    for cohort in np.flatnonzero(task.active >= task.k).tolist():
        rest = left[group[cohort]] - task.active[cohort]
        if rest >= task.k:
            left[group[cohort]] = rest
            labels[cohort] = fresh + cohort
    return labels


def _alone(task: MergeTask, people: Individuals) -> Merged:
    """One cohort is one group: there is nobody near it to look for."""
    labels = np.zeros(1, dtype=np.int32)
    loss = total_loss(people, _state(task, people, labels))
    warm = task.warm is not None and bool(task.warm[0] >= 0)
    return Merged(
        labels,
        loss,
        loss,
        start="warm" if warm else "greedy",
        greedy_loss=loss,
        warm_loss=loss if task.warm is not None else None,
        warm_kept=float(warm) if task.warm is not None else None,
        groups_kept=int(warm),
        groups_merged=0,
        evaluations=0,
    )


def merge_cohorts(task: MergeTask) -> Merged:
    """Groups of at least k active people each, that hold every cohort once.

    Begins with greedy groups or with the last window's as far as they are feasible here, whichever lose less, at ties
    with the latter if any of them is left.

    Postcondition: a function of the boxes, rows, active, k, warm, seed and evaluations alone; never of the order of the
    corners, of a clock or of the machine. Why: what is decided in a window may depend on a cohort's rows as a whole
    only, or exchanging the rows of two of its people would show.

    Rules for sensitive values are looked at last: groups that break one are joined on until none does, and then part
    again as far as they can (``value_descent``). Where all meet them, the answer is the one without rules.

    Raises InfeasibleError when all cohorts together have fewer than k active people, NotDiverseError when they do not
    meet the rules together: then no groups of all of them do. Near linear in c, and in the rows under rules.
    """
    c = task.rows.size
    if task.active.sum() < task.k:
        raise InfeasibleError("all cohorts together have fewer than k active people")
    check_eligible(task.sensitive)
    people = _cohorts(task)
    if c == 1:
        return _alone(task, people)
    near, evaluations = near_cohorts(task.table, people)
    # Each by itself, without a floor. What is kept of them for the floor is worked out by joining.
    single = build_groups(people, task.active.astype(np.int64), 1, np.arange(c, dtype=np.int32))
    lower_bound = total_loss(people, single)
    single.k[0] = task.k
    greedy = begun = _joined(people, near, single)
    evaluations += greedy.evaluations
    warm, kept = None, 0.0
    if task.warm is not None:
        warm = _joined(people, near, _state(task, people, _last_groups(task, task.warm)))
        evaluations += warm.evaluations
        whole = _groups_kept(warm.labels, task.warm) / (int(warm.labels.max()) + 1)
        if warm.loss < greedy.loss or (warm.loss == greedy.loss and whole):
            begun, kept = warm, whole
    labels, loss = begun.labels, begun.loss
    limit = task.evaluations
    if limit is None:
        limit = EVALUATIONS_PER_ROW * int(task.rows.sum())
    if limit > 0:
        # Afresh where groups were joined: the order of members and the numbers of groups steer the search.
        groups = _state(task, people, labels) if begun.evaluations else begun.groups
        effort = Effort(limit, task.seed)
        search = search_partition(people, groups, near.tour, near.nearest, effort, traced=False)
        evaluations += search.evaluations
        answer, answer_loss = ordered_loss(people, groups)
        # Gains are sums of differences: the last digits of a search that found nothing could show a rise.
        if answer_loss < loss:
            labels, loss = answer, answer_loss
    plain = None
    if (mended := _mended(task, people, near, labels, limit)) is not None:
        plain, labels, loss = loss, mended.labels, mended.loss
        evaluations += mended.evaluations
    return Merged(
        labels=labels,
        loss=loss,
        lower_bound=lower_bound,
        start="warm" if begun is warm else "greedy",
        greedy_loss=greedy.loss,
        warm_loss=None if warm is None else warm.loss,
        warm_kept=None if warm is None else kept,
        groups_kept=_groups_kept(labels, task.warm),
        groups_merged=int((np.bincount(labels) > 1).sum()),
        evaluations=evaluations,
        plain_loss=plain,
    )


def _rules(task: MergeTask, people: Individuals) -> ValueRules | None:
    """The rules over the rows of cohorts, each one's in the order of their values: who has which is not seen."""
    if task.of_row is None or not task.sensitive:
        return None
    values = np.stack([field.codes for field in task.sensitive])
    order = np.unique(values, axis=1, return_inverse=True)[1].reshape(-1)
    return build_rules(people._replace(of_row=task.of_row), task.sensitive, order, people.rows.size, 0)


def _mended(
    task: MergeTask, people: Individuals, near: NearCohorts, labels: NDArray[np.int32], limit: int
) -> _Start | None:
    """Groups that meet the rules, made of groups that need not; None: they meet them. limit: evaluations at most.

    Of those groups and of single cohorts, whichever comes to less.
    """
    rules = _rules(task, people)
    if rules is None or not failing_classes(labels[task.of_row], task.sensitive).any():
        return None
    answers = []
    for begun in (labels, np.arange(labels.size)):
        groups = _state(task, people, begun)
        evaluations = join_infeasible(people, groups, near, rules)
        # Afresh, as before the search.
        groups = _state(task, people, groups.label)
        evaluations += descend_under_rules(people, groups, near, rules, limit)
        answers.append(_Start(groups, *ordered_loss(people, groups), evaluations))
    best = min(answers, key=lambda each: each.loss)
    return best._replace(evaluations=sum(each.evaluations for each in answers))
