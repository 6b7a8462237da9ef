"""What does the search on closed classes gain over its start, and what does it cost?

Data: sparkov, windows of a day and of a week, ``protect: individual``, the example policy, k = 5. Each
window by itself: cold, no rows waiting from before, domains of that window. Rivals in the same run: the
start (l-greedy over individuals, in blocks), k-member over individuals, and everybody in one class. Loss:
GCP of the hulls, rows that wait because their individual has more of them than k others count 1. Budgets are
multiples of the default; budget 0 is the start. Means over windows, one thread, seeds as given; ratios are
formed a window (search / start of the same window) and averaged, the error is their standard error.

CPU ms a row: CPU time of the whole ``solve`` over all windows by all their rows, start and neighbours
included.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks.data_sets import (
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
from benchmarks.stopwatch import Spent, timed
from benchmarks.window_chain import Problem, chain, with_method
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.warm_up import warm_up

WINDOWS = {"day": DAY_MS, "week": WEEK_MS}
COLUMNS = (
    "window", "method", "windows", "loss", "to start", "error", "GCP of the released", "waiting %", "to bound",
    "individuals a class", "evaluations a row", "CPU ms/row",
)  # fmt: skip


def problems(feed: Feed) -> list[Problem]:
    """The windows as problems, each by itself; posed through a release that does not search."""
    posed = []
    for window in feed.windows:
        alone = feed._replace(windows=[window])
        posed += [step.problem for step in chain(alone, with_method(feed.bound, "l-greedy")) if step.problem]
    return posed


def default_evaluations(problem: Problem) -> float:
    """The default budget, evaluations a row."""
    rows = problem.table.records
    return Budget().evaluations(rows, problem.k, classes=True) / rows


def individuals_a_class(problem: Problem, solution: Solution) -> float:
    """Mean number of individuals."""
    labels = solution.partition.labels
    assert problem.table.individuals is not None
    pairs = np.unique(np.stack([labels, problem.table.individuals])[:, labels >= 0], axis=1)
    return pairs.shape[1] / max(1, solution.partition.classes)


def add_method(
    findings: Findings,
    window: str,
    method: str,
    posed: Sequence[Problem],
    runs: Sequence[tuple[Solution, Spent]],
    starts: Sequence[float],
) -> None:
    """One row: a method over all windows. starts: loss of each window's start."""
    solutions = [solution for solution, _ in runs]
    losses = np.array([solution.loss for solution in solutions])
    ratios = losses / np.array(starts)
    rows = sum(problem.table.records for problem in posed)
    waiting = sum(int((solution.partition.labels < 0).sum()) for solution in solutions)
    findings.tables[0].rows.append(
        (
            window,
            method,
            len(posed),
            float(losses.mean()),
            float(ratios.mean()),
            float(ratios.std(ddof=1) / np.sqrt(ratios.size)) if ratios.size > 1 else None,
            float(np.mean([gcp(p.table, s.partition) for p, s in zip(posed, solutions, strict=True)])),
            100 * waiting / rows,
            float(np.mean([solution.loss / solution.lower_bound for solution in solutions])),
            float(np.mean([individuals_a_class(p, s) for p, s in zip(posed, solutions, strict=True)])),
            sum(solution.evaluations for solution in solutions) / rows,
            1e3 * sum(spent.cpu for _, spent in runs) / rows,
        )
    )


def measure(
    findings: Findings, window: str, posed: list[Problem], budgets: Sequence[float], seeds: Sequence[int]
) -> None:
    """All methods on one feed's windows."""
    found = [timed(p.solve, 0.0, warm=False, seed=0) for p in posed]
    starts = [solution.loss for solution, _ in found]
    for name, method in (("one class", "pass-through"), ("k-member", "k-member")):
        runs = [
            timed(solve, Task(p.table, p.k, shape=p.shape, seed=0, priority=p.priority), method)
            for p in posed
        ]
        add_method(findings, window, name, posed, runs, starts)
    add_method(findings, window, "start (l-greedy)", posed, found, starts)
    for share in budgets:
        label = "default" if share == 1 else f"{share:.3g} x default"
        for seed in seeds:
            runs = [timed(p.solve, share * default_evaluations(p), warm=False, seed=seed) for p in posed]
            name = f"search, {label}" + (f", seed {seed}" if len(seeds) > 1 else "")
            add_method(findings, window, name, posed, runs, starts)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="The search on closed classes against its start.")
    parser.add_argument("--days", type=int, help="only the first days")
    parser.add_argument("--windows", nargs="+", choices=list(WINDOWS), default=list(WINDOWS))
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.1, 1 / 3, 1.0, 3.0], help="x default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("classes", __doc__ or "")
    findings.table(
        "Closed classes on sparkov",
        COLUMNS,
        "to start: ratio of losses to the start's; below 1 is better. to bound: to LB1, which counts no levels.",
    )
    try:
        path = data_path(SPARKOV)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    warm_up()
    for window in arguments.windows:
        feed = read_feed(path, with_window(example_policy("sparkov"), WINDOWS[window]), days=arguments.days)
        measure(findings, window, problems(feed), arguments.budgets, arguments.seeds)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
