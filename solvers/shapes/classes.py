"""From a table to closed classes of individuals: hulls, start, search, row counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bounds.nearest_neighbour import neighbour_bound
from kanonflow.solvers.partition_search.diversity import check_eligible, diverse_row_counts
from kanonflow.solvers.partition_search.group_loss import POOL, ClassLoss, total_loss
from kanonflow.solvers.partition_search.groups import NcpLoss
from kanonflow.solvers.partition_search.rules import ValueRules, build_rules, part_of_rules
from kanonflow.solvers.partition_search.search import Found, search_partition
from kanonflow.solvers.partition_search.sil_groups import sil_loss
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.registered import registered, unknown_start
from kanonflow.solvers.search.rounds import Effort
from kanonflow.solvers.search.sil_slots import weighted_for_sil
from kanonflow.solvers.shapes.class_starts import ClassStart, ClassStartProblem, cut_large_classes
from kanonflow.solvers.shapes.diverse_start import (
    diverse_greedy_labels,
    diverse_neighbours,
    merged_until_diverse,
)
from kanonflow.solvers.shapes.warm_classes import warm_labels
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.features import build_features
from kanonflow.solvers.units.individuals import (
    Individuals,
    gather_individuals,
    part_of_people,
    point_features,
)
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.nearest_people import nearest_people
from kanonflow.solvers.units.neighbours import nearest_units
from kanonflow.solvers.units.numbering import numbered
from kanonflow.solvers.units.row_counts import shared_row_counts
from kanonflow.solvers.units.tree_cut import even_sample, make_cut
from kanonflow.solvers.units.trimming import kept_rows

CLASS_LOSSES = ("ncp", "sil")
CLASS_STARTS = ("auto", "l-greedy", "one-class")
NEIGHBOURS = 12
TOUR_REACH = 1500
# A window of more individuals is searched in parts before the parts are joined: pieces of a tree, or of the tour.
PART_SIZE = 5000
# The tree is made from the classes of so many, for which one evaluation in twenty is spent.
SAMPLE_SIZE = 5000
SAMPLE_SHARE = 20
LARGEST_K = 255


def _tour(table: Table, people: Individuals) -> tuple[NDArray[np.int64], NDArray[np.int32] | None]:
    """The individuals in the order of a k-d tree over the first row of each, and the nearest of each, int32 (u, m).

    The tree finds the nearest where everybody has one row, and is a point; None: ``nearest_people`` finds them.
    """
    everybody = np.arange(people.rows.size)
    if people.rows.size < table.records:
        features = build_features(table, numbered(people.of_row).first)
    else:
        features = point_features(table, people)
    tree = build_tree(features, np.ones(everybody.size, dtype=np.int32), everybody)
    if everybody.size < table.records:
        return tree.order, None
    return tree.order, nearest_units(features, tree, everybody, NEIGHBOURS)[0]


def _nearest_within(nearest: NDArray[np.int32], chosen: NDArray[np.int64]) -> NDArray[np.int32]:
    """The nearest of some individuals among themselves, in their own numbers; missing ones stand at the end."""
    place = np.full(nearest.shape[0] + 1, -1, dtype=np.int32)
    place[chosen] = np.arange(chosen.size, dtype=np.int32)
    own = place[nearest[chosen]]
    return np.take_along_axis(own, np.argsort(own < 0, axis=1, kind="stable"), axis=1)


def waiting_bound(table: Table, k: int) -> float:
    """No structure over individuals loses less: float in [0, 1].

    Every released row shares its box with rows of k - 1 others, and a row that waits costs 1, which is more.

    Over rows, not over individuals: which rows of an individual stay is not known before.
    """
    who = np.arange(table.records) if table.individuals is None else table.individuals
    units = group_rows(replace(table, individuals=who))
    tree = build_tree(units.features, units.weight, units.individual)
    return neighbour_bound(units, *nearest_units(units.features, tree, units.individual, k - 1), k)


@dataclass(frozen=True)
class _Problem:
    """What every step needs.

    table: rows as neighbours and starts see them. people: u individuals of it. loss: what the search lowers.
    priority: int64 (n,), as ``kept_rows`` takes it. tour: int64 (u,). near: int32 (u, m), None where they are not
    known yet. cuts: where in the tour pieces of a tree begin, but for the first; None: nobody has cut.
    """

    task: Task
    table: Table
    people: Individuals
    loss: ClassLoss
    priority: NDArray[np.int64]
    tour: NDArray[np.int64]
    near: NDArray[np.int32] | None
    rules: ValueRules | None
    cuts: NDArray[np.int64] | None = None

    @property
    def stretches(self) -> list[NDArray[np.int64]]:
        """The parts of the search: pieces of a tree, or even ones of the tour."""
        if self.cuts is None:
            return np.array_split(self.tour, self.tour.size // PART_SIZE)
        return np.split(self.tour, self.cuts)

    def state(self, labels: NDArray[np.int32]) -> Any:
        """The state of the search for labels int32 (u,)."""
        return self.loss.state(self.people, labels, self.task.k, self.rules)

    def finished(self, labels: NDArray[np.int32], start: str, **figures: Any) -> Solution:
        """Row counts to rows, empty classes dropped, the loss of what is kept. figures: fields of the solution."""
        task, people, sensitive = self.task, self.people, self.task.sensitive
        row_counts = self.loss.row_counts(people, labels, shared_row_counts(people.rows, labels, task.k))
        if sensitive:
            row_counts = diverse_row_counts(
                row_counts, labels, people.of_row, people.rows, self.priority, sensitive
            )
        kept = kept_rows(people.of_row, row_counts, self.priority)
        row_labels = np.where(kept, labels[people.of_row], POOL)
        # Who waits has the first number.
        dense = numbered(row_labels - POOL).number - (row_labels == POOL).any()
        partition = Partition(dense.astype(np.int32))
        total = self.loss.total(task.table, partition)
        bound = waiting_bound(task.table, task.k) if task.loss == "ncp" and task.figures else 0.0
        told = {"start_loss": total, "evaluations": 0, **figures}
        return Solution(structure=partition, loss=total, lower_bound=bound, start=start, **told)


def _problem(task: Task) -> _Problem:
    """Units, tour, neighbours and rules. Raises as ``solve_classes``."""
    table, k = task.table, task.k
    priority = np.zeros(table.records, dtype=np.int64) if task.priority is None else task.priority
    seen, people, loss = _prepared(table, task.loss, priority)
    if people.rows.size < k:
        raise InfeasibleError(f"{people.rows.size} individuals cannot hide each other among k={k}")
    check_eligible(task.sensitive)
    tour, near = _tour(seen, people)
    # A class that is taken over may have up to 3k members, and newcomers join it.
    rules = build_rules(people, task.sensitive, priority, 6 * k, 2 * NEIGHBOURS)
    return _Problem(task, seen, people, loss, priority, tour, near, rules)


def _in_pieces(problem: _Problem, effort: Effort) -> tuple[_Problem, Effort]:
    """The problem with a tour through the pieces of a tree, one after the other, and the effort that is left.

    The tree is made from the classes of a sample of the people, as points: it is for people of one row each. Which of
    equal people are in the sample has no part in it.
    """
    task, people = problem.task, problem.people
    rows = even_sample(problem.table, SAMPLE_SIZE)
    table = replace(
        task.table,
        numeric=task.table.numeric[rows],
        categorical=task.table.categorical[rows],
        individuals=None,
        lattice=None,
    )
    sample = _problem(replace(task, table=table, priority=None, warm=None))
    begun = diverse_greedy_labels(sample.people, sample.tour, task.k, None)
    own = effort._replace(evaluations=effort.evaluations // SAMPLE_SHARE, progress=None)
    searched = _searched(sample, begun, own)
    left = effort._replace(evaluations=effort.evaluations - searched.evaluations)
    placed = searched.groups.label >= 0
    pieces = people.rows.size // PART_SIZE
    cut = make_cut(problem.table, rows[placed], searched.groups.label[placed].astype(np.int64), pieces)
    piece = np.empty(people.rows.size, dtype=np.int64)
    piece[people.of_row] = cut.piece_of(problem.table)
    tour = problem.tour[np.argsort(piece[problem.tour], kind="stable")]
    return replace(problem, tour=tour, cuts=np.cumsum(np.bincount(piece))[:-1]), left


def _greedy_in_pieces(problem: _Problem) -> NDArray[np.int32]:
    """The cold start of each piece by itself: no class reaches over a cut, where it would stay as it is for long."""
    labels = np.full(problem.tour.size, POOL, dtype=np.int32)
    following = 0
    for piece in problem.stretches:
        people = part_of_people(problem.people, piece)
        own = diverse_greedy_labels(people, np.arange(piece.size), problem.task.k, None)
        labels[piece] = np.where(own < 0, POOL, own + following)
        following = int(labels.max()) + 1
    return labels


def _cheaper_start(whole: _Problem, pieces: _Problem) -> tuple[NDArray[np.int32], _Problem]:
    """The cold start that costs less, and the problem cut as it was: by the tree, or by nobody.

    Why: where there is nothing to cut at (uniform columns, rows that are nearly all equal) the tree gains nothing. Who
    waits is not counted: a piece leaves over fewer than k, whom the search places at once.
    """

    def loss(start: tuple[NDArray[np.int32], _Problem]) -> float:
        state = whole.state(start[0])
        return total_loss(whole.people, state) - float(state.waiting[0] * (start[0] < 0).mean())

    starts = (
        (_greedy_in_pieces(pieces), pieces),
        (diverse_greedy_labels(whole.people, whole.tour, whole.task.k, None), whole),
    )
    return min(starts, key=loss)


def _prepared(table: Table, loss: str, priority: NDArray[np.int64]) -> tuple[Table, Individuals, ClassLoss]:
    """The table as neighbours and starts see it, its individuals, and the loss that the search lowers."""
    if loss == "ncp":
        return table, gather_individuals(table), NcpLoss()
    leaves = table.by_leaves()
    seen = replace(weighted_for_sil(leaves), lattice=table.lattice)
    people = gather_individuals(seen)
    return seen, people, sil_loss(leaves, people, priority)


@dataclass(frozen=True)
class _Begun:
    """labels: int32 (u,). start: its name. Where there were two, their losses, and the share of the individuals who
    begin in their old class.
    """

    labels: NDArray[np.int32]
    start: str
    warm_loss: float | None = None
    cold_loss: float | None = None
    warm_kept: float | None = None

    @property
    def told(self) -> dict[str, float | None]:
        """Its figures, as a solution has them."""
        return {"warm_loss": self.warm_loss, "cold_loss": self.cold_loss, "warm_kept": self.warm_kept}


def _warm_or(problem: _Problem, cold: _Begun) -> _Begun:
    """The cold start, or the last window's classes where they cost no more: all of them, or those that are cheap."""
    warm = problem.task.warm
    if not isinstance(warm, WarmClasses):
        return cold
    people, before = problem.people, problem.state(cold.labels)
    cold_loss = total_loss(people, before)
    tried = [
        _Begun(labels, "warm", total_loss(people, problem.state(labels)), cold_loss, float(stay.mean()))
        for labels, stay in warm_labels(
            people, problem.loss, problem.tour, problem.task.k, warm, before, problem.rules
        )
    ]
    best = min((begun.warm_loss or 0.0 for begun in tried), default=None)
    if best is None or best > cold_loss:
        return replace(cold, warm_loss=best, cold_loss=cold_loss, warm_kept=0.0)
    return next(begun for begun in tried if begun.warm_loss == best)


