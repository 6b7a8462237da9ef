"""From a table to a generalization graph: units, neighbours, start, search, rows dealt."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

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
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.neighbours import nearest_units
from kanonflow.solvers.search.rounds import Progress, SearchResult, search_graph, stack_name
from kanonflow.solvers.search.sil_slots import SilSlots, build_sil_slots, sil_units, weighted_for_sil
from kanonflow.solvers.search.slot_loss import PLACE
from kanonflow.solvers.search.slots import Slots, build_slots
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.starts.graph_starts import BUILT_STARTS, StartInput
from kanonflow.solvers.table import Table
from kanonflow.solvers.two_edge_cuts import without_two_edge_cuts
from kanonflow.solvers.warm_start import WarmGraph, warm_members

NEIGHBOURS = 5
GRAPH_STARTS = ("auto", *BUILT_STARTS)
LOSSES = ("ncp", "sil")
# Members over units -> the state of a search.
StateOf = Callable[[NDArray[np.int32]], Slots | SilSlots]


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


def cold_members(given: StartInput, start: str) -> tuple[NDArray[np.int32], str]:
    """The start by name; what it cannot build, the leaves can (whenever there is a graph, for they may be one)."""
    chosen = "dense-first" if start == "auto" else start
    try:
        return BUILT_STARTS[chosen](given), chosen
    except InfeasibleError:
        return BUILT_STARTS["kd-leaves"](given), "kd-leaves"


class _Start(NamedTuple):
    """The state to search from, which start it is, the slots a warm start changed, and both losses if there are two.

    evaluations: made while the old graph was completed, whichever start is taken.
    """

    # Of any loss: what the search lowers.
    slots: Any
    name: str
    changed: NDArray[np.int64] | None = None
    warm_loss: float | None = None
    cold_loss: float | None = None
    evaluations: int = 0


def _start(
    given: StartInput,
    nearest: NDArray[np.int32],
    start: str,
    warm: WarmGraph | None,
    build: StateOf,
) -> _Start:
    """The cold start, or the completed old graph when it costs no more. build: the state for members."""
    units = given.units
    members, name = cold_members(given, start)
    cold = build(members)
    completed = None if warm is None else warm_members(units, nearest, given.tree, warm, given.k)
    if completed is None:
        return _Start(cold, name)
    slots = build(completed.members)
    losses = float(slots.loss.mean()), float(cold.loss.mean())
    if losses[0] <= losses[1]:
        return _Start(slots, "warm", completed.changed, *losses, completed.evaluations)
    return _Start(cold, name, None, *losses, completed.evaluations)


def _check(table: Table, k: int, start: str, loss: str) -> None:
    """Raise BudgetError for unknown names, InfeasibleError when there is no graph."""
    if start not in GRAPH_STARTS:
        raise BudgetError(f"unknown start {start!r}: choose one of {', '.join(GRAPH_STARTS)}")
    if loss not in LOSSES:
        raise BudgetError(f"unknown loss {loss!r}: choose one of {', '.join(LOSSES)}")
    _check_feasible(table, k)


def _units_for(table: Table, k: int, loss: str) -> tuple[Units, Units, StateOf]:
    """Units as neighbours and starts see them, the same as the search for a loss sees them, and the search's state."""
    if loss == "ncp":
        units = group_rows(table)
        return units, units, partial(build_slots, units)
    units = group_rows(weighted_for_sil(table))
    searched = sil_units(table, units, k)
    return units, searched, partial(build_sil_slots, searched)


def _check_feasible(table: Table, k: int) -> None:
    if not 2 <= k < PLACE:
        raise BudgetError(f"k must lie between 2 and {PLACE - 1}, not {k}")
    if table.records < k:
        raise InfeasibleError(f"{table.records} records cannot hide each other among k={k}")
    if table.individuals is not None:
        _, counts = np.unique(table.individuals, return_counts=True)
        if counts.max() * k > table.records:
            raise InfeasibleError(f"an individual has more than 1/{k} of the rows: trim first")


def _prepared(
    units: Units, distinct: bool, k: int, seed: int, threads: int
) -> tuple[StartInput, NDArray[np.int32], float]:
    """What starts are built from, the lists of neighbours that the search reads, and the bound that they give."""
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, distance = _neighbours(units, tree, max(NEIGHBOURS, k - 1), threads)
    bound = neighbour_bound(units, nearest, distance, k)
    given = StartInput(units, tree, k, distinct, seed, distance[:, -1])
    return given, np.ascontiguousarray(nearest[:, :NEIGHBOURS]), bound


def _trace(begun: int, start_loss: float, result: SearchResult) -> tuple[tuple[int, float], ...]:
    """(evaluations, loss) after the start, which took ``begun``, and after each round."""
    return ((begun, start_loss), *((begun + spent, loss) for spent, loss in result.trace))


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
    loss: str = "ncp",
    clock: Callable[[], float] = time.monotonic,
    progress: Progress | None = None,
) -> Solution:
    """A k-regular generalization graph of low GCP, or of low SIL.

    warm: the graph that the previous window's individuals left; the cheaper of it and the cold start is searched.
    search: False returns the start itself. untie: exchange two-edge cuts away at the end, so that no known match
    settles another (costs 0-1% loss at k = 5, up to 7% at k = 3); ``Solution.tied_edges`` counts what is left.
    loss: what is searched and reported, ``ncp`` (GCP) or ``sil`` (S0, eq. 7, over all edges; neighbours and starts are
    then those of a table weighted for it; there is no lower bound but 0).

    Raises InfeasibleError when no graph exists (fewer than k records, an individual with more than n / k rows),
    BudgetError for an unknown start or loss, UnservedError for a start that does not take such a table. Time
    O(n log^2 n + evaluations), and the start's.
    """
    _check(table, k, start, loss)
    began = clock()
    units, searched, build = _units_for(table, k, loss)
    given, nearest, bound = _prepared(units, table.individuals is not None, k, seed, threads)
    begun = _start(given, nearest, start, warm, build)
    slots = begun.slots
    start_loss = float(slots.loss.mean())
    result = SearchResult(0, False, ())
    # What the old graph has cost is spent: a warm start has no more evaluations than a cold one.
    evaluations = max(0, budget.evaluations(table.records, k) - begun.evaluations) if search else 0
    if evaluations > 0:
        result = search_graph(
            searched,
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
        loss=gcp(table, graph) if loss == "ncp" else sil(table, graph),
        tied_edges=tied,
        start_loss=start_loss,
        lower_bound=bound if loss == "ncp" else 0.0,
        start=begun.name,
        stack=stack_name(begun.name, table.records, evaluations),
        evaluations=begun.evaluations + result.evaluations,
        deadline_struck=result.deadline_struck,
        trace=_trace(begun.evaluations, start_loss, result),
        warm_loss=begun.warm_loss,
        cold_loss=begun.cold_loss,
    )
