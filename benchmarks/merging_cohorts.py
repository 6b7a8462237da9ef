"""What does merging cohorts for a window gain over its start, what does it cost, and what is a warm start worth?

Data: sparkov, 14 days and all its weeks, and the weeks of complete_journey, under their example policies. Everybody is
known from the start: a point a person, its first row's quasi-identifiers, over the domains of all these points. Cohorts
of 5 are closed classes of those points (``solve`` with ``shape="classes"``, 20,000 evaluations a person, seed 1). Each
window then merges the cohorts with rows in it, k = 5: cold, or from the groups of the window before. Loss: rows of a
group x NCP of the hull of its cohorts' boxes, by rows, of each window; the mean of the windows. One thread, seed 1.

No floor: every cohort by itself, which is what remains of the loss if nobody has to be merged. CPU us a row: of
``merge_cohorts`` over all windows by all their rows. Kept: groups that are a group of the last window restricted to the
cohorts here, by groups. Evaluations to the loss of the cold search with the default budget: the least of the budgets
tried, as a mean over windows. No ratios are formed: losses stand beside each other, of equal windows.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data_sets import (
    COMPLETE_JOURNEY,
    DAY_MS,
    SPARKOV,
    WEEK_MS,
    Feed,
    MissingDataError,
    data_path,
    example_policy,
    read_feed,
    with_window,
)
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.merging.merging import EVALUATIONS_PER_ROW, Merged, MergeTask, merge_cohorts
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.warm_up import warm_up_merging
from kanonflow.transforms.columns.encode import encode

FOUNDING = 20_000.0
K = 5
# data set -> window, days
FEEDS = {
    "sparkov days": (SPARKOV, DAY_MS, 14),
    "sparkov weeks": (SPARKOV, WEEK_MS, None),
    "complete_journey weeks": (COMPLETE_JOURNEY, WEEK_MS, None),
}
BUDGETS = (0, 5, 10, 20, EVALUATIONS_PER_ROW, 100, 200, 800)
COLUMNS = (
    "feed", "evaluations a row", "start", "windows", "loss", "greedy", "warm groups", "kept %", "merged %",
    "CPU us/row",
)  # fmt: skip


class Window(NamedTuple):
    """The cohorts that are here, ascending, with their rows and active people, int64 (c,) each."""

    cohorts: NDArray[np.int64]
    rows: NDArray[np.int64]
    active: NDArray[np.int64]


class Roster(NamedTuple):
    """points: a row a person, whose individuals are the people's cohorts. windows: in the order of time."""

    points: Table
    windows: list[Window]

    def task(self, window: Window, k: int) -> MergeTask:
        """The window's task, cold."""
        assert self.points.individuals is not None
        here = np.isin(self.points.individuals, window.cohorts)
        table = replace(
            self.points,
            numeric=self.points.numeric[here],
            categorical=self.points.categorical[here],
            individuals=np.searchsorted(window.cohorts, self.points.individuals[here]),
        )
        return MergeTask(table, window.rows, window.active, k, 1)


def roster_of(feed: Feed, cohort_size: int) -> Roster:
    """Everybody of a feed, known from the start by their first row, in cohorts of at least ``cohort_size``."""
    individual = feed.bound.policy.individual
    assert individual is not None
    everything = pa.concat_tables([window.rows for window in feed.windows])
    people, first = np.unique(everything.column(individual.name).to_numpy(), return_index=True)
    encoded = encode(everything.take(pa.array(first)), feed.bound, None, {}).table
    points = replace(encoded, individuals=np.arange(people.size), lattice=None)
    found = solve(Task(points, cohort_size, shape="classes", budget=Budget(FOUNDING), seed=1))
    cohort = found.partition.labels.astype(np.int64)
    windows = []
    for window in feed.windows:
        person = np.searchsorted(people, window.rows.column(individual.name).to_numpy())
        rows = np.bincount(cohort[person], minlength=cohort.max() + 1)
        active = np.bincount(cohort[np.unique(person)], minlength=cohort.max() + 1)
        here = np.flatnonzero(rows)
        windows.append(Window(here, rows[here], active[here]))
    return Roster(replace(points, individuals=cohort), windows)


class Course(NamedTuple):
    """The answers to a feed's windows, and CPU seconds of all."""

    found: list[Merged]
    cpu: float


def course(roster: Roster, per_row: int, *, warm: bool, k: int = K) -> Course:
    """All windows one after the other; warm: each from the groups of the one before."""
    assert roster.points.individuals is not None
    last = np.full(int(roster.points.individuals.max()) + 1, -1, dtype=np.int64)
    found, cpu = [], 0.0
    for number, window in enumerate(roster.windows):
        task = replace(roster.task(window, k), evaluations=per_row * int(window.rows.sum()))
        if warm and number:
            task = replace(task, warm=last[window.cohorts])
        merged, spent = timed(merge_cohorts, task)
        cpu += spent.cpu
        found.append(merged)
        last[:] = -1
        last[window.cohorts] = merged.labels
    return Course(found, cpu)


def add_course(findings: Findings, name: str, roster: Roster, per_row: int, start: str, run: Course) -> None:
    """One row."""
    groups = sum(int(merged.labels.max()) + 1 for merged in run.found)
    warm = [merged.warm_loss for merged in run.found if merged.warm_loss is not None]
    findings.tables[0].rows.append(
        (
            name,
            per_row,
            start,
            len(run.found),
            float(np.mean([merged.loss for merged in run.found])),
            float(np.mean([merged.greedy_loss for merged in run.found])),
            float(np.mean(warm)) if warm else None,
            100 * sum(merged.groups_kept for merged in run.found) / groups if warm else None,
            100 * sum(merged.groups_merged for merged in run.found) / groups,
            1e6 * run.cpu / sum(int(window.rows.sum()) for window in roster.windows),
        )
    )


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Merging cohorts, cold and warm.")
    parser.add_argument("--feeds", nargs="+", choices=list(FEEDS), default=list(FEEDS))
    parser.add_argument("--budgets", type=int, nargs="+", default=list(BUDGETS), help="evaluations a row")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("merging_cohorts", __doc__ or "")
    findings.table("Merging cohorts of 5 to 5 active people", COLUMNS)
    mark = findings.table(
        "Evaluations to the loss of a cold search with the default budget",
        ("feed", "mark", "cold, a row", "warm, a row"),
        "The least budget tried at or below the mark.",
    )
    warm_up_merging()
    for name in arguments.feeds:
        data, window_ms, days = FEEDS[name]
        try:
            path = data_path(data)
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
            continue
        roster = roster_of(read_feed(path, with_window(example_policy(data.name), window_ms), days=days), K)
        add_course(findings, name, roster, 0, "no floor", course(roster, 0, warm=False, k=1))
        losses: dict[tuple[str, int], float] = {}
        for per_row in arguments.budgets:
            for start in ("cold", "warm"):
                run = course(roster, per_row, warm=start == "warm")
                add_course(findings, name, roster, per_row, start, run)
                losses[start, per_row] = float(np.mean([merged.loss for merged in run.found]))
        if ("cold", EVALUATIONS_PER_ROW) in losses:
            goal = losses["cold", EVALUATIONS_PER_ROW]
            reached = [
                min((b for b in arguments.budgets if losses[start, b] <= goal), default=None)
                for start in ("cold", "warm")
            ]
            mark.rows.append((name, goal, *reached))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
