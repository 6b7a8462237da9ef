"""What is the previous window worth to the next one, and whom do its classes leave over several?

Data: sparkov, windows of a day and of a week (aligned to the epoch: weeks start on Thursdays; the first and
the last one are cut), ``protect: row`` and ``protect: individual``, the example policies, k = 5; rows may
wait two windows. Feeds run through ``release_window`` window by window, one thread, one fixed secret, so
seeds are the product's own and fixed.

Pairs: every window of the warm chain is solved again cold (same table, waiting rows, domains, seed and
budget, but no previous structure). So a ratio warm / cold compares one problem with itself; ratios are
formed a window and averaged, the error is their standard error. The first window, which is cold, is left
out. Loss: GCP of the hulls, waiting rows count 1. Each budget (a multiple of the default) has its own
chain, whose state carries that budget's effort only. A window is won when the warm loss is lower. The
search itself takes the cheaper of the warm and the cold start; ``warm start taken`` says how often that is
the warm one. ``row, old graph always`` is a chain whose cold start (the constructive graph) is always
dearer, so that the old graph is searched even where the default cold start is cheaper; its pairs are with
the default cold start. Times are CPU time of the solver, both starts included in a warm one.

Evaluations to reach: the target is the loss of a cold start after a third of the default budget, the state
that of a chain with a third. The same problem is solved warm with budgets of 0, 1%, 3%, 10% and a third of
the default; the answer is the fewest evaluations at which any of their traces is at the target or below.
Speed-up = evaluations of the cold search / that (at least 1 evaluation a row is counted, for reading the
old structure); a window that never reaches counts as not reached.

peer_retention: share of returning pairs of peers that are peers again, in the warm chain and in a chain of
cold solutions.

Candidates (individual mode): for an individual of the last window, how many individuals (itself included)
stood in its class in each of the last five windows in which it was released, at the default budget; waiting
and rejected rows are shares of the rows that arrived.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from benchmarks.stopwatch import timed
from benchmarks.window_chain import Problem, Step, chain, with_budget, with_start
from kanonflow.schemas.policy import Protection
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.warm_up import warm_up
from kanonflow.transforms.release.cohorts import peer_retention
from kanonflow.transforms.release.warm_state import Cohorts

WINDOWS = {"day": DAY_MS, "week": WEEK_MS}
POLICIES = {"row": "sparkov_rows", "row, old graph always": "sparkov_rows", "individual": "sparkov"}
# Dearer than any old graph, so that the search never prefers it to one.
DEAR_START = "constructive"
# Shares of the default budget at which a warm search is tried for the loss that a cold one has after THIRD.
LADDER = (0.0, 0.01, 0.03, 0.1)
THIRD = 1 / 3
LAST_WINDOWS = 5

# Of one window: its end, who was released, the class of each.
Entry = tuple[int, NDArray[np.uint64], NDArray[np.int64]]


@dataclass
class Pairs:
    """Per window of one chain: losses warm and cold, CPU seconds, retention."""

    warm: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    warm_cpu: list[float] = field(default_factory=list)
    cold_cpu: list[float] = field(default_factory=list)
    warm_taken: list[bool] = field(default_factory=list)
    warm_begin: list[float] = field(default_factory=list)
    cold_begin: list[float] = field(default_factory=list)
    warm_kept: list[float] = field(default_factory=list)
    cold_kept: list[float] = field(default_factory=list)
    rows: int = 0
    reached: list[float | None] = field(default_factory=list)

    def row(self) -> tuple[Any, ...]:
        """The columns of the table of pairs, from ``windows`` on."""
        ratios = np.array(self.warm) / np.array(self.cold)
        error = float(ratios.std(ddof=1) / np.sqrt(ratios.size)) if ratios.size > 1 else None
        return (
            ratios.size,
            float(np.mean(self.cold)),
            float(np.mean(self.warm)),
            float(ratios.mean()),
            error,
            100 * float((ratios < 1).mean()),
            100 * float((ratios == 1).mean()),
            mean_or_none(self.cold_begin),
            mean_or_none(self.warm_begin),
            100 * float(np.mean(self.warm_taken)),
            mean_or_none(self.cold_kept),
            mean_or_none(self.warm_kept),
            1e3 * sum(self.cold_cpu) / self.rows,
            1e3 * sum(self.warm_cpu) / self.rows,
        )


def mean_or_none(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return float(np.mean(values)) if len(values) else None


def default_evaluations(feed: Feed) -> float:
    """The default budget of a feed's mode, evaluations a row of a mean window."""
    closed = feed.bound.policy.protect is Protection.INDIVIDUAL
    rows = feed.rows // len(feed.windows)
    return Budget().evaluations(rows, feed.bound.policy.k, classes=closed) / rows


