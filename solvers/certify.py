"""The graph search with a proof: LP bound, certificate, and graphs rounded from the linear program.

Searches from several seeds meet the slots that the program starts from; column generation completes it
(bounds/column_generation.py); its x, mostly whole, is rounded in several ways, and each graph is searched on with
little heat. The best of all graphs is returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bounds.column_generation import LinearBound, PricingLimits, linear_bound
from kanonflow.solvers.bounds.rounding import round_slots
from kanonflow.solvers.budget import Budget
from kanonflow.solvers.distinct_rows import Units, group_rows
from kanonflow.solvers.errors import BudgetError
from kanonflow.solvers.graph import GeneralizationGraph
from kanonflow.solvers.kd_tree import KdTree, build_tree
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.neighbours import nearest_units
from kanonflow.solvers.search.rounds import search_graph
from kanonflow.solvers.search.slots import build_slots
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.solve_graph import NEIGHBOURS, deal_rows, solve_graph, tour_of
from kanonflow.solvers.table import Table
from kanonflow.solvers.two_edge_cuts import without_two_edge_cuts

# The pricing looks at all pairs in each pass.
LARGEST_ROWS = 20_000
# A rounded graph is near its optimum: the heat of a cold start (rounds.HEAT) would undo it (Adult, 1,000 rows, k = 5:
# 0.7% above the bound at 0.02, 0.8% without heat, 1.1% at 0.1).
HEAT_AFTER_ROUNDING = 0.02


@dataclass(frozen=True)
class CertifyLimits:
    """searches: of different seeds, each with the whole budget, before the program. roundings: graphs made of it, each
    searched on with the whole budget. searching, priced: shares of a deadline after which those phases end.
    """

    searches: int = 6
    roundings: int = 12
    searching: float = 0.2
    priced: float = 0.8
    pricing: PricingLimits = field(default_factory=PricingLimits)


class _Searched(NamedTuple):
    """The first search's solution, the slots that all of them met, and the best graph: over units."""

    first: Solution
    slots: NDArray[np.int32]
    best: NDArray[np.int32]
    loss: float
    evaluations: int
    struck: bool


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


def certify_graph(
    table: Table,
    k: int,
    *,
    start: str = "auto",
    budget: Budget,
    seed: int,
    threads: int = 1,
    untie: bool = True,
    limits: CertifyLimits | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Solution:
    """A k-regular graph of low GCP, and a proof of how low it can be.

    budget: evaluations of each search; its deadline is for the whole call. untie: see solve_graph; the loss that it
    costs is part of the gap. ``Solution.certificate`` proves ``Solution.lower_bound``; the smaller bound LB1 is no
    longer used. Without a deadline the result depends on the arguments alone.

    Raises InfeasibleError as solve_graph does, BudgetError for an unknown start and for more than 20,000 rows.
    Worst case exponential in k; 1,000 rows at k = 5 take half a minute.
    """
    if table.records > LARGEST_ROWS:
        raise BudgetError(
            f"certify takes at most {LARGEST_ROWS:,} rows: use method auto, or more and smaller windows"
        )
    limits = limits if limits is not None else CertifyLimits()
    seconds = None if budget.deadline_ms is None else budget.deadline_ms / 1000.0
    timer = _Clock(clock, clock(), seconds)
    units = group_rows(table)
    searched = _search(table, units, k, start, budget, seed, threads, limits, timer)
    linear = linear_bound(
        units, searched.slots, k, limits=limits.pricing, deadline=timer.until(limits.priced), clock=clock
    )
    best, spent, trace = _round(units, linear, searched, k, budget, seed, threads, limits, timer)
    members = deal_rows(units, best)
    tied = None
    if untie:
        members, tied = without_two_edge_cuts(members, table.individuals)
    graph = GeneralizationGraph(members)
    first = searched.first
    return Solution(
        structure=graph,
        loss=gcp(table, graph),
        start_loss=first.start_loss,
        lower_bound=linear.certificate.bound,
        start=first.start,
        evaluations=spent,
        deadline_struck=searched.struck or linear.deadline_struck or timer.struck(),
        trace=((0, first.start_loss), (searched.evaluations, searched.loss), *trace),
        tied_edges=tied,
        certificate=linear.certificate,
    )


def _search(
    table: Table,
    units: Units,
    k: int,
    start: str,
    budget: Budget,
    seed: int,
    threads: int,
    limits: CertifyLimits,
    timer: _Clock,
) -> _Searched:
    """Search from several seeds; a search that the deadline leaves no time for is left out, but not the first."""
    first = None
    met: list[NDArray[np.int32]] = []
    best, loss, spent, struck = None, np.inf, 0, False
    for number in range(limits.searches):
        left = None
        if timer.seconds is not None:
            share = limits.searching * timer.seconds / limits.searches
            left = max(1000.0 * (timer.began + share * (number + 1) - timer.now()), 1.0)
        found = solve_graph(
            table,
            k,
            start=start,
            budget=Budget(budget.evaluations_per_row, left),
            seed=seed + number,
            threads=threads,
            untie=False,
            clock=timer.now,
        )
        first = found if first is None else first
        members = units.of_row[found.graph.members]
        met.append(members)
        spent += found.evaluations
        struck = struck or found.deadline_struck
        if found.loss < loss:
            best, loss = members, found.loss
    if first is None or best is None:
        raise BudgetError("searches must be at least 1")
    return _Searched(first, np.concatenate(met), best, loss, spent, struck)


def _round(
    units: Units,
    linear: LinearBound,
    searched: _Searched,
    k: int,
    budget: Budget,
    seed: int,
    threads: int,
    limits: CertifyLimits,
    timer: _Clock,
) -> tuple[NDArray[np.int32], int, list[tuple[int, float]]]:
    """The best graph of the searches and the roundings, evaluations in all, and the roundings' trace."""
    tree: KdTree = build_tree(units.features, units.weight, units.individual)
    nearest, _ = nearest_units(units.features, tree, units.individual, NEIGHBOURS)
    best, loss, spent = searched.best, searched.loss, searched.evaluations
    trace: list[tuple[int, float]] = []
    evaluations = budget.evaluations(int(units.weight.sum()), k)
    for number in range(limits.roundings):
        if timer.struck():
            break
        members = round_slots(units, nearest, tree, linear.slots, linear.x, k, seed + number)
        if members is None:
            continue
        slots = build_slots(units, members)
        result = search_graph(
            units,
            slots,
            nearest,
            tour_of(members, tree),
            evaluations=evaluations,
            seed=seed + number,
            threads=threads,
            deadline=timer.until(1.0),
            clock=timer.now,
            heat=HEAT_AFTER_ROUNDING,
        )
        spent += result.evaluations
        reached = float(slots.loss.mean())
        if reached < loss:
            best, loss = slots.members.copy(), reached
        trace.append((spent, loss))
    return best, spent, trace
