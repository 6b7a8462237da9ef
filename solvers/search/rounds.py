"""The graph search as a whole: shards along a tour, searched side by side, cut elsewhere in the next round.

A shard owns the slots of a stretch of the tour and moves members among them only. Shards share the state's arrays
without locks and without races: a swap touches two slots of one shard, and the entries of a unit's place list that
point to a shard's slots are written by that shard alone, so whichever thread runs first, every read that counts
returns the same. The number of shards depends on the window's size, never on the number of threads; each shard and
round has its own seed and its own share of the evaluations. So the result depends on the seed and the budget only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.solvers.search.kicks import kick
from kanonflow.solvers.search.slot_loss import fill
from kanonflow.solvers.search.slots import Slots
from kanonflow.solvers.search.two_opt import descend
from kanonflow.solvers.search.workspace import Workspace, build_workspace, push
from kanonflow.solvers.units.distinct_rows import Units

Progress = Callable[[int, float], None]

# Swaps of a kick, and how many random ones are drawn for each, of which the cheapest is made. Adult, 2,000 rows, 10,000
# evaluations a row: .0392 for 2 swaps of 1 draw, .0391 of 3, .0393 of 12; 1 to 3 swaps make no difference.
KICK_STRENGTH = 2
KICK_DRAWS = 3
# The temperature at which simulated annealing begins, as a part of the mean slot's loss: kicks that end worse by so
# much are kept now and then, ever more rarely. 0.2% less loss.
HEAT = 0.1
# Shards keep swaps from crossing their borders, which duplicates suffer from most (Adult, 30,162 rows, 2,500
# evaluations a row: loss .0151 in one part, .0152 in 2, .0155 in 8), so there are as few as two cores need, and small
# windows are one part: 5,000 rows, k = 3, 12,000 evaluations a row lose .01550 in two parts, .01544 in one.
LEAST_SLOTS_TO_SHARD = 6000
SLOTS_PER_SHARD = 12_000
MOST_SHARDS = 8
ROUNDS = 4
# A warm start's changed slots are searched alone first, with so many evaluations each: what is far from them was
# searched in the window before.
FOCUS = 1000
# Between two looks at the clock; about 10 ms.
CHUNK = 50_000


class Effort(NamedTuple):
    """evaluations, seed: of the search. deadline: by ``clock``, None for never. progress: hears of each round."""

    evaluations: int
    seed: int
    deadline: float | None = None
    clock: Callable[[], float] = time.monotonic
    progress: Progress | None = None


@dataclass(frozen=True)
class SearchResult:
    """evaluations made, whether the deadline struck, and (evaluations, mean loss) after each round."""

    evaluations: int
    deadline_struck: bool
    trace: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class _Shard:
    """One shard of one round."""

    tour: NDArray[np.int64]
    number: int
    seed: int
    limit: int
    turn: int
    rounds: int
    heat: float
    waves_left: int

    @property
    def first(self) -> bool:
        """Whether this is the first round, which looks at every slot before it kicks."""
        return self.turn == 0

    def elapsed(self, evaluations: int, time_share: float) -> float:
        """Which share of the whole search is over after that many evaluations, or that share of its time, here."""
        return (self.turn + max(evaluations / max(self.limit, 1), time_share)) / self.rounds

    def struck(self, evaluations: int, began: float, now: float, deadline: float) -> bool:
        """Whether this shard must end, so that those after it have as much time as it had.

        A search that would end in time at this pace is left alone, however slow this shard is beside the others.
        """
        fair = began + (deadline - began) / self.waves_left
        whole = (now - began) * self.limit / max(evaluations, 1) * self.waves_left
        return now >= deadline or (now >= fair and began + whole > deadline)


def shards_for(slots: int) -> int:
    """How many parts a graph of that many slots is searched in."""
    if slots < LEAST_SLOTS_TO_SHARD:
        return 1
    return int(np.clip(slots // SLOTS_PER_SHARD, 2, MOST_SHARDS))


def stack_name(start: str, slots: int, evaluations: int, merged: bool = False) -> str:
    """What is done to a graph of that many slots, in a line: the start, the moves, the parts, the budget.

    merged: whether several searches were merged.
    """
    if evaluations == 0:
        return start
    parts = shards_for(slots)
    cut = f" in {parts} parts, {ROUNDS} rounds" if parts > 1 else ""
    moves = f"swaps, chains and local kicks{cut}{' of several searches, merged' if merged else ''}"
    return f"{start}, then {moves}, {evaluations / slots:,.0f} evaluations a slot"


def places_looked_at(k: int) -> int:
    """How many places of one candidate a scan tries, of the k that it has for each of its rows.

    Few: at equal time 4 or 5 places lose less than k at k = 20 (Adult, 2,000 rows: .1259 against .1266 with 10), and
    make no difference at k = 5 and 10.
    """
    return 5 if k >= 5 else 4


def _run_shard(
    shard: _Shard,
    units: Units,
    slots: Slots,
    nearest: NDArray[np.int32],
    owner: NDArray[np.int32],
    deadline: float | None,
    clock: Callable[[], float],
) -> tuple[int, bool]:
    """Search one shard until its limit; returns (evaluations, deadline struck)."""
    work: Workspace = build_workspace(slots.loss.size, units.weight.size, shard.seed)
    looked_at = places_looked_at(slots.members.shape[1])
    for slot in shard.tour if shard.first else ():
        push(work, slot)
    mean = float(slots.loss[shard.tour].mean())
    position = 0
    draining = shard.first
    began = clock() if deadline is not None else 0.0
    gone = 0.0
    while work.evaluations[0] < shard.limit:
        if deadline is not None:
            now = clock()
            if shard.struck(int(work.evaluations[0]), began, now, deadline):
                return int(work.evaluations[0]), True
            gone = min(1.0, (now - began) * shard.waves_left / (deadline - began))
        until = min(int(work.evaluations[0]) + CHUNK, shard.limit)
        if draining:
            descend(units, slots, nearest, owner, work, looked_at, False, until, 0.0)
            draining = work.bounds[0] != work.bounds[1]
        else:
            heat = shard.heat * mean * (1.0 - shard.elapsed(int(work.evaluations[0]), gone))
            _, position = kick(
                units,
                slots,
                nearest,
                owner,
                shard.tour,
                work,
                position,
                KICK_STRENGTH,
                KICK_DRAWS,
                looked_at,
                until,
                heat,
            )
    return int(work.evaluations[0]), False


def _cut(tour: NDArray[np.int64], shards: int, turn: int, rounds: int) -> list[NDArray[np.int64]]:
    """Stretches of the tour, shifted a part of a stretch each round."""
    shift = (tour.size // max(shards, 1)) * turn // rounds
    return np.array_split(np.roll(tour, -shift), shards)


def _focused(
    stretches: list[NDArray[np.int64]],
    owner: NDArray[np.int32],
    focus: NDArray[np.int64],
    effort: Effort,
    rounds: int,
    workers: int,
) -> list[_Shard]:
    """Shards that search the slots of ``focus`` alone, without heat; ``owner`` is set to their stretches."""
    parts = len(stretches)
    changed = np.zeros(owner.size, dtype=np.bool_)
    changed[focus] = True
    budget = min(effort.evaluations, FOCUS * focus.size)
    own = np.random.SeedSequence(effort.seed, spawn_key=(1,)).generate_state(parts, np.uint64)
    jobs = []
    for number, stretch in enumerate(stretches):
        owner[stretch] = number
        near = stretch[changed[stretch]]
        if near.size:
            waves = -(-parts // workers) * (rounds + 1) - number // workers
            share = budget * near.size // focus.size
            jobs.append(_Shard(near, number, int(own[number]), share, 0, rounds, 0.0, waves))
    return jobs


def _round(
    stretches: list[NDArray[np.int64]],
    owner: NDArray[np.int32],
    left: int,
    seeds: NDArray[np.unsignedinteger[Any]],
    turn: int,
    rounds: int,
    heat: float,
    workers: int,
) -> list[_Shard]:
    """Shards of one round over all slots, with their shares of the evaluations left; ``owner`` is set to them."""
    waves = -(-len(stretches) // workers) * (rounds - turn)
    jobs = []
    for number, stretch in enumerate(stretches):
        owner[stretch] = number
        share = left * stretch.size // (owner.size * (rounds - turn))
        own = waves - number // workers
        jobs.append(_Shard(stretch, number, int(seeds[number]), share, turn, rounds, heat, own))
    return jobs


@contextlib.contextmanager
def pool_of(threads: int) -> Iterator[Executor | None]:
    """A pool of that many threads; None for a single one, which is the caller's own."""
    if threads <= 1:
        yield None
        return
    with ThreadPoolExecutor(max_workers=threads) as pool:
        yield pool


