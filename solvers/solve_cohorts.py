"""Closed classes for ``cohort: strict``: cohorts that are given stay whole, newcomers form new ones or join."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bits import bits_cost
from kanonflow.solvers.budget import Budget
from kanonflow.solvers.errors import BudgetError, InfeasibleError
from kanonflow.solvers.individuals import Individuals, gather_individuals
from kanonflow.solvers.leaf_orders import range_cost
from kanonflow.solvers.levels import kept_by_levels
from kanonflow.solvers.search.class_state import WAITING
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.solve_classes import LARGEST_K, finished_partition, solve_classes, waiting_bound
from kanonflow.solvers.table import Table

NEWCOMER, MUST_WAIT = -1, -2
# New cohorts have at least this many times k individuals, so that absences do not break them.
ROOM = 2
# And nobody joins one of this many times k: its hull would be wide for everybody.
FULL = 3
# Cohorts that are looked at for somebody who is left over, nearest first.
NEAR = 8


class FixedCohorts(NamedTuple):
    """labels: int64 (u,), for each individual of the table (sorted distinct) the cohort it belongs to; NEWCOMER for
    those who may go anywhere, MUST_WAIT for those whose rows wait."""

    labels: NDArray[np.int64]


def solve_cohorts(
    table: Table,
    k: int,
    *,
    start: str = "auto",
    budget: Budget,
    seed: int,
    threads: int = 1,
    warm: FixedCohorts | None = None,
    search: bool = True,
    priority: NDArray[np.int64] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Solution:
    """Closed classes that keep the given cohorts whole.

    1. A cohort with k members here is a class. (A smaller one waits.)
    2. 2k or more newcomers: ``solve_classes`` among themselves, classes of at least 2k.
    3. Who is left of the newcomers joins the near cohort below 3k where that costs least, if it costs less than
       waiting; if there is no cohort at all, k or more of them form one.
    4. Levels within each class (``levels.py``); rows above wait.

    Arguments as of ``solve_classes``. Raises InfeasibleError when there are fewer than k individuals.
    """
    if not k >= 2 or ROOM * k > LARGEST_K:
        raise BudgetError(f"k must lie between 2 and {LARGEST_K // ROOM} for cohorts, not {k}")
    people = gather_individuals(table)
    u = people.rows.size
    if u < k:
        raise InfeasibleError(f"{u} individuals cannot hide each other among k={k}")
    given = np.full(u, NEWCOMER, dtype=np.int64) if warm is None else warm.labels
    present = np.bincount(given[given >= 0], minlength=1)
    labels = np.full(u, -1, dtype=np.int64)
    whole = (given >= 0) & (present[np.maximum(given, 0)] >= k)
    labels[whole] = np.unique(given[whole], return_inverse=True)[1]
    evaluations, struck = 0, False
    new = np.flatnonzero(given == NEWCOMER)
    if new.size >= ROOM * k:
        found, solution = _among_newcomers(
            table, people, new, k, start, budget, seed, threads, search, priority, clock
        )
        labels[new] = np.where(found >= 0, found + int(labels.max(initial=-1)) + 1, -1)
        evaluations, struck = solution.evaluations, solution.deadline_struck
    rest = new[labels[new] < 0]
    if labels.max(initial=-1) < 0 and rest.size >= k:
        labels[rest] = 0
    elif rest.size:
        _join(people, labels, rest, k)
    name = "cohorts" if whole.any() else "newcomers"
    order = np.zeros(table.records, dtype=np.int64) if priority is None else priority
    return finished_partition(
        table, people, k, order, (), waiting_bound(table, k), labels.astype(np.int32), name,
        (evaluations, struck), [], None, None, None,
    )  # fmt: skip


def _among_newcomers(
    table: Table,
    people: Individuals,
    new: NDArray[np.int64],
    k: int,
    start: str,
    budget: Budget,
    seed: int,
    threads: int,
    search: bool,
    priority: NDArray[np.int64] | None,
    clock: Callable[[], float],
) -> tuple[NDArray[np.int64], Solution]:
    """The class of each newcomer, int64, -1 for those that find none; and the solution behind it."""
    place = np.full(people.rows.size, -1, dtype=np.int64)
    place[new] = np.arange(new.size)
    rows = np.flatnonzero(place[people.of_row] >= 0)
    who = place[people.of_row[rows]]
    part = replace(
        table,
        numeric=table.numeric[rows],
        categorical=table.categorical[rows],
        individuals=who,
        lattice=None if table.lattice is None else table.lattice.taking(rows),
    )
    solution = solve_classes(
        part, ROOM * k, start=start, budget=budget, seed=seed, threads=threads, search=search,
        priority=None if priority is None else priority[rows], clock=clock,
    )  # fmt: skip
    found = np.full(new.size, -1, dtype=np.int64)
    np.maximum.at(found, who, solution.partition.labels)
    return found, solution


@numba.njit(cache=True, nogil=True)
def _class_hull_losses(
    people: Individuals, cohorts: Individuals, who: np.ndarray, losses: np.ndarray
) -> None:
    """NCP of the hull of each of ``who`` together with each cohort; losses: float64 (people, cohorts)."""
    for index in range(who.size):
        unit = who[index]
        for number in range(cohorts.rows.size):
            total = -people.first_value[0]
            for j in range(people.numeric_weight.size):
                low = min(people.low[unit, j], cohorts.low[number, j])
                high = max(people.high[unit, j], cohorts.high[number, j])
                total += range_cost(people.orders, people.numeric_weight[j], j, low, high)
            for w in range(people.words.shape[1]):
                total += bits_cost(people.words[unit, w] | cohorts.words[number, w], people.bit_weight, w)
            losses[index, number] = total


def _hulls(people: Individuals, labels: NDArray[np.int64]) -> Individuals:
    """Each cohort as if it were one individual."""
    count = int(labels.max()) + 1
    low = np.full((count, people.low.shape[1]), np.inf)
    high = np.full((count, people.low.shape[1]), -np.inf)
    words = np.zeros((count, people.words.shape[1]), dtype=np.uint64)
    inside = np.flatnonzero(labels >= 0)
    np.minimum.at(low, labels[inside], people.low[inside])
    np.maximum.at(high, labels[inside], people.high[inside])
    np.bitwise_or.at(words, labels[inside], people.words[inside])
    rows = np.bincount(labels[inside], minlength=count).astype(np.int64)
    return people._replace(low=low, high=high, words=words, rows=rows)


def _join(people: Individuals, labels: NDArray[np.int64], rest: NDArray[np.int64], k: int) -> None:
    """Put those who are left over where they cost least by the hulls as they were; in place."""
    if labels.max(initial=-1) < 0:
        return
    cohorts = _hulls(people, labels)
    joined = np.empty((rest.size, cohorts.rows.size))
    _class_hull_losses(people, cohorts, rest, joined)
    alone = np.empty((cohorts.rows.size, cohorts.rows.size))
    _class_hull_losses(cohorts, cohorts, np.arange(cohorts.rows.size), alone)
    counts = [people.rows[labels == number] for number in range(cohorts.rows.size)]
    for group in _groups(people, rest, k):
        units = rest[group]
        units, group = units[labels[units] < 0], group[labels[units] < 0]
        if units.size == 0:
            continue
        rows = people.rows[units]
        best, least = -1, float(rows.sum()) * WAITING
        hulls = joined[group].max(axis=0)
        for number in np.argsort(hulls, kind="stable")[:NEAR]:
            if counts[number].size + units.size > FULL * k:
                continue
            before = _cost(counts[number], float(alone[number, number]), k)
            cost = _cost(np.append(counts[number], rows), float(hulls[number]), k) - before
            if cost < least:
                best, least = int(number), cost
        if best >= 0:
            labels[units] = best
            counts[best] = np.append(counts[best], rows)


def _groups(people: Individuals, rest: NDArray[np.int64], k: int) -> list[NDArray[np.int64]]:
    """Positions in ``rest``: everybody alone, then k at a time with equal row counts, who are a level of their own."""
    groups = [np.array([index]) for index in range(rest.size)]
    rows = people.rows[rest]
    for count in np.unique(rows):
        equal = np.flatnonzero(rows == count)
        groups += [equal[begin : begin + k] for begin in range(0, equal.size - k + 1, k)]
    return groups


def _cost(counts: NDArray[np.int64], ncp: float, k: int) -> float:
    """Loss of a class in rows: kept ones at the NCP of its hull, the others at 1."""
    ordered = np.sort(counts)[::-1].copy()
    kept = kept_by_levels(ordered, ordered.size, k, np.empty(ordered.size + 2, dtype=np.int64))
    return kept * ncp + float(counts.sum() - kept) * WAITING
