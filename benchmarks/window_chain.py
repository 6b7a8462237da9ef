"""A feed's windows released one after the other, each problem that the solver was given kept to be posed again.

``chain`` calls ``release_window`` as the stateful step does: what one window leaves is what the next one gets. The
problem of a window (table, waiting rows included, and the domains that scale it) is then the same for whoever solves it
again: cold, from another start, or with another budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kanonflow.transforms.protections.afresh as module
from benchmarks.call_log import CallLog, watch
from benchmarks.data_sets import Feed
from benchmarks.one_window import release_window
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.solution import Solution
from kanonflow.transforms.release import cohorts
from kanonflow.transforms.release.cohorts import class_cohorts, graph_cohorts
from kanonflow.transforms.release.warm_state import Cohorts, WarmState
from kanonflow.transforms.secret.seeds import ReleaseSlot, Secret

# Makes the chains repeat; nothing that they release is private.
SECRET = Secret(b"a benchmark's secret is no secret at all")
PARTITION = b"benchmark"


@dataclass(frozen=True, eq=False)
class Problem:
    """What the solver was given for a window. people: uint64, the digest of individual 0 .. u-1 of the table.

    start: the cold start that the chain's policy names; a cold solution takes the default one.
    """

    table: Table
    k: int
    shape: str
    start: str
    seed: int
    warm: Any
    priority: NDArray[np.int64] | None
    people: NDArray[np.uint64]
    end_ms: int

    def solve(self, evaluations_per_row: float, *, warm: bool, seed: int | None = None) -> Solution:
        """Solve it with so many evaluations a row, from the previous window's structure or cold. One thread."""
        return solve(
            Task(
                self.table,
                self.k,
                shape=self.shape,
                start=self.start if warm else "auto",
                budget=Budget(evaluations_per_row),
                seed=self.seed if seed is None else seed,
                warm=self.warm if warm else None,
                priority=self.priority,
            )
        )

    def cohorts(self, solution: Solution, before: Cohorts) -> Cohorts:
        """Who belongs together after a solution, as the next window would get it."""
        assert self.table.individuals is not None
        if self.shape == "row_graph":
            return graph_cohorts(solution.graph, self.table.individuals, self.people, self.end_ms)
        return class_cohorts(before, solution.partition, self.table.individuals, self.people, self.end_ms, 0)


@dataclass(frozen=True)
class Step:
    """One window of a chain. new_rows: that arrived. after: what it left.

    problem, solution: None when nothing was solved; solve_cpu: CPU seconds of the solver.
    """

    new_rows: int
    problem: Problem | None
    solution: Solution | None
    solve_cpu: float
    after: WarmState
    metrics: dict[str, Any]


def with_budget(bound: BoundPolicy, evaluations_per_row: float) -> BoundPolicy:
    """The bound policy with another budget of the search."""
    choice = replace(bound.policy.solver, evaluations_per_row=evaluations_per_row)
    return replace(bound, policy=replace(bound.policy, solver=choice))


def with_start(bound: BoundPolicy, start: str) -> BoundPolicy:
    """The bound policy with another cold start."""
    choice = replace(bound.policy.solver, start=start)
    return replace(bound, policy=replace(bound.policy, solver=choice))


def with_method(bound: BoundPolicy, method: str) -> BoundPolicy:
    """The bound policy with another solver."""
    choice = replace(bound.policy.solver, method=method)
    return replace(bound, policy=replace(bound.policy, solver=choice))


def chain(feed: Feed, bound: BoundPolicy | None = None) -> Iterator[Step]:
    """Release the windows of a feed in order, each warmed by the one before; one thread.

    bound: instead of the feed's own, for another budget or cohort. Windows must be those of the feed's policy.
    """
    bound = feed.bound if bound is None else bound
    warm = WarmState()
    for number, window in enumerate(feed.windows):
        slot = ReleaseSlot(PARTITION, window.end_ms, number)
        with watch((module, ["solve"]), (cohorts, ["person_digests"])) as log:
            result = release_window(window.rows, bound, warm, SECRET, slot, threads=1)
        problem, solution, cpu = _posed(log, window.end_ms or 0)
        warm = result.warm
        yield Step(window.rows.num_rows, problem, solution, cpu, warm, result.metrics)


def _posed(log: CallLog, end_ms: int) -> tuple[Problem | None, Solution | None, float]:
    solved = log.of("solve")
    if not solved:
        return None, None, 0.0
    # Digests are computed for rows in several stages; the last ones before the solver are the table's.
    before = log.calls[: log.calls.index(solved[-1])]
    digests = CallLog(before).of("person_digests")
    task: Task = solved[-1].args[0]
    problem = Problem(
        task.table, task.k, task.shape, task.start, task.seed, task.warm, task.priority,
        digests[-1].result if digests else np.empty(0, dtype=np.uint64), end_ms,
    )  # fmt: skip
    return problem, solved[-1].result, solved[-1].cpu
