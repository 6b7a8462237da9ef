"""Searches of different seeds, merged by a linear program over the slots that they met, rounded and searched on.

Each search ends in a graph that is good in some regions and less so in others. With a column for each slot S of each
of these graphs,

    minimize sum over S of c(S) x_S,   subject to sum over S of mult_i(S) x_S = k w_i for each unit i,   x >= 0,

puts the good regions together, below the loss of each graph; x is rounded (bounds/rounding.py) several times, each
result is searched on, and the slots met there are added before the program is solved again. No new slot is priced, so
it takes a fraction of the searches' time and proves nothing; ``certify`` prices, and proves.

A single search of as many evaluations is better while it still gains quickly, so ``merging_plan`` asks for a long one.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.bounds.restricted_master import RestrictedMaster
from kanonflow.solvers.bounds.rounding import round_slots
from kanonflow.solvers.search.rounds import HEAT, Effort, SearchResult, pool_of, search_graph, shards_for
from kanonflow.solvers.search.slot_loss import fill
from kanonflow.solvers.units.distinct_rows import Units
from kanonflow.solvers.units.kd_tree import slot_tour


class Plan(NamedTuple):
    """searches: from the start. cycles: of program and roundings; roundings: in each.

    searching: the share of the evaluations, and of the time to a deadline, that the first searches have.
    """

    searches: int
    cycles: int
    roundings: int
    searching: float


# Adult, k = 3 to 10, 1,000 and 5,000 rows: 3 to 8 searches, 2 to 8 cycles of 1 to 4 roundings end within 0.5% of it.
SHORT = Plan(4, 3, 2, 0.6)
# From so many times the least evaluations on more searches pay: 1,000 rows, k = 5, 200,000 a row: .0475 -> .0473.
LONG = Plan(8, 6, 2, 0.5)
LONG_FROM = 5.0
# A rounded graph is near its optimum: the heat of a cold start would undo it (Adult, 1,000 rows, k = 5, priced:
# 0.7% above the bound at 0.02, 0.8% without heat, 1.1% at 0.1).
HEAT_AFTER_ROUNDING = 0.02
# Evaluations a row from which merged searches end below a single one of as much time, on Adult (docs/decisions/037).
# Wide tables, whose searches gain for longer, lose 1% at k = 4 with 5,000 a row, and win .5% at k = 3.
LEAST_EVALUATIONS = {3: 4000.0, 4: 8000.0}
LEAST_AT_REFERENCE = 12_000.0
REFERENCE_K = 5
# The programs of larger windows take a larger share of the time.
REFERENCE_ROWS = 5000
# What an evaluation takes with everything around it, for a guess of how many a deadline leaves time for.
SECONDS_PER_EVALUATION = 70e-9


def least_evaluations(rows: int, k: int) -> float:
    """Evaluations a row from which a graph's search is several that are merged; none suffice at k = 2."""
    if k < 3:
        return np.inf
    grown = (k / REFERENCE_K) ** 1.75 * max(rows / REFERENCE_ROWS, 1.0) ** (1.0 / 3.0)
    return LEAST_EVALUATIONS.get(k, LEAST_AT_REFERENCE * grown)


def merging_plan(rows: int, k: int, evaluations: int, seconds: float | None) -> Plan | None:
    """How so many evaluations are best spent; None: on a single search.

    seconds: until a deadline, which may leave some of the evaluations out; None without one.
    """
    made = evaluations if seconds is None else min(evaluations, seconds / SECONDS_PER_EVALUATION)
    least = rows * least_evaluations(rows, k)
    if made < least:
        return None
    return LONG if made >= LONG_FROM * least else SHORT


class _Task(NamedTuple):
    """A graph to search on: members int32 (n, k), evaluations, seed, heat, slots to look at first."""

    members: NDArray[np.int32]
    evaluations: int
    seed: int
    heat: float
    first: NDArray[np.int64] | None = None


class _Met(NamedTuple):
    """What a search ended with."""

    members: NDArray[np.int32]
    losses: NDArray[np.float64]
    result: SearchResult


