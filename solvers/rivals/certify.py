"""The graph search with a proof of its bound (the LP), and graphs rounded from the linear program.

Searches from several seeds meet the slots that the program starts from; column generation completes it
(column_generation.py); its x, mostly whole, is rounded in several ways, and each graph is searched on with
little heat. The best of all graphs is returned. Slots of more than ``largest_priced`` units are not priced exactly: the
program is then solved heuristically, for its graph, and another one, over smaller slots, for the bound
(bounds/bound_proof.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bounds.bound_proof import BoundProof
from kanonflow.solvers.bounds.nearest_neighbour import neighbour_reach
from kanonflow.solvers.bounds.rounding import round_slots
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError, UnservedError
from kanonflow.solvers.problem.limits import Limits
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.column_generation import (
    REFERENCE_K,
    LinearBound,
    PricingLimits,
    linear_bound,
)
from kanonflow.solvers.search.rounds import Effort, search_graph
from kanonflow.solvers.search.slots import build_slots
from kanonflow.solvers.shapes.graphs import NEIGHBOURS, deal_rows, solve_graph, untie_graph
from kanonflow.solvers.shapes.merged_search import HEAT_AFTER_ROUNDING
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import Units, group_rows
from kanonflow.solvers.units.kd_tree import KdTree, build_tree, slot_tour
from kanonflow.solvers.units.neighbours import nearest_units

# The pricing looks at all pairs in each pass.
LARGEST_ROWS = 20_000
CERTIFY_LIMITS = Limits(rows=LARGEST_ROWS, hierarchies=False)


@dataclass(frozen=True)
class CertifyLimits:
    """searches: of different seeds, each with the whole budget, before the program. roundings: graphs made of it, each
    searched on with the whole budget. searching, priced: shares of a deadline after which those phases end.
    largest_priced: slots of more units are bounded by slots of so many; relaxed: the share of a deadline after which
    the program over the large ones, for the graph, ends.
    """

    searches: int = 6
    roundings: int = 12
    searching: float = 0.2
    priced: float = 0.8
    largest_priced: int = REFERENCE_K
    relaxed: float = 0.5
    pricing: PricingLimits = field(default_factory=PricingLimits)


class _Searched(NamedTuple):
    """The first search's solution, the slots that all of them met and the best graph (both over units)."""

    first: Solution
    slots: NDArray[np.int32]
    best: NDArray[np.int32]
    loss: float
    evaluations: int
    struck: bool


class _Finished(NamedTuple):
    """A graph over rows as it is handed out, its GCP, and the edges that are still in a two-edge cut."""

    graph: GeneralizationGraph
    loss: float
    tied: int | None


class _Lists(NamedTuple):
    """Units near each unit and their pair losses (neighbours.nearest_units)."""

    nearest: NDArray[np.int32]
    distance: NDArray[np.float64]


class _Clock(NamedTuple):
    """When the call began, and how long it may take in seconds, None for ever."""

    now: Callable[[], float]
    began: float
    seconds: float | None

    def until(self, share: float) -> float | None:
        """The time at which that share of the deadline is over."""
        return None if self.seconds is None else self.began + share * self.seconds

    def struck(self) -> bool:
        """Whether the deadline is over."""
        return self.seconds is not None and self.now() >= self.began + self.seconds


class _Job(NamedTuple):
    """What every phase needs."""

    table: Table
    units: Units
    k: int
    budget: Budget
    seed: int
    threads: int
    untie: bool
    limits: CertifyLimits
    timer: _Clock

    def finished(self, members: NDArray[np.int32]) -> _Finished:
        """Deal the rows of a graph over units and mend its two-edge cuts."""
        dealt = deal_rows(self.units, members)
        tied = None
        if self.untie:
            n = self.table.records
            per_row, late = self.budget.evaluations(n, self.k) / n, self.timer.struck
            dealt, tied, _, _ = untie_graph(self.table, dealt, seed=self.seed, per_row=per_row, late=late)
        graph = GeneralizationGraph(dealt)
        return _Finished(graph, gcp(self.table, graph), tied)