def _searched(problem: _Problem, labels: NDArray[np.int32], effort: Effort, state: Any = None) -> Found:
    """The classes searched, in parts side by side before all of them at once where there are many people.

    state: of the labels, where there is one already; it is changed.
    """
    people, tour, near = problem.people, problem.tour, problem.near
    if near is None:
        near = nearest_people(people, tour, NEIGHBOURS)[0]
    spent, struck = 0, False
    if tour.size >= 2 * PART_SIZE:
        quarters = effort._replace(evaluations=effort.evaluations * 3 // 4, progress=None)
        labels, spent, struck = _search_parts(replace(problem, near=near), labels, quarters)
        state = None
    rest = effort._replace(evaluations=effort.evaluations - spent)
    searched = _search(problem, labels, near, rest, state)
    trace = [(spent + made, then) for made, then in searched.trace]
    return Found(searched.groups, spent + searched.evaluations, struck or searched.struck, trace)


def _search(
    problem: _Problem,
    labels: NDArray[np.int32],
    near: NDArray[np.int32],
    effort: Effort,
    state: Any = None,
    *,
    whole: bool = True,
) -> Found:
    people, rules = problem.people, problem.rules
    near = diverse_neighbours(people, problem.tour, TOUR_REACH, rules, near)
    state = problem.state(labels) if state is None else state
    traced = whole and problem.task.figures
    return search_partition(people, state, problem.tour, near, effort, rules, whole=whole, traced=traced)


def _search_parts(
    problem: _Problem, labels: NDArray[np.int32], effort: Effort
) -> tuple[NDArray[np.int32], int, bool]:
    """Search the parts side by side; classes that reach over a cut stay as they are.

    Returns the labels, evaluations made and whether the deadline struck.
    """
    tour, near = problem.tour, problem.near
    assert near is not None
    stretches = problem.stretches
    parts, stretch = len(stretches), np.empty(tour.size, dtype=np.int64)
    for number, members in enumerate(stretches):
        stretch[members] = number
    owner = np.full(int(labels.max(initial=-1)) + 1, -2)
    for label, number in zip(labels[labels >= 0], stretch[labels >= 0], strict=True):
        owner[label] = number if owner[label] in (-2, number) else -3
    within = np.where(labels >= 0, owner[labels] == stretch, True)
    seeds = np.random.SeedSequence(effort.seed).generate_state(parts, np.uint64)

    def solve_part(number: int) -> tuple[NDArray[np.int64], Found]:
        chosen = tour[(stretch[tour] == number) & within[tour]]
        own, local = np.unique(labels[chosen], return_inverse=True)
        local = local - (1 if own.size and own[0] < 0 else 0)
        part = replace(
            problem,
            people=part_of_people(problem.people, chosen),
            loss=problem.loss.part(chosen),
            tour=np.arange(chosen.size),
            rules=part_of_rules(problem.rules, chosen),
            cuts=None,
        )
        share = effort.evaluations * chosen.size // tour.size
        own_effort = effort._replace(evaluations=share, seed=int(seeds[number]))
        return chosen, _search(
            part, local.astype(np.int32), _nearest_within(near, chosen), own_effort, whole=False
        )

    with ThreadPoolExecutor(max_workers=problem.task.threads) as pool:
        results = list(pool.map(solve_part, range(parts)))
    joined = np.where(within, POOL, labels)
    across, kept = np.unique(joined[joined >= 0], return_inverse=True)
    joined[joined >= 0] = kept
    following = across.size
    for chosen, searched in results:
        part = searched.groups.label
        joined[chosen] = np.where(part >= 0, part + following, POOL)
        following = max(following, int(joined.max(initial=-1)) + 1)
    evaluations, struck = sum(r[1].evaluations for r in results), any(r[1].struck for r in results)
    return joined.astype(np.int32), evaluations, struck


def class_start(name: str) -> ClassStart | None:
    """The start of classes that a package brings under a name; None where there is none."""
    found: ClassStart | None = getattr(registered(name), "class_start", None)
    return found


def _brought(problem: _Problem, begins: ClassStart, *, alone: bool) -> _Begun:
    """The start that a package brings; alone: as it is, from the old classes if it knows what to do with them."""
    task = problem.task
    old = task.warm.labels if alone and isinstance(task.warm, WarmClasses) else None
    begun = begins(ClassStartProblem(problem.table, problem.people, task.k, task.seed, old, task.parameters))
    if alone:
        # It compares by GCP.
        losses = (begun.warm_loss, begun.cold_loss) if task.loss == "ncp" else (None, None)
        return _Begun(begun.labels, "warm" if begun.warm else task.start, *losses)
    # Rules for sensitive values hold for no clustering by itself: classes that break one are joined.
    cut = cut_large_classes(begun.labels, problem.tour, task.k)
    labels = merged_until_diverse(problem.people, cut, problem.tour, task.k, problem.rules)
    return _Begun(labels, task.start)


def solve_classes(task: Task, *, search: bool = True) -> Solution:
    """Closed classes of at least k individuals, every row count in a class shared by at least k of them.

    search: False returns the start itself. Rules for sensitive values are met by the rows of each class that are kept
    (``diversity.py``).
    Neighbours and starts for ``sil`` (S0, eq. 7, over all released rows) are those of a table weighted for it; there is
    no lower bound but 0 then.
    Raises InfeasibleError when there are fewer than k individuals, NotDiverseError when not even all rows together
    meet the rules, BudgetError for an unknown start or loss, UnservedError for a table that the start does not take.
    Rows that wait have label -1; they count with loss 1, in SIL with that of a null in every field (sil_groups.py).
    Time O(u block d + evaluations) and that of ``nearest_people``.
    """
    k, start = task.k, task.start
    begins = None if start in CLASS_STARTS else class_start(start)
    if start not in CLASS_STARTS and begins is None:
        raise unknown_start(start, CLASS_STARTS)
    if task.loss not in CLASS_LOSSES:
        raise BudgetError(f"unknown loss {task.loss!r} for classes: choose one of {', '.join(CLASS_LOSSES)}")
    if not 2 <= k <= LARGEST_K:
        raise BudgetError(f"k must lie between 2 and {LARGEST_K}, not {k}")
    deadline = task.deadline()
    problem = _problem(task)
    people, rules = problem.people, problem.rules
    if start == "one-class":
        return problem.finished(np.zeros_like(people.rows, dtype=np.int32), start)
    evaluations = task.budget.evaluations(task.table.records, k, classes=True) if search else 0
    effort = Effort(evaluations, task.seed, deadline, task.clock, task.progress)
    cold: NDArray[np.int32] | None = None
    if evaluations and rules is None and people.rows.size == task.table.records >= 2 * PART_SIZE:
        pieces, effort = _in_pieces(problem, effort)
        cold, problem = _cheaper_start(problem, pieces)
    if begins is not None:
        alone = not search and rules is None
        begun = _brought(problem, begins, alone=alone)
        if alone:
            return problem.finished(begun.labels, begun.start, **begun.told)
    else:
        if cold is None:
            cold = diverse_greedy_labels(people, problem.tour, k, rules)
        begun = _Begun(cold, "l-greedy")
    begun = _warm_or(problem, begun)
    state = problem.state(begun.labels)
    start_loss = total_loss(people, state)
    searched, sampled = Found(None, 0, False, []), evaluations - effort.evaluations
    labels = begun.labels
    if evaluations:
        searched = _searched(problem, labels, effort, state)
        labels = searched.groups.label
    return problem.finished(
        labels,
        begun.start,
        start_loss=start_loss,
        evaluations=sampled + searched.evaluations,
        deadline_struck=searched.struck,
        trace=((0, start_loss), *((sampled + made, then) for made, then in searched.trace)),
        **begun.told,
    )