@dataclass
class _Merging:
    """One run: the program, the best graph so far, and what has been spent."""

    units: Units
    nearest: NDArray[np.int32]
    build: Callable[[Units, NDArray[np.int32]], Any]
    threads: int
    pool: Executor | None
    effort: Effort
    master: RestrictedMaster
    best: NDArray[np.int32]
    loss: float
    spent: int = 0
    struck: bool = False
    trace: list[tuple[int, float]] = field(default_factory=list)

    def search(self, tasks: list[_Task], ends: float | None) -> None:
        """Search on the tasks' graphs, each within its part of the time that is left; add their slots in this order."""
        width = 1 if self.pool is None else self.threads
        waves = [tasks[first : first + width] for first in range(0, len(tasks), width)]
        for number, wave in enumerate(waves):
            until = None
            if ends is not None:
                now = self.effort.clock()
                until = now + max(ends - now, 0.0) / (len(waves) - number)
            apply = map if self.pool is None else self.pool.map
            for met in apply(self._searched, wave, [until] * len(wave)):
                self._take(met)

    def _searched(self, task: _Task, until: float | None) -> _Met:
        slots = self.build(self.units, task.members)
        result = search_graph(
            self.units,
            slots,
            self.nearest,
            np.arange(task.members.shape[0]),
            Effort(task.evaluations, task.seed, until, self.effort.clock),
            threads=self.threads if self.pool is None else 1,
            first_slots=task.first,
            heat=task.heat,
        )
        return _Met(slots.members, slots.loss, result)

    def _take(self, met: _Met) -> None:
        self.master.add(met.members, met.losses)
        self.spent += met.result.evaluations
        self.struck = self.struck or met.result.deadline_struck
        if float(met.losses.mean()) < self.loss:
            self.best, self.loss = met.members, float(met.losses.mean())
        self.trace.append((self.spent, self.loss))
        if self.effort.progress is not None:
            self.effort.progress(*self.trace[-1])

    def cycle(self, plain: Units, each: int, seeds: list[int], left: int) -> bool:
        """Solve the program, round it, and search on each graph; False where the program took too long.

        each: evaluations of a search. left: cycles from this one on, which share the time.
        """
        # Half of the time may go to the program.
        deadline, clock = self.effort.deadline, self.effort.clock
        if not self.master.solve(None if deadline is None else max(deadline - clock(), 0.0) / 2.0):
            return False
        order = np.arange(self.units.weight.size)
        tasks = []
        for seed in seeds:
            members = round_slots(
                plain, self.nearest, order, self.master.slots, self.master.x, self.best.shape[1], seed
            )
            if members is not None:
                tasks.append(_Task(members[slot_tour(members, order)], each, seed, HEAT_AFTER_ROUNDING))
        ends = None
        if deadline is not None:
            now = clock()
            ends = now + max(deadline - now, 0.0) / left
        self.search(tasks, ends)
        return True


def merged_search(
    units: Units,
    slots: Any,
    nearest: NDArray[np.int32],
    plan: Plan,
    effort: Effort,
    *,
    plain: Units,
    build: Callable[[Units, NDArray[np.int32]], Any],
    threads: int,
    first_slots: NDArray[np.int64] | None = None,
) -> SearchResult:
    """Lower the loss of ``slots``, a state of any loss, in place within the budget, as ``search_graph`` does.

    plan: see ``merging_plan``. units: numbered so that near ones are near, slots likewise. plain: the same units as
    pairs are priced. build: the state for units and members. threads: graphs of one part are searched side by side.
    Without a deadline the result depends on the other arguments alone. Postcondition: a legal graph whose loss is not
    higher than before.
    """
    n, k = slots.members.shape
    roundings = plan.cycles * plan.roundings
    seeds = (
        np.random.SeedSequence(effort.seed).generate_state(plan.searches + roundings + 1, np.uint64).tolist()
    )
    start, loss = slots.members.copy(), float(slots.loss.mean())
    searching = None
    evaluations, deadline, clock = effort.evaluations, effort.deadline, effort.clock
    if deadline is not None:
        began = clock()
        searching = began + plan.searching * max(deadline - began, 0.0)
    master = RestrictedMaster(units, k, roughly=True)
    with pool_of(threads if shards_for(n) == 1 else 1) as pool:
        run = _Merging(units, nearest, build, threads, pool, effort, master, start, loss)
        each = int(evaluations * plan.searching) // plan.searches
        run.search([_Task(start, each, one, HEAT, first_slots) for one in seeds[: plan.searches]], searching)
        each = (evaluations - run.spent) // roundings
        for number in range(plan.cycles):
            first = plan.searches + number * plan.roundings
            own = seeds[first : first + plan.roundings]
            if not run.cycle(plain, each, own, plan.cycles - number):
                break
        over = deadline is not None and clock() >= deadline
        if evaluations - run.spent >= n and not over:
            rest = _Task(run.best, evaluations - run.spent, seeds[-1], HEAT_AFTER_ROUNDING)
            run.search([rest], deadline)
    slots.members[...] = run.best
    fill(units.features, units.individual, slots)
    return SearchResult(run.spent, run.struck, tuple(run.trace))
