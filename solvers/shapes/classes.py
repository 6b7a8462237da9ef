"""From a table to closed classes of individuals: hulls, start, search, row counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bounds.nearest_neighbour import neighbour_bound
from kanonflow.solvers.class_search.class_loss import POOL, ClassLoss, refresh_all, total_loss
from kanonflow.solvers.class_search.diversity import check_eligible, diverse_row_counts
from kanonflow.solvers.class_search.kicks import class_kick
from kanonflow.solvers.class_search.moves import class_descend, none_seen
from kanonflow.solvers.class_search.rules import ValueRules, build_rules, part_of_rules
from kanonflow.solvers.class_search.sil_classes import sil_loss
from kanonflow.solvers.class_search.state import NcpLoss
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.last_window import WarmClasses
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.registered import registered, unknown_start
from kanonflow.solvers.search.rounds import Progress
from kanonflow.solvers.search.sil_slots import weighted_for_sil
from kanonflow.solvers.search.workspace import build_workspace, push
from kanonflow.solvers.shapes.class_starts import ClassStart, ClassStartProblem, cut_large_classes
from kanonflow.solvers.shapes.diverse_start import (
    diverse_greedy_labels,
    diverse_neighbours,
    merged_until_diverse,
    released_shares,
)
from kanonflow.solvers.shapes.warm_classes import warm_labels
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.distinct_rows import group_rows
from kanonflow.solvers.units.features import build_features
from kanonflow.solvers.units.individuals import Individuals, gather_individuals, part_of_people
from kanonflow.solvers.units.kd_tree import build_tree
from kanonflow.solvers.units.nearest_people import nearest_people
from kanonflow.solvers.units.neighbours import nearest_units
from kanonflow.solvers.units.row_counts import shared_row_counts
from kanonflow.solvers.units.trimming import kept_rows

CLASS_LOSSES = ("ncp", "sil")
CLASS_STARTS = ("auto", "l-greedy", "one-class")
NEIGHBOURS = 12
TOUR_REACH = 1500
# A window of more individuals is searched in parts of the tour before the parts are joined.
PART_SIZE = 5000
# Rounds of kicks between two entries of the trace.
ROUNDS = 8
LARGEST_K = 255


class _Outcome(NamedTuple):
    """What a search of one part found."""

    # Of any loss: what the search lowers.
    classes: Any
    evaluations: int
    struck: bool
    trace: list[tuple[int, float]]


def _tour(table: Table, people: Individuals) -> tuple[NDArray[np.int64], NDArray[np.int32] | None]:
    """The individuals in the order of a k-d tree over the first row of each, and the nearest of each, int32 (u, m).

    The tree finds the nearest where everybody has one row, and is a point; None: ``nearest_people`` finds them.
    """
    _, first = np.unique(people.of_row, return_index=True)
    features = build_features(table, first.astype(np.int64))
    everybody = np.arange(first.size)
    tree = build_tree(features, np.ones(first.size, dtype=np.int32), everybody)
    if first.size < table.records:
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


def _search(
    people: Individuals,
    loss: ClassLoss,
    labels: NDArray[np.int32],
    tour: NDArray[np.int64],
    k: int,
    evaluations: int,
    seed: int,
    deadline: float | None,
    clock: Callable[[], float],
    progress: Progress | None,
    rules: ValueRules | None,
    nearest: NDArray[np.int32],
    whole: bool = True,
) -> _Outcome:
    """whole: the table is all that is released, so the shares of its values follow what the search keeps."""
    classes = loss.state(people, labels, k, rules)
    nearest = diverse_neighbours(people, tour, TOUR_REACH, rules, nearest)
    u = labels.size
    work = build_workspace(u, u, seed, log=max(256, 4 * classes.members.shape[1]))
    seen = none_seen(classes)
    for unit in tour:
        push(work, unit)
    trace: list[tuple[int, float]] = []
    position = 0
    struck = False
    draining = True
    chunk = max(1, min(evaluations // ROUNDS, 200_000))
    while work.evaluations[0] < evaluations:
        if deadline is not None and clock() >= deadline:
            struck = True
            break
        until = min(int(work.evaluations[0]) + chunk, evaluations)
        if whole and rules is not None and released_shares(people, classes, rules):
            refresh_all(people, classes, rules)
        if draining:
            work.logged[0] = 0
            class_descend(people, classes, nearest, work, seen, until, rules)
            draining = work.bounds[0] != work.bounds[1]
        else:
            position = class_kick(people, classes, nearest, work, seen, tour, position, until, rules)
        trace.append((int(work.evaluations[0]), total_loss(people, classes)))
        if progress is not None:
            progress(*trace[-1])
    return _Outcome(classes, int(work.evaluations[0]), struck, trace)


def _search_parts(
    people: Individuals,
    loss: ClassLoss,
    labels: NDArray[np.int32],
    tour: NDArray[np.int64],
    k: int,
    evaluations: int,
    seed: int,
    threads: int,
    deadline: float | None,
    clock: Callable[[], float],
    rules: ValueRules | None,
    nearest: NDArray[np.int32],
) -> tuple[NDArray[np.int32], int, bool]:
    """Search the stretches of the tour side by side; classes that reach over a cut stay as they are.

    Returns the labels, evaluations made and whether the deadline struck.
    """
    parts = tour.size // PART_SIZE
    stretch = np.empty(tour.size, dtype=np.int64)
    for number, members in enumerate(np.array_split(tour, parts)):
        stretch[members] = number
    owner = np.full(int(labels.max(initial=-1)) + 1, -2)
    for label, number in zip(labels[labels >= 0], stretch[labels >= 0], strict=True):
        owner[label] = number if owner[label] in (-2, number) else -3
    within = np.where(labels >= 0, owner[labels] == stretch, True)
    seeds = np.random.SeedSequence(seed).generate_state(parts, np.uint64)

    def solve_part(number: int) -> tuple[NDArray[np.int64], _Outcome]:
        chosen = tour[(stretch[tour] == number) & within[tour]]
        own, local = np.unique(labels[chosen], return_inverse=True)
        local = local - (1 if own.size and own[0] < 0 else 0)
        share = evaluations * chosen.size // tour.size
        return chosen, _search(
            part_of_people(people, chosen), loss.part(chosen), local.astype(np.int32), np.arange(chosen.size),
            k, share, int(seeds[number]), deadline, clock, None, part_of_rules(rules, chosen),
            _nearest_within(nearest, chosen), False,
        )  # fmt: skip

    with ThreadPoolExecutor(max_workers=threads) as pool:
        results = list(pool.map(solve_part, range(parts)))
    joined = np.where(within, POOL, labels)
    across, kept = np.unique(joined[joined >= 0], return_inverse=True)
    joined[joined >= 0] = kept
    following = across.size
    for chosen, outcome in results:
        part = outcome.classes.label
        joined[chosen] = np.where(part >= 0, part + following, POOL)
        following = max(following, int(joined.max(initial=-1)) + 1)
    evaluations, struck = sum(r[1].evaluations for r in results), any(r[1].struck for r in results)
    return joined.astype(np.int32), evaluations, struck


def _prepared(table: Table, loss: str, priority: NDArray[np.int64]) -> tuple[Table, Individuals, ClassLoss]:
    """The table as neighbours and starts see it, its individuals, and the loss that the search lowers."""
    if loss == "ncp":
        return table, gather_individuals(table), NcpLoss()
    leaves = table.by_leaves()
    seen = replace(weighted_for_sil(leaves), lattice=table.lattice)
    people = gather_individuals(seen)
    return seen, people, sil_loss(leaves, people, priority)


def _start(
    people: Individuals,
    loss: ClassLoss,
    tour: NDArray[np.int64],
    k: int,
    warm: WarmClasses | None,
    rules: ValueRules | None,
    cold: NDArray[np.int32],
    name: str,
) -> tuple[NDArray[np.int32], str, float | None, float | None, float | None]:
    """Labels, the start's name, and where both exist the losses of the warm and the cold start and the share of the
    individuals who begin in their old class.
    """
    if warm is None:
        return cold, name, None, None, None
    before = loss.state(people, cold, k, rules)
    labels, stay = warm_labels(people, loss, tour, k, warm, before, rules)
    losses = total_loss(people, loss.state(people, labels, k, rules)), total_loss(people, before)
    # Where nobody stays, what goes on from the old classes is a start like any other, and was asked for by nobody.
    if losses[0] <= losses[1] and stay.any():
        return labels, "warm", *losses, float(stay.mean())
    return cold, name, *losses, 0.0


def class_start(name: str) -> ClassStart | None:
    """The start of classes that a package brings under a name; None where there is none."""
    found: ClassStart | None = getattr(registered(name), "class_start", None)
    return found


def solve_classes(task: Task, *, search: bool = True) -> Solution:
    """Closed classes of at least k individuals, every row count in a class shared by at least k of them.

    search: False returns the start itself. Rules for sensitive values are met by the rows of each class that are kept
    (``diversity.py``).
    Neighbours and starts for ``sil`` (S0, eq. 7, over all released rows) are those of a table weighted for it; there is
    no lower bound but 0 then.
    Raises InfeasibleError when there are fewer than k individuals, NotDiverseError when not even all rows together
    meet the rules, BudgetError for an unknown start or loss, UnservedError for a table that the start does not take.
    Rows that wait have label -1; they count with loss 1, in SIL with that of a null in every field (sil_classes.py).
    Time O(u block d + evaluations) and that of ``nearest_people``.
    """
    table, k, start, seed, loss, sensitive = (
        task.table,
        task.k,
        task.start,
        task.seed,
        task.loss,
        task.sensitive,
    )
    warm = task.warm if isinstance(task.warm, WarmClasses) else None
    brought = None if start in CLASS_STARTS else class_start(start)
    if start not in CLASS_STARTS and brought is None:
        raise unknown_start(start, CLASS_STARTS)
    if loss not in CLASS_LOSSES:
        raise BudgetError(f"unknown loss {loss!r} for classes: choose one of {', '.join(CLASS_LOSSES)}")
    if not 2 <= k <= LARGEST_K:
        raise BudgetError(f"k must lie between 2 and {LARGEST_K}, not {k}")
    order = np.zeros(table.records, dtype=np.int64) if task.priority is None else task.priority
    seen, people, lowered = _prepared(table, loss, order)
    if people.rows.size < k:
        raise InfeasibleError(f"{people.rows.size} individuals cannot hide each other among k={k}")
    check_eligible(sensitive)
    deadline = task.deadline()
    bound = waiting_bound(table, k) if loss == "ncp" else 0.0
    tour, nearest = _tour(seen, people)
    finish = partial(finished_partition, table, people, lowered, k, order, sensitive, bound)
    if start == "one-class":
        return finish(np.zeros_like(people.rows, dtype=np.int32), start, (0, False), [], None, None, None)
    # A class that is taken over may have up to 3k members, and newcomers join it.
    rules = build_rules(people, sensitive, order, 6 * k, 2 * NEIGHBOURS)
    if brought is not None:
        alone = not search and rules is None
        old = warm.labels if alone and warm is not None else None
        begun = brought(ClassStartProblem(seen, people, k, seed, old))
        if alone:
            name = "warm" if begun.warm else start
            # A start that knows old classes compares by GCP.
            losses = (begun.warm_loss, begun.cold_loss) if loss == "ncp" else (None, None)
            return finish(begun.labels, name, (0, False), [], None, *losses)
        # Rules for sensitive values hold for no clustering by itself: classes that break one are joined.
        cut = cut_large_classes(begun.labels, tour, k)
        cold, named = merged_until_diverse(people, cut, tour, k, rules), start
    else:
        cold, named = diverse_greedy_labels(people, tour, k, rules), "l-greedy"
    labels, name, warm_loss, cold_loss, warm_kept = _start(people, lowered, tour, k, warm, rules, cold, named)
    start_loss = total_loss(people, lowered.state(people, labels, k, rules))
    spent, struck, trace = 0, False, [(0, start_loss)]
    evaluations = task.budget.evaluations(table.records, k, classes=True) if search else 0
    near = nearest_people(people, tour, NEIGHBOURS)[0] if evaluations and nearest is None else nearest
    if near is not None and evaluations and tour.size >= 2 * PART_SIZE:
        labels, spent, struck = _search_parts(
            people,
            lowered,
            labels,
            tour,
            k,
            evaluations * 3 // 4,
            seed,
            task.threads,
            deadline,
            task.clock,
            rules,
            near,
        )
    if near is not None and evaluations:
        outcome = _search(
            people,
            lowered,
            labels,
            tour,
            k,
            evaluations - spent,
            seed,
            deadline,
            task.clock,
            task.progress,
            rules,
            near,
        )
        labels = outcome.classes.label
        trace += [(spent + made, then) for made, then in outcome.trace]
        spent, struck = spent + outcome.evaluations, struck or outcome.struck
    done = finish(labels, name, (spent, struck), trace, start_loss, warm_loss, cold_loss)
    return replace(done, warm_kept=warm_kept)


def finished_partition(
    table: Table,
    people: Individuals,
    loss: ClassLoss,
    k: int,
    priority: NDArray[np.int64],
    sensitive: Sequence[Sensitive],
    bound: float,
    labels: NDArray[np.int32],
    name: str,
    effort: tuple[int, bool],
    trace: list[tuple[int, float]],
    start_loss: float | None,
    warm_loss: float | None,
    cold_loss: float | None,
) -> Solution:
    """Row counts to rows, empty classes dropped, the loss of what is kept."""
    row_counts = loss.row_counts(people, labels, shared_row_counts(people.rows, labels, k))
    if sensitive:
        row_counts = diverse_row_counts(row_counts, labels, people.of_row, people.rows, priority, sensitive)
    kept = kept_rows(people.of_row, row_counts, priority)
    row_labels = np.where(kept, labels[people.of_row], -1)
    used, dense = np.unique(row_labels, return_inverse=True)
    row_labels = (dense - (1 if used.size and used[0] < 0 else 0)).astype(np.int32)
    partition = Partition(row_labels)
    total = loss.total(table, partition)
    return Solution(
        structure=partition,
        loss=total,
        start_loss=total if start_loss is None else start_loss,
        lower_bound=bound,
        start=name,
        evaluations=effort[0],
        deadline_struck=effort[1],
        trace=tuple(trace),
        warm_loss=warm_loss,
        cold_loss=cold_loss,
    )
