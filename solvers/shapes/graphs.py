"""From a table to a generalization graph: units, neighbours, start, search, rows dealt."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bounds.nearest_neighbour import neighbour_bound
from kanonflow.solvers.kernels.kernel import kernel
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.loss.sil import sil
from kanonflow.solvers.matching.two_edge_cuts import two_edge_cuts
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.last_window import WarmGraph
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.registered import unknown_start
from kanonflow.solvers.search.rounds import Effort, SearchResult, search_graph, stack_name
from kanonflow.solvers.search.sil_slots import SilSlots, build_sil_slots, sil_units, weighted_for_sil
from kanonflow.solvers.search.slot_loss import PLACE
from kanonflow.solvers.search.slots import Slots, build_slots
from kanonflow.solvers.shapes.graph_starts import BUILT_STARTS, StartProblem, graph_start
from kanonflow.solvers.shapes.merged_search import Plan, merged_search, merging_plan
from kanonflow.solvers.shapes.untied import Untied, untied
from kanonflow.solvers.shapes.warm_start import warm_members
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.starts.pair_assignment import PAIR_ASSIGNMENT, pair_members
from kanonflow.solvers.structures.graph import GeneralizationGraph
from kanonflow.solvers.units.distinct_rows import Units, group_rows, renumbered
from kanonflow.solvers.units.kd_tree import KdTree, build_tree, slot_tour
from kanonflow.solvers.units.neighbours import nearest_units

NEIGHBOURS = 5
GRAPH_STARTS = ("auto", *BUILT_STARTS)
LOSSES = ("ncp", "sil")
# Units and members over them -> the state of a search.
StateOf = Callable[[Units, NDArray[np.int32]], Slots | SilSlots]
# Evaluations for each slot that had to change for a two-edge cut, at most.
MOST_TO_UNTIE = 1000.0


@kernel
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


def cold_members(problem: StartProblem, start: str) -> tuple[NDArray[np.int32], str]:
    """The start by name; what it cannot build, the leaves can (whenever there is a graph, for they may be one).

    At k = 2 ``auto`` begins with the best graph over near pairs (pair_assignment.py).
    """
    chosen = "dense-first" if start == "auto" else start
    if (build := graph_start(chosen)) is None:
        raise unknown_start(chosen, GRAPH_STARTS)
    try:
        members = build(problem)
        if start == "auto" and problem.k == 2:
            pairs = pair_members(problem.units, problem.tree, members)
            return (members, chosen) if pairs is members else (pairs, PAIR_ASSIGNMENT)
        return members, chosen
    except InfeasibleError:
        return BUILT_STARTS["kd-leaves"](problem), "kd-leaves"


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
    kept: float | None = None
    evaluations: int = 0

    @property
    def loss(self) -> float:
        return float(self.slots.loss.mean())


def _start(
    problem: StartProblem,
    nearest: NDArray[np.int32],
    start: str,
    warm: WarmGraph | None,
    build: Callable[[NDArray[np.int32]], Any],
) -> _Start:
    """The cold start, or the completed old graph when it costs less, or as much with some slots as they were.

    build: the state for members.
    """
    units = problem.units
    members, name = cold_members(problem, start)
    cold = build(members)
    completed = None if warm is None else warm_members(units, nearest, problem.tree, warm, problem.k)
    if completed is None:
        return _Start(cold, name)
    slots = build(completed.members)
    losses = float(slots.loss.mean()), float(cold.loss.mean())
    kept = 1.0 - completed.changed.size / completed.members.shape[0]
    if losses[0] < losses[1] or (losses[0] == losses[1] and kept):
        return _Start(slots, "warm", completed.changed, *losses, kept, completed.evaluations)
    return _Start(cold, name, None, *losses, 0.0, completed.evaluations)


class _Nearby(NamedTuple):
    """A search with units numbered along the tree and slots along their tour, so that near ones are near in memory.

    order: int64 (u,), units as they were numbered. place: int64 (n,), where each slot went.
    """

    units: Units
    slots: Any
    nearest: NDArray[np.int32]
    order: NDArray[np.int64]
    place: NDArray[np.int64]

    def members(self) -> NDArray[np.int32]:
        """Members in the units' old numbers, int32 (n, k)."""
        return self.order.astype(np.int32)[self.slots.members]

    def single(self) -> Callable[..., SearchResult]:
        """One search, but for how long and from which seed."""
        return partial(search_graph, self.units, self.slots, self.nearest, np.arange(self.place.size))

    def merged(self, plain: Units, build: StateOf, plan: Plan) -> Callable[..., SearchResult]:
        """Several searches, merged. plain: the units as pairs are priced, in their old numbers."""
        own = renumbered(plain, self.order)
        return partial(merged_search, self.units, self.slots, self.nearest, plan, plain=own, build=build)