def solved(steps: Iterator[Step]) -> Iterator[tuple[Step, Problem, Solution]]:
    """The windows in which something was solved."""
    for step in steps:
        if step.problem is not None and step.solution is not None:
            yield step, step.problem, step.solution


def measure_pairs(feed: Feed, evaluations: float, *, ladder: bool) -> Pairs:
    """A warm chain at one budget, each window also cold. ladder: also look for the evaluations to the target."""
    pairs = Pairs()
    before = cold_before = Cohorts()
    for step, problem, solution in solved(chain(feed, with_budget(feed.bound, evaluations))):
        cold, cold_spent = timed(problem.solve, evaluations, warm=False)
        cold_after = problem.cohorts(cold, cold_before)
        if problem.warm is not None:
            pairs.warm.append(solution.loss)
            pairs.cold.append(cold.loss)
            pairs.warm_cpu.append(step.solve_cpu)
            pairs.cold_cpu.append(cold_spent.cpu)
            pairs.warm_taken.append(solution.start == "warm")
            _note(pairs.cold_begin, solution.cold_loss)
            _note(pairs.warm_begin, solution.warm_loss)
            pairs.rows += problem.table.records
            _note(pairs.warm_kept, peer_retention(before, step.after.cohorts))
            _note(pairs.cold_kept, peer_retention(cold_before, cold_after))
            if ladder:
                pairs.reached.append(_speed_up(problem, solution, cold, evaluations / THIRD))
        before, cold_before = step.after.cohorts, cold_after
    return pairs


def _note(values: list[float], value: float | None) -> None:
    if value is not None:
        values.append(value)


def _speed_up(problem: Problem, warm: Solution, cold: Solution, default: float) -> float | None:
    """Evaluations of the cold search over those that the warm one needs for the same loss; None: never reached."""
    # Traces are compared with a trace: a solution's own loss also counts repairs made after the search.
    target = cold.trace[-1][1] * (1 + 1e-9)
    traces = [warm.trace, *(problem.solve(share * default, warm=True).trace for share in LADDER)]
    needed = [spent for trace in traces for spent, loss in trace if loss <= target]
    return cold.evaluations / max(min(needed), problem.table.records) if needed else None


def candidates(history: Sequence[Entry]) -> NDArray[np.int64]:
    """For each individual of the last window, int64: who shared its class in every window in which it was released.

    history: of windows, oldest first. O(windows people^2), plainly.
    """
    _, people, labels = history[-1]
    together = labels[:, None] == labels[None, :]
    for _, old_people, old_labels in history[:-1]:
        known = dict(zip(old_people.tolist(), old_labels.tolist(), strict=True))
        old = np.array([known.get(person, -1) for person in people.tolist()])
        together &= (old[:, None] < 0) | (old[:, None] == old[None, :])
    return together.sum(axis=1)


