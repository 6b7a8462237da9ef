"""What the parts of paper_tables share: data sets, starts, one run of S0's search and one of ours, by CPU seconds."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import ADULT, MissingDataError, adult_table, data_path, example_policy, read_feed
from benchmarks.generated_tables import census_table, wide_table
from benchmarks.result_files import Findings
from kanonflow.schemas.policy_fields import Quasi, QuasiType, Role
from kanonflow.solvers.catalogue import takes_start
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import BudgetError, InfeasibleError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.paper_search import PaperSearch, paper_search, paper_state
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.solvers.solution import Solution
from kanonflow.transforms.columns.encode import encode

DATA_SETS = ("adult-8", "adult-9", "wide-23", "census-4")
# The heuristics of S0's tables.
HEURISTICS = ("k-member", "l-greedy", "hungarian", "split-and-carry")
# Minutes a table with many attributes; S0 has it on its set of four only.
SLOW_START, SLOW_START_DATA = "split-and-carry", "census-4"
ADULT_ROWS = 30_162
DATA_SEED = 1


class Run(NamedTuple):
    """A local search: loss before and after, CPU seconds of the search alone, whether time ended it, evaluations.

    points: (CPU seconds, loss) on the way.
    """

    before: float
    after: float
    seconds: float
    cut: bool
    evaluations: int
    points: list[tuple[float, float]]


@dataclass
class Begun:
    """A start, built: its graph over rows, its loss, what it took."""

    members: NDArray[np.int32]
    gcp: float
    seconds: float


def data_table(name: str, rows: int) -> Table | None:
    """A data set by name, None when it has fewer rows. Raises MissingDataError."""
    if name == "census-4":
        return census_table(rows, DATA_SEED)
    if name == "wide-23":
        return wide_table(rows, DATA_SEED)
    path = data_path(ADULT)
    if rows > ADULT_ROWS:
        return None
    return adult_table(path, rows) if name == "adult-8" else _adult_with_class(rows)


def _adult_with_class(rows: int) -> Table:
    """Adult with its ninth column, the salary class, as a quasi-identifier too."""
    policy = example_policy("adult")
    fields = tuple(
        replace(field, role=Role.QUASI, quasi=Quasi(QuasiType.CATEGORICAL))
        if field.role is Role.SENSITIVE
        else field
        for field in policy.fields
    )
    feed = read_feed(data_path(ADULT), replace(policy, fields=fields), rows=rows)
    return encode(feed.windows[0].rows, feed.bound, None, {}).table


def begin(table: Table, k: int, start: str, seed: int) -> Begun | str:
    """A start by name; why not, as text, when this version has no such start or it refuses the table."""
    if not takes_start("row_graph", start):
        return f"{start}: no such start in this version"
    began = time.process_time()
    try:
        built = solve_graph(
            Task(table, k, start=start, budget=Budget(0), seed=seed), search=False, untie=False
        )
    except (BudgetError, InfeasibleError) as refused:
        return f"{start}, {table.records:,} rows, k={k}: {refused}"
    if built.start != start:
        return f"{start}, {table.records:,} rows, k={k}: cannot build a graph"
    return Begun(built.graph.members, built.loss, time.process_time() - began)


def paper_run(
    table: Table,
    members: NDArray[np.int32],
    given: PaperSearch,
    *,
    seed: int,
    most_seconds: float,
    iterated: bool = False,
    evaluations: int | None = None,
) -> Run:
    """S0's search from members over rows, for at most so many CPU seconds."""
    state = paper_state(table, members, given)
    before = float(state.loss.mean())
    began = time.process_time()
    points = [(0.0, before)]
    result = paper_search(
        state,
        None,
        given,
        iterated=iterated,
        evaluations=evaluations,
        seed=seed,
        deadline=began + most_seconds,
        clock=time.process_time,
        progress=lambda _, loss: points.append((time.process_time() - began, loss)),
    )
    seconds = time.process_time() - began
    return Run(before, result.trace[-1][1], seconds, result.deadline_struck, result.evaluations, points)


def our_run(
    table: Table, k: int, start: str, seed: int, per_row: float | None, loss: str = "ncp"
) -> tuple[Solution, float]:
    """Our search from the same start, and CPU seconds of the whole call: units, neighbours, start and search."""
    began = time.process_time()
    found = solve_graph(
        Task(table, k, start=start, budget=Budget(per_row), seed=seed, loss=loss), untie=False
    )
    return found, time.process_time() - began


def improvement(start: float, end: float) -> float:
    """RPI in % (S0, eq. 9)."""
    return 100.0 * (start - end) / start if start > 0 else 0.0


def scan_seconds(table: Table, k: int, loss: str = "ncp") -> float:
    """About what a local search takes: two and a half passes of n^2 k^2 moves (measured; +-50%)."""
    each = (10e-9 + 1.5e-9 * table.attributes) * (1 if loss == "ncp" else 2.5)
    return 2.5 * (table.records * k) ** 2 * each


class Bench:
    """The settings, the findings, and the tables and starts that parts share."""

    def __init__(
        self, settings: argparse.Namespace, findings: Findings, keep: Callable[[], object] = lambda: None
    ) -> None:
        """keep: called after each line, so that a run that breaks leaves what it found."""
        self.settings, self.findings, self.keep = settings, findings, keep
        self.charts: dict[str, str] = {}

    def table(self, name: str, rows: int) -> Table | None:
        """A data set; None, and why, when it is not there."""
        try:
            table = data_table(name, rows)
        except MissingDataError as missing:
            self.skip(f"{name}: {missing}")
            return None
        if table is None:
            self.skip(f"{name}: fewer than {rows:,} rows")
        return table

    def begin(self, name: str, table: Table, k: int, start: str, seed: int) -> Begun | None:
        """A start; None, and why, when it cannot be built."""
        if start == SLOW_START and name != SLOW_START_DATA:
            self.skip(f"{start}: on {SLOW_START_DATA} only, as in S0 (minutes on the wide set; numbers only)")
            return None
        begun = begin(table, k, start, seed)
        if isinstance(begun, str):
            self.skip(f"{name}: {begun}")
            return None
        return begun

    def skip(self, why: str) -> None:
        """Say once what was not measured."""
        if why not in self.findings.skipped:
            self.findings.skipped.append(why)

    def seeds(self, seconds: float) -> list[int]:
        """All seeds for runs of so many seconds each, or the first one."""
        return self.settings.seeds if seconds <= self.settings.seed_seconds else self.settings.seeds[:1]