def _nearby(
    units: Units, members: NDArray[np.int32], nearest: NDArray[np.int32], tree: KdTree, build: StateOf
) -> _Nearby:
    """Renumber units and slots for the search. units: as the search sees them. build: the state over them."""
    order = tree.order
    # One more, so that a missing neighbour (-1) stays one.
    rank = np.full(order.size + 1, -1, dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    tour = slot_tour(members, order)
    place = np.empty_like(tour)
    place[tour] = np.arange(tour.size)
    moved = renumbered(units, order)
    return _Nearby(moved, build(moved, rank[members[tour]]), rank[nearest[order]], order, place)


def _check(table: Table, k: int, start: str, loss: str) -> None:
    """Raise BudgetError for unknown names, InfeasibleError when there is no graph."""
    if start not in GRAPH_STARTS and graph_start(start) is None:
        raise unknown_start(start, GRAPH_STARTS)
    if loss not in LOSSES:
        raise BudgetError(f"unknown loss {loss!r}: choose one of {', '.join(LOSSES)}")
    _check_feasible(table, k)


def units_for(table: Table, k: int, loss: str) -> tuple[Units, Units, StateOf]:
    """Units as neighbours and starts see them, the same as the search for a loss sees them, and the search's state."""
    if loss == "ncp":
        units = group_rows(table)
        return units, units, build_slots
    leaves = table.by_leaves()
    units = group_rows(weighted_for_sil(leaves))
    return units, sil_units(leaves, units, k), build_sil_slots


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
    units: Units, table: Table, k: int, seed: int, threads: int
) -> tuple[StartProblem, NDArray[np.int32], float]:
    """What starts are built from, the lists of neighbours that the search reads, and the bound that they give."""
    tree = build_tree(units.features, units.weight, units.individual)
    nearest, distance = _neighbours(units, tree, max(NEIGHBOURS, k - 1), threads)
    bound = neighbour_bound(units, nearest, distance, k)
    distinct = table.individuals is not None
    problem = StartProblem(units, tree, k, distinct, seed, distance[:, -1], table.lattice)
    return problem, np.ascontiguousarray(nearest[:, :NEIGHBOURS]), bound


def untie_graph(
    table: Table,
    members: NDArray[np.int32],
    *,
    seed: int,
    per_row: float,
    late: Callable[[], bool] = lambda: False,
) -> Untied:
    """A graph over rows without two-edge cuts, as ``solve_graph`` returns it after a search of ``per_row``.

    members: int32 (n, k), of low GCP. late: whether time is over. O(n log^2 n), and what ``untied`` takes.
    """
    k = members.shape[1]
    if two_edge_cuts(members).size == 0:
        return Untied(members, 0, 0)
    units, searched, build = units_for(table, k, "ncp")
    problem, nearest, _ = _prepared(units, table, k, seed, 1)
    return _free(problem, searched, build, nearest, members, per_row, late)


def _late(clock: Callable[[], float], deadline: float | None) -> Callable[[], bool]:
    """Whether the deadline is over, as a question that can be asked later."""
    return lambda: deadline is not None and clock() >= deadline