def certify_graph(task: Task, *, untie: bool = True, limits: CertifyLimits | None = None) -> Solution:
    """A k-regular graph of low GCP, and a proof of how low it can be.

    The budget's evaluations are those of each search, its deadline is for the whole call. Every search begins cold.
    untie: see solve_graph; the loss that it costs is part of the gap.
    ``Solution.proof`` proves ``Solution.lower_bound``, which is LB1 at least.
    Without a deadline the result depends on the arguments alone.

    Raises InfeasibleError as solve_graph does, BudgetError for an unknown start, UnservedError for
    more than 20,000 rows and for hierarchies.
    Worst case exponential in limits.largest_priced; 1,000 rows at k = 5 take half a minute.
    """
    table, k, budget, clock = task.table, task.k, task.budget, task.clock
    if table.hierarchical:
        raise UnservedError("certify has no program for hierarchies: use method auto")
    if table.records > LARGEST_ROWS:
        raise UnservedError(
            f"certify takes at most {LARGEST_ROWS:,} rows: use method auto, or more and smaller windows"
        )
    seconds = None if budget.deadline_ms is None else budget.deadline_ms / 1000.0
    job = _Job(
        table=table,
        units=group_rows(table),
        k=k,
        budget=budget,
        seed=task.seed,
        threads=task.threads,
        untie=untie,
        limits=limits if limits is not None else CertifyLimits(),
        timer=_Clock(clock, clock(), seconds),
    )
    searched = _search(job, task.start, 0.0, job.limits.searching)
    tree = build_tree(job.units.features, job.units.weight, job.units.individual)
    nearest, distance = nearest_units(job.units.features, tree, job.units.individual, max(NEIGHBOURS, k - 1))
    lists = _Lists(np.ascontiguousarray(nearest), distance)
    linear, proof, smaller = _bound(job, task.start, lists, searched)
    best, spent, trace = _round(job, tree, np.ascontiguousarray(nearest[:, :NEIGHBOURS]), linear, searched)
    first = searched.first
    return Solution(
        structure=best.graph,
        loss=best.loss,
        start_loss=first.start_loss,
        lower_bound=proof.bound,
        start=first.start,
        evaluations=spent + smaller.evaluations,
        deadline_struck=searched.struck or linear.deadline_struck or smaller.struck or job.timer.struck(),
        trace=((0, first.start_loss), (searched.evaluations, searched.loss), *trace),
        tied_edges=best.tied,
        proof=proof,
    )


class _Smaller(NamedTuple):
    """What smaller slots took besides: evaluations of the searches, and whether time ended any of it."""

    evaluations: int = 0
    struck: bool = False


def _bound(
    job: _Job, start: str, lists: _Lists, searched: _Searched
) -> tuple[LinearBound, BoundProof, _Smaller]:
    """The program whose x is rounded, the best proof, and what smaller slots took for it."""
    size, limits = min(job.k, job.limits.largest_priced), job.limits
    if size == job.k:
        linear = _program(job, lists, searched.slots, limits.pricing, limits.priced)
        return linear, linear.proof, _Smaller()
    linear = _program(job, lists, searched.slots, replace(limits.pricing, exact=0), limits.relaxed)
    smaller = job._replace(k=size)
    begins = limits.relaxed + (limits.priced - limits.relaxed) * limits.searching
    met = _search(smaller, start, limits.relaxed, begins)
    lower = _program(smaller, lists, met.slots, limits.pricing, limits.priced)
    best = max(linear.proof, lower.proof, key=lambda each: each.bound)
    return linear, best, _Smaller(met.evaluations, met.struck or lower.deadline_struck)


def _program(
    job: _Job, lists: _Lists, slots: NDArray[np.int32], limits: PricingLimits, until: float
) -> LinearBound:
    """Column generation for slots of job.k units, from LB1 on, until that share of the deadline."""
    return linear_bound(
        job.units,
        slots,
        job.k,
        floor=neighbour_reach(job.units, lists.nearest, lists.distance, job.k) / job.k,
        limits=limits,
        deadline=job.timer.until(until),
        clock=job.timer.now,
    )


def _search(job: _Job, start: str, begins: float, ends: float) -> _Searched:
    """Search from several seeds, each within its part of that part of the deadline."""
    first = None
    met: list[NDArray[np.int32]] = []
    best, loss, spent, struck = None, np.inf, 0, False
    for number in range(job.limits.searches):
        left = None
        until = job.timer.until(begins + (ends - begins) * (number + 1) / job.limits.searches)
        if until is not None:
            left = max(1000.0 * (until - job.timer.now()), 1.0)
        task = Task(
            job.table,
            job.k,
            start=start,
            budget=Budget(job.budget.evaluations_per_row, left),
            seed=job.seed + number,
            threads=job.threads,
            clock=job.timer.now,
        )
        found = solve_graph(task, untie=False, merge=False)
        first = found if first is None else first
        members = job.units.of_row[found.graph.members]
        met.append(members)
        spent += found.evaluations
        struck = struck or found.deadline_struck
        if found.loss < loss:
            best, loss = members, found.loss
    if first is None or best is None:
        raise BudgetError("searches must be at least 1")
    return _Searched(first, np.concatenate(met), best, loss, spent, struck)


def _round(
    job: _Job, tree: KdTree, nearest: NDArray[np.int32], linear: LinearBound, searched: _Searched
) -> tuple[_Finished, int, list[tuple[int, float]]]:
    """The best graph of the searches and the roundings as it is handed out, evaluations in all, and the trace.

    Graphs are compared after their two-edge cuts are parted, which costs some of them more than others.
    """
    best, spent = job.finished(searched.best), searched.evaluations
    trace: list[tuple[int, float]] = []
    evaluations = job.budget.evaluations(job.table.records, job.k)
    for seed in range(job.seed, job.seed + job.limits.roundings):
        if job.timer.struck():
            break
        members = round_slots(job.units, nearest, tree.order, linear.slots, linear.x, job.k, seed)
        if members is None:
            continue
        slots = build_slots(job.units, members)
        result = search_graph(
            job.units,
            slots,
            nearest,
            slot_tour(members, tree.order),
            Effort(evaluations, seed, job.timer.until(1.0), job.timer.now),
            threads=job.threads,
            heat=HEAT_AFTER_ROUNDING,
        )
        spent += result.evaluations
        found = job.finished(slots.members)
        if found.loss < best.loss:
            best = found
        trace.append((spent, best.loss))
    return best, spent, trace
