"""From a table to a graph over individuals: levels of equal row count, each solved as a graph of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.budget import Budget
from kanonflow.solvers.errors import BudgetError, InfeasibleError
from kanonflow.solvers.level_graph import LevelGraph
from kanonflow.solvers.levels import individual_levels
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.person_rows import person_table
from kanonflow.solvers.search.slot_loss import PLACE
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.solve_classes import waiting_bound
from kanonflow.solvers.solve_graph import GRAPH_STARTS, solve_graph
from kanonflow.solvers.table import Table
from kanonflow.solvers.trimming import kept_rows
from kanonflow.solvers.warm_start import WarmGraph

# Milliseconds that a level is searched when the deadline has struck before: none would be a budget without a limit.
NO_TIME = 1e-3
# Levels of at least k, 2k .. 32k individuals are tried.
MOST_STEPS = 6
# Beyond this many rows' evaluations an individual gains next to nothing.
MOST_SHARES = 4


def solve_levels(
    table: Table,
    k: int,
    *,
    start: str = "auto",
    budget: Budget,
    seed: int,
    threads: int = 1,
    warm: WarmGraph | None = None,
    search: bool = True,
    priority: NDArray[np.int64] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Solution:
    """A k-regular graph over individuals of equal row count, of low GCP; rows above the levels wait.

    Individuals sorted by row count are cut into runs of at least s, and everybody in a run keeps as many rows as the
    run's last has (``levels.py``: the cut that keeps most rows). All who keep equally many form a level, which is
    solved by itself: within a level every slot carries equally many rows, so the loss of its slots is that of its
    rows. Small levels keep more rows and have wider boxes; of s = k, 2k, 4k .. the one whose start costs least,
    waiting rows at 1 each, is searched.

    priority: int64 (n,), of an individual's rows those with smaller values (then smaller row number) are kept first.
    warm: slots over the individuals (positions in the sorted distinct ``Table.individuals``) of the previous window.

    Raises InfeasibleError when there are fewer than k individuals, BudgetError for an unknown start. Waiting rows
    count with loss 1. Evaluations: the budget's for each row, and those that mend two-edge cuts. Time: that of
    ``solve_graph`` over each level, and of its start for each s.
    """
    if start not in GRAPH_STARTS:
        raise BudgetError(f"unknown start {start!r}: choose one of {', '.join(GRAPH_STARTS)}")
    if not 2 <= k < PLACE:
        raise BudgetError(f"k must lie between 2 and {PLACE - 1}, not {k}")
    who = table.individuals if table.individuals is not None else np.arange(table.records)
    _, of_row, rows = np.unique(who, return_inverse=True, return_counts=True)
    if rows.size < k:
        raise InfeasibleError(f"{rows.size} individuals cannot hide each other among k={k}")
    began = clock()
    order = np.zeros(table.records, dtype=np.int64) if priority is None else priority
    task = _Task(table, k, start, seed, threads, clock)
    chosen = None
    for levels in _ladder(rows.astype(np.int64), k):
        kept = np.where(kept_rows(of_row, levels, order), of_row, -1)
        begun = task.solve(kept, levels, warm, None, began)
        if chosen is None or begun.loss < chosen[0].loss:
            chosen = begun, kept, levels
    assert chosen is not None
    if not search or budget.evaluations(table.records, k) == 0:
        return chosen[0]
    found = task.solve(*chosen[1:], warm, budget, began)
    # Exchanging two-edge cuts away may cost more than a short search has won.
    return found if found.loss <= chosen[0].loss else replace(chosen[0], evaluations=found.evaluations)


def _ladder(rows: NDArray[np.int64], k: int) -> list[NDArray[np.int64]]:
    """Rows that each individual may keep, int64 (u,), for levels of at least k, 2k, 4k .. individuals."""
    found: list[NDArray[np.int64]] = []
    for step in range(MOST_STEPS):
        least = k << step
        if found and least > rows.size:
            break
        levels = individual_levels(rows, np.zeros(rows.size, dtype=np.int32), least)
        if not any(np.array_equal(levels, other) for other in found):
            found.append(levels)
    return found


@dataclass(frozen=True)
class _Task:
    """What stays the same whichever levels are tried."""

    table: Table
    k: int
    start: str
    seed: int
    threads: int
    clock: Callable[[], float]

    def solve(
        self,
        of_row: NDArray[np.int64],
        levels: NDArray[np.int64],
        warm: WarmGraph | None,
        budget: Budget | None,
        began: float,
    ) -> Solution:
        """The graph of these levels; without a budget the starts themselves."""
        seeds = np.random.SeedSequence(self.seed).generate_state(int(levels.max()) + 1, np.uint64)
        members = np.empty((levels.size, self.k), dtype=np.int32)
        solved: list[tuple[int, Solution]] = []
        filled = 0
        for level in np.unique(levels):
            people = np.flatnonzero(levels == level)
            share = None if budget is None else _share(budget, self.k, int(level), began, self.clock)
            solution = solve_graph(
                person_table(self.table, of_row, people),
                self.k,
                start=self.start,
                budget=Budget() if share is None else share,
                seed=int(seeds[level]),
                threads=self.threads,
                warm=_warm_level(warm, people, levels.size),
                search=share is not None,
                clock=self.clock,
            )
            members[filled : filled + people.size] = people[solution.graph.members]
            filled += people.size
            solved.append((int(level) * people.size, solution))
        return _joined(self.table, LevelGraph(members, of_row), solved, self.k)


def _share(budget: Budget, k: int, level: int, began: float, clock: Callable[[], float]) -> Budget:
    """What one level may spend: an individual that stands for m rows has the evaluations of min(m, 4) rows."""
    evaluations = budget.evaluations(1000, k) / 1000 * min(level, MOST_SHARES)
    left = None
    if budget.deadline_ms is not None:
        left = max(NO_TIME, budget.deadline_ms - (clock() - began) * 1000.0)
    return Budget(evaluations, left)


def _warm_level(warm: WarmGraph | None, people: NDArray[np.int64], everybody: int) -> WarmGraph | None:
    """The old slots over the individuals of one level; None when nobody of them was there."""
    if warm is None:
        return None
    place = np.full(everybody + 1, -1, dtype=np.int64)
    place[people] = np.arange(people.size)
    members = place[warm.members]
    members = members[(members >= 0).any(axis=1)]
    return WarmGraph(members) if members.size else None


def _joined(table: Table, structure: LevelGraph, solved: list[tuple[int, Solution]], k: int) -> Solution:
    """One solution from those of the levels, each with its rows."""
    kept = sum(rows for rows, _ in solved)
    waiting = 1.0 - kept / table.records

    def mean(values: list[float]) -> float:
        weighted = sum(rows * value for (rows, _), value in zip(solved, values, strict=True))
        return waiting + (1.0 - waiting) * weighted / kept

    loss = waiting + (1.0 - waiting) * gcp(table, structure)
    each = [solution for _, solution in solved]
    both = [one for one in each if one.warm_loss is not None and one.cold_loss is not None]
    return Solution(
        structure=structure,
        loss=loss,
        start_loss=mean([solution.start_loss for solution in each]),
        lower_bound=waiting_bound(table, k),
        start=_most(solved),
        evaluations=sum(solution.evaluations for solution in each),
        deadline_struck=any(solution.deadline_struck for solution in each),
        tied_edges=sum(solution.tied_edges or 0 for solution in each),
        warm_loss=mean([_or(one.warm_loss, one.start_loss) for one in each]) if both else None,
        cold_loss=mean([_or(one.cold_loss, one.start_loss) for one in each]) if both else None,
        warm_kept=_kept(solved) if both else None,
    )


def _kept(solved: list[tuple[int, Solution]]) -> float:
    """Share of all slots that are as they were; a level's slots are its rows by its row count."""
    slots = [solution.graph.members.shape[0] for _, solution in solved]
    kept = [_or(solution.warm_kept, 0.0) for _, solution in solved]
    return float(np.average(kept, weights=slots))


def _or(loss: float | None, other: float) -> float:
    return other if loss is None else loss


def _most(solved: list[tuple[int, Solution]]) -> str:
    """The start of most rows."""
    rows: dict[str, int] = {}
    for count, solution in solved:
        rows[solution.start] = rows.get(solution.start, 0) + count
    return max(rows, key=lambda name: (rows[name], name))


def without_waiting(structure: LevelGraph) -> tuple[NDArray[np.int64], LevelGraph]:
    """The records that are kept, ascending int64, and the structure over them alone."""
    kept = np.flatnonzero(structure.of_row >= 0)
    return kept, replace(structure, of_row=structure.of_row[kept])