def _free(
    problem: StartProblem,
    searched: Units,
    build: StateOf,
    nearest: NDArray[np.int32],
    members: NDArray[np.int32],
    per_row: float,
    late: Callable[[], bool],
) -> Untied:
    """The graph over rows without two-edge cuts. searched: the units as the search for the loss, of ``per_row``
    evaluations, sees them."""
    each = min(per_row, MOST_TO_UNTIE)
    return untied(
        searched,
        build,
        nearest,
        members,
        distinct=problem.distinct,
        per_slot=each,
        seed=problem.seed,
        late=late,
    )


def _trace(begun: int, start_loss: float, result: SearchResult) -> tuple[tuple[int, float], ...]:
    """(evaluations, loss) after the start, which took ``begun``, and after each round."""
    return ((begun, start_loss), *((begun + spent, loss) for spent, loss in result.trace))


def solve_graph(task: Task, *, search: bool = True, untie: bool = True, merge: bool = True) -> Solution:
    """A k-regular generalization graph of low GCP, or of low SIL.

    Of the old graph, where there is one, and the cold start the cheaper one is searched.
    search: False returns the start itself. untie: mend two-edge cuts at the end, so that no known match settles
    another (hardly any loss from k = 4 on, about 2% at k = 3); ``Solution.tied_edges`` counts what is left. Its
    evaluations, 5 to 25% at k = 3 and 1% at k = 5, come on top of the budget; after the deadline they are few.
    merge: let long searches be several that are merged (merged_search.py); False: always a single one.
    SIL is that of S0, eq. 7, over all edges; neighbours and starts are then those of a table weighted for it, and there
    is no lower bound but 0.

    Raises InfeasibleError when no graph exists (fewer than k records, an individual with more than n / k rows),
    BudgetError for an unknown start or loss, UnservedError for a start that does not take such a table. Time
    O(n log^2 n + evaluations), and the start's.
    """
    table, k, loss, clock = task.table, task.k, task.loss, task.clock
    _check(table, k, task.start, loss)
    deadline = task.deadline()
    units, searched, build = units_for(table, k, loss)
    problem, nearest, bound = _prepared(units, table, k, task.seed, task.threads)
    problem = problem._replace(parameters=task.parameters)
    warm = task.warm if isinstance(task.warm, WarmGraph) else None
    begun = _start(problem, nearest, task.start, warm, partial(build, searched))
    # What the old graph has cost is spent: a warm start has no more evaluations than a cold one.
    evaluations = max(0, task.budget.evaluations(table.records, k) - begun.evaluations) if search else 0
    left = None if deadline is None else max(deadline - clock(), 0.0)
    plan = merging_plan(table.records, k, evaluations, left) if merge else None
    members, result = begun.slots.members, SearchResult(0, False, ())
    if evaluations:
        near = _nearby(searched, members, nearest, problem.tree, build)
        run = near.single() if plan is None else near.merged(units, build, plan)
        result = run(
            Effort(evaluations, task.seed, deadline, clock, task.progress),
            threads=task.threads,
            first_slots=None if begun.changed is None else near.place[begun.changed],
        )
        members = near.members()
    members = deal_rows(units, members)
    free = Untied(members, None, 0)
    if untie:
        per_row = evaluations / table.records
        free = _free(problem, searched, build, nearest, members, per_row, _late(clock, deadline))
    graph = GeneralizationGraph(free.members)
    return Solution(
        structure=graph,
        loss=gcp(table, graph) if loss == "ncp" else sil(table, graph),
        tied_edges=free.tied_edges,
        start_loss=begun.loss,
        lower_bound=bound if loss == "ncp" else 0.0,
        start=begun.name,
        stack=stack_name(begun.name, table.records, evaluations, plan is not None),
        evaluations=begun.evaluations + result.evaluations + free.evaluations,
        deadline_struck=result.deadline_struck or free.struck,
        trace=_trace(begun.evaluations, begun.loss, result),
        warm_loss=begun.warm_loss,
        cold_loss=begun.cold_loss,
        warm_kept=begun.kept,
    )
