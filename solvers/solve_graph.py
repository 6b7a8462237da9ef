"""From a table to a generalization graph: units, neighbours, start, search, rows dealt."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bounds.nearest_neighbour import neighbour_bound
from kanonflow.solvers.budget import Budget
from kanonflow.solvers.distinct_rows import Units, group_rows
from kanonflow.solvers.errors import BudgetError, InfeasibleError
from kanonflow.solvers.graph import GeneralizationGraph
from kanonflow.solvers.kd_tree import KdTree, build_tree, slot_tour
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.neighbours import nearest_units
from kanonflow.solvers.search.rounds import Progress, SearchResult, search_graph, stack_name
from kanonflow.solvers.search.slot_loss import PLACE
from kanonflow.solvers.search.slots import Slots, build_slots
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.starts.graph_starts import BUILT_STARTS, StartInput
from kanonflow.solvers.table import Table
from kanonflow.solvers.two_edge_cuts import without_two_edge_cuts
from kanonflow.solvers.warm_start import WarmGraph, warm_members

NEIGHBOURS = 5
GRAPH_STARTS = ("auto", *BUILT_STARTS)


@numba.njit(cache=True, nogil=True)
def _deal_rows(members: np.ndarray, first: np.ndarray, rows: np.ndarray, dealt: np.ndarray) -> None:
    """Replace units by rows: a unit's places in slot order go round its rows (see distinct_rows)."""
    turn = np.zeros(first.size - 1, dtype=np.int64)
    for slot in range(members.shape[0]):
        for p in range(members.shape[1]):
            unit = members[slot, p]
            dealt[slot, p] = rows[first[unit] + turn[unit]]
            turn[unit] += 1
            if turn[unit] == first[unit + 1] - first[unit]:
                turn[unit] = 0


def deal_rows(units: Units, members: NDArray[np.int32]) -> NDArray[np.int32]:
    """Members over rows, int32 (n, k), from members over units."""
    dealt = np.empty_like(members)
    _deal_rows(members, units.first, units.rows, dealt)
    return dealt


def _neighbours(
    units: Units, tree: KdTree, m: int, threads: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    u = units.weight.size
    into = np.full((u, m), -1, dtype=np.int32), np.full((u, m), np.inf)
    if threads == 1 or u < 2000:
        return nearest_units(units.features, tree, units.individual, m, into=into)
    cuts = np.linspace(0, u, 8 * threads + 1).astype(int)
    with ThreadPoolExecutor(max_workers=threads) as pool:
        jobs = [
            pool.submit(
                nearest_units, units.features, tree, units.individual, m, first=int(a), last=int(b), into=into
            )
            for a, b in pairwise(cuts)
        ]
        for job in jobs:
            job.result()
    return into


def _cold_members(given: StartInput, start: str) -> tuple[NDArray[np.int32], str]:
    """The start by name; what it cannot build, the leaves or else the constructive graph can."""
    chosen = "dense-first" if start == "auto" else start
    last = "kd-leaves" if start == "auto" else "constructive"
    try:
        return BUILT_STARTS[chosen](given), chosen
    except InfeasibleError:
        return BUILT_STARTS[last](given), last


class _Start(NamedTuple):
    """The state to search from, which start it is, the slots a warm start changed, and both losses if there are two."""

    slots: Slots
    name: str
    changed: NDArray[np.int64] | None = None
    warm_loss: float | None = None
    cold_loss: float | None = None


def _start(given: StartInput, nearest: NDArray[np.int32], start: str, warm: WarmGraph | None) -> _Start:
    """The cold start, or the completed old graph when it costs no more."""
    units = given.units
    members, name = _cold_members(given, start)
    cold = build_slots(units, members)
    completed = None if warm is None else warm_members(units, nearest, given.tree, warm, given.k)
    if completed is None:
        return _Start(cold, name)
    slots = build_slots(units, completed.members)
    losses = float(slots.loss.mean()), float(cold.loss.mean())
    if losses[0] <= losses[1]:
        return _Start(slots, "warm", completed.changed, *losses)
    return _Start(cold, name, None, *losses)


def _check_feasible(table: Table, k: int) -> None:
    if not 2 <= k < PLACE:
        raise BudgetError(f"k must lie between 2 and {PLACE - 1}, not {k}")
    if table.records < k:
        raise InfeasibleError(f"{table.records} records cannot hide each other among k={k}")
    if table.individuals is not None:
        _, counts = np.unique(table.individuals, return_counts=True)
        if counts.max() * k > table.records:
            raise InfeasibleError(f"an individual has more than 1/{k} of the rows: trim first")


def _prepared(table: Table, k: int, seed: int, threads: int) -> tuple[StartInput, NDArray[np.int32], float]:
    """What starts are built from, the lists of neighbours that the search reads, and the bound that they give."""
    units = group_rows(table)
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, distance = _neighbours(units, tree, max(NEIGHBOURS, k - 1), threads)
    bound = neighbour_bound(units, nearest, distance, k)
    given = StartInput(units, tree, k, table.individuals is not None, seed, distance[:, -1])
    return given, np.ascontiguousarray(nearest[:, :NEIGHBOURS]), bound


def solve_graph(
    table: Table,
    k: int,
    *,
    start: str = "auto",
    budget: Budget,
    seed: int,
    threads: int = 1,
    warm: WarmGraph | None = None,
    search: bool = True,
    untie: bool = True,
    clock: Callable[[], float] = time.monotonic,
    progress: Progress | None = None,
) -> Solution:
    """A k-regular generalization graph of low GCP.

    warm: the graph that the previous window's individuals left; the cheaper of it and the cold start is searched.
    search: False returns the start itself. untie: exchange two-edge cuts away at the end, so that no known match
    settles another (costs 0-1% loss at k = 5, up to 7% at k = 3); ``Solution.tied_edges`` counts what is left.

    Raises InfeasibleError when no graph exists (fewer than k records, an individual with more than n / k rows),
    BudgetError for an unknown start. Time O(n log^2 n + evaluations).
    """
    if start not in GRAPH_STARTS:
        raise BudgetError(f"unknown start {start!r}: choose one of {', '.join(GRAPH_STARTS)}")
    _check_feasible(table, k)
    began = clock()
    given, nearest, bound = _prepared(table, k, seed, threads)
    units = given.units
    begun = _start(given, nearest, start, warm)
    slots, name = begun.slots, begun.name
    start_loss = float(slots.loss.mean())
    result = SearchResult(0, False, ())
    evaluations = budget.evaluations(table.records, k) if search else 0
    if evaluations > 0:
        result = search_graph(
            units,
            slots,
            nearest,
            slot_tour(slots.members, given.tree),
            evaluations=evaluations,
            seed=seed,
            threads=threads,
            deadline=None if budget.deadline_ms is None else began + budget.deadline_ms / 1000.0,
            clock=clock,
            progress=progress,
            first_slots=begun.changed,
        )
    members = deal_rows(units, slots.members)
    tied = None
    if untie:
        members, tied = without_two_edge_cuts(members, table.individuals)
    graph = GeneralizationGraph(members)
    return Solution(
        structure=graph,
        loss=gcp(table, graph),
        tied_edges=tied,
        start_loss=start_loss,
        lower_bound=bound,
        start=name,
        stack=stack_name(name, table.records, evaluations),
        evaluations=result.evaluations,
        deadline_struck=result.deadline_struck,
        trace=((0, start_loss), *result.trace),
        warm_loss=begun.warm_loss,
        cold_loss=begun.cold_loss,
    )