def measure_classes(feed: Feed) -> tuple[Any, ...]:
    """A chain of classes, from ``windows`` on."""
    bound = feed.bound
    history: list[Entry] = []
    arrived = released = 0
    losses: list[float] = []
    hulls: list[float] = []
    waiting: list[float] = []
    kept: list[float] = []
    found: list[NDArray[np.int64]] = []
    before = Cohorts()
    for step, _, solution in solved(chain(feed, bound)):
        arrived += step.new_rows
        released += step.metrics["rows_released"]
        losses.append(solution.loss)
        _note(hulls, step.metrics["gcp_hull"])
        waiting.append(step.metrics["rows_waiting"] / step.new_rows)
        _note(kept, peer_retention(before, step.after.cohorts))
        before = step.after.cohorts
        history = [*history, before.history[-1]][-LAST_WINDOWS:]
        if len(history) == LAST_WINDOWS:
            found.append(candidates(history))
    left = step.metrics["rows_waiting"]
    return (
        len(losses),
        float(np.mean(losses)),
        float(np.mean(hulls)),
        100 * float(np.mean(waiting)),
        100 * (arrived - released - left) / arrived,
        mean_or_none(kept),
        min((int(counts.min()) for counts in found), default=None),
        mean_or_none([float(counts.mean()) for counts in found]),
        mean_or_none([100 * float((counts >= bound.policy.k).mean()) for counts in found]),
        mean_or_none([100 * float((counts == 1).mean()) for counts in found]),
    )


def add_tables(findings: Findings) -> None:
    """The three tables, still empty."""
    findings.table(
        "Cold against warm, the same windows",
        ["window", "mode", "budget", "windows", "cold loss", "warm loss", "warm/cold", "error", "won %", "tied %",
         "cold start", "warm start", "warm start taken %", "peers kept cold", "peers kept warm", "cold CPU ms/row",
         "warm CPU ms/row"],
        "warm/cold: mean over windows of the ratio of losses, with its standard error; below 1 warm is better."
        " cold start, warm start: mean losses before the search. tied: where the cold start was taken, mostly.",
    )  # fmt: skip
    findings.table(
        "Evaluations to the loss of a cold start after a third of the default budget",
        ["window", "mode", "windows", "reached %", "median speed-up", "10th percentile", "90th percentile"],
        "Speed-up: times fewer evaluations; of the windows that reached it.",
    )
    findings.table(
        "Classes over several windows (protect: individual), default budget",
        ["window", "windows", "loss", "GCP of the released", "waiting %", "rejected %", "peers kept",
         "fewest candidates", "mean candidates", "with >= k %", "alone %"],
        f"Candidates over {LAST_WINDOWS} windows; fewest of any window, the others are means over windows.",
    )  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Cold against warm starts, and candidates over several windows."
    )
    parser.add_argument("--days", type=int, help="only the first days")
    parser.add_argument("--windows", nargs="+", choices=list(WINDOWS), default=list(WINDOWS))
    parser.add_argument("--modes", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--budgets", type=float, nargs="+", default=[0.1, THIRD, 1.0], help="x default")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("warm_start", __doc__ or "")
    try:
        path = data_path(SPARKOV)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    warm_up()
    add_tables(findings)
    for window in arguments.windows:
        for mode in arguments.modes:
            feed = read_feed(
                path, with_window(example_policy(POLICIES[mode]), WINDOWS[window]), days=arguments.days
            )
            if mode == "row, old graph always":
                feed = feed._replace(bound=with_start(feed.bound, DEAR_START))
            measure_feed(feed, window, mode, arguments.budgets, findings)
    return publish(findings, arguments, begun)


def measure_feed(feed: Feed, window: str, mode: str, budgets: Sequence[float], findings: Findings) -> None:
    """Add one feed's rows to the tables."""
    pairs_table, reach_table, classes_table = findings.tables
    default = default_evaluations(feed)
    for share in sorted({*budgets, THIRD}):
        pairs = measure_pairs(feed, share * default, ladder=share == THIRD)
        if not pairs.warm:
            findings.skipped.append(f"{window}, {mode}: no window had one before it")
            return
        pairs_table.rows.append((window, mode, f"{share:.3g} x default", *pairs.row()))
        if share == THIRD:
            found = [value for value in pairs.reached if value is not None]
            spread = np.percentile(found, [50, 10, 90]).tolist() if found else [None] * 3
            reach_table.rows.append(
                (window, mode, len(pairs.reached), 100 * len(found) / len(pairs.reached), *spread)
            )
    if mode == "individual":
        classes_table.rows.append((window, *measure_classes(feed)))


if __name__ == "__main__":
    raise SystemExit(main())