def _restored(units: Units, slots: Slots, loss: float, members: NDArray[np.int32]) -> bool:
    """Put the start back if the search ended above it, as heat may on a graph that was searched before."""
    if float(slots.loss.mean()) <= loss:
        return False
    slots.members[...] = members
    fill(units.features, units.individual, slots)
    return True


def search_graph(
    units: Units,
    slots: Slots,
    nearest: NDArray[np.int32],
    tour: NDArray[np.int64],
    effort: Effort,
    *,
    threads: int,
    first_slots: NDArray[np.int64] | None = None,
    shards: int | None = None,
    heat: float = HEAT,
) -> SearchResult:
    """Lower the loss of ``slots`` in place within the budget.

    tour: int64 (n,), slots in an order in which neighbours are near. first_slots: slots to search alone first, without
    heat (those a warm start changed). threads: how many shards run at a time. The heat falls with the time to a
    deadline or with the evaluations, whichever goes faster. shards: how many parts; None: by size. heat:
    see HEAT.
    Postcondition: ``slots`` is a legal graph and its loss is not higher than before.
    """
    n = slots.loss.size
    parts = shards if shards is not None else shards_for(n)
    rounds, workers = (ROUNDS, max(1, min(threads, parts))) if parts > 1 else (1, 1)
    owner = np.zeros(n, dtype=np.int32)
    spent = 0
    struck = False
    trace: list[tuple[int, float]] = []
    seeds = np.random.SeedSequence(effort.seed).generate_state(parts * rounds, np.uint64)

    start_loss, start_members = float(slots.loss.mean()), slots.members.copy()

    def run_jobs(pool: Executor | None, jobs: list[_Shard]) -> None:
        nonlocal spent, struck
        arguments = (units, slots, nearest, owner, effort.deadline, effort.clock)
        if pool is None:
            results = [_run_shard(job, *arguments) for job in jobs]
        else:
            results = [done.result() for done in [pool.submit(_run_shard, job, *arguments) for job in jobs]]
        spent += sum(result[0] for result in results)
        struck = struck or any(result[1] for result in results)
        trace.append((spent, float(slots.loss.mean())))
        if effort.progress is not None:
            effort.progress(*trace[-1])

    with pool_of(workers) as pool:
        if first_slots is not None and 0 < first_slots.size < n:
            stretches = _cut(tour, parts, 0, rounds)
            run_jobs(pool, _focused(stretches, owner, first_slots, effort, rounds, workers))
        for turn in range(rounds):
            own = seeds[turn * parts : (turn + 1) * parts]
            stretches = _cut(tour, parts, turn, rounds)
            left = effort.evaluations - spent
            run_jobs(pool, _round(stretches, owner, left, own, turn, rounds, heat, workers))
    if _restored(units, slots, start_loss, start_members):
        trace.append((spent, start_loss))
    return SearchResult(spent, struck, tuple(trace))
