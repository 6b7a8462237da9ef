"""What do rules for sensitive values cost, and does the search still search under them?

Closed classes, k = 10, each window by itself and cold, seed as given, one thread. Data: Adult (each row its own
individual, ``salary-class``: two values, one on 75% of the rows), and sparkov (individuals): ``merchant`` (693 values)
by days, ``category`` (14 values) by days, 28 days and the whole quarter. On most days of sparkov one category has more
than half of the rows, so rules for it need longer windows. A rule is l-diversity of a kind, or t-closeness by a
distance.

Loss: GCP of the hulls, rows that wait count 1; start and end of the search. The start under rules is another one than
the plain start: it must meet them. improvement: (start - end) / start; with gate / without: improvement under the rule
to that without; start - end, with / without: the same of the differences themselves. classes that break it: without the
rule, and with it, counted here afresh from labels and values. infeasible: windows of which not even all rows together
meet the rule. to plain: ratio of losses a window. CPU ms/row: of the whole solve. Means over the windows that are
feasible.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import (
    ADULT,
    DAY_MS,
    SPARKOV,
    MissingDataError,
    data_path,
    example_policy,
    read_feed,
    with_window,
)
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import NotDiverseError
from kanonflow.solvers.problem.sensitive import Sensitive
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.solution import Solution
from kanonflow.solvers.warm_up import warm_up
from kanonflow.transforms.columns.encode import encode

K = 10
COLUMNS = (
    "data", "rule", "windows", "infeasible", "loss at start", "loss", "to plain", "improvement", "with gate / without",
    "start - end, with / without", "waiting %", "classes that break it, plain", "with the rule",
    "individuals a class", "CPU ms/row",
)  # fmt: skip
FREQUENCIES = (("frequency", 2), ("frequency", 3), ("frequency", 4))
CATEGORY_RULES = (*FREQUENCIES, ("distinct", 4), ("equal", 0.2))
ADULT_RULES = (("distinct", 2), ("frequency", 2), ("equal", 0.1))


class Window(NamedTuple):
    """table: of a window. values: int64 (n,), the sensitive field."""

    table: Table
    values: NDArray[np.int64]


class Case(NamedTuple):
    """A data set with the rules to measure on it, and evaluations a row, None for the default."""

    name: str
    read: Callable[[], list[Window]]
    rules: Sequence[tuple[str, float]]
    evaluations: float | None


class Run(NamedTuple):
    """A window's solution under a rule; None where it is infeasible. cpu: seconds."""

    solution: Solution | None
    cpu: float


def rule_of(values: NDArray[np.int64], kind: str, limit: float) -> Sensitive:
    """The rule that a table's row names."""
    if kind in ("equal", "ordered"):
        return Sensitive(values, distance=kind, t=limit)
    return Sensitive(values, kind, limit)


def broken(labels: NDArray[np.int32], values: NDArray[np.int64], kind: str, limit: float) -> int:
    """How many classes break a rule, counted a class at a time."""
    whole = Counter(values[labels >= 0].tolist())
    classes: dict[int, Counter[int]] = {}
    for label, value in zip(labels.tolist(), values.tolist(), strict=True):
        if label >= 0:
            classes.setdefault(label, Counter())[value] += 1
    return sum(not _met(counts, whole, kind, limit) for counts in classes.values())


def _met(counts: Counter[int], whole: Counter[int], kind: str, limit: float) -> bool:
    rows, every = counts.total(), whole.total()
    if kind == "distinct":
        return len(counts) >= limit
    if kind == "frequency":
        return max(counts.values()) * limit <= rows
    if kind == "entropy":
        return sum(c / rows * math.log(rows / c) for c in counts.values()) >= math.log(limit) - 1e-7
    return sum(max(0.0, c / rows - whole[v] / every) for v, c in counts.items()) <= limit + 1e-7


def solved(window: Window, rule: Sensitive | None, budget: Budget, seed: int) -> Run:
    """One window."""
    sensitive = () if rule is None else (rule,)
    try:
        solution, spent = timed(
            solve, Task(window.table, K, shape="classes", budget=budget, seed=seed, sensitive=sensitive)
        )
    except NotDiverseError:
        return Run(None, 0.0)
    return Run(solution, spent.cpu)


def individuals_a_class(windows: Sequence[Window], solutions: Sequence[Solution]) -> float:
    """Mean number over all classes."""
    people = classes = 0
    for window, solution in zip(windows, solutions, strict=True):
        labels = solution.partition.labels
        who = window.table.individuals
        own = np.arange(labels.size) if who is None else who
        people += np.unique(own[labels >= 0]).size
        classes += solution.partition.classes
    return people / max(1, classes)


def add_rule(
    table: ResultTable,
    data: str,
    windows: list[Window],
    plain: list[Run],
    kind: str,
    limit: float,
    runs: list[Run],
) -> None:
    """One row: a rule over all windows of a data set."""
    feasible = [place for place, run in enumerate(runs) if run.solution is not None]
    infeasible = len(runs) - len(feasible)
    name = "none" if kind == "plain" else f"{kind} {limit:g}"
    if not feasible:
        table.rows.append((data, name, len(runs), infeasible, *[None] * (len(COLUMNS) - 4)))
        return
    used = [windows[place] for place in feasible]
    solutions = [run.solution for run in runs if run.solution is not None]
    without = [run.solution for place, run in enumerate(plain) if place in feasible and run.solution]
    start, end = (np.array([getattr(s, name) for s in solutions]) for name in ("start_loss", "loss"))
    start0, end0 = (np.array([getattr(s, name) for s in without]) for name in ("start_loss", "loss"))
    rows = sum(window.table.records for window in used)
    breaks: list[Any] = [None, None]
    if kind != "plain":
        breaks = [
            sum(broken(s.partition.labels, w.values, kind, limit) for s, w in zip(some, used, strict=True))
            for some in (without, solutions)
        ]
    gain = float(np.mean(1 - end / start))
    plain_gain = float(np.mean(1 - end0 / start0))
    table.rows.append(
        (
            data,
            name,
            len(runs),
            infeasible,
            float(start.mean()),
            float(end.mean()),
            float(np.mean(end / end0)),
            gain,
            gain / plain_gain,
            float((start - end).mean() / (start0 - end0).mean()),
            100 * sum(int((s.partition.labels < 0).sum()) for s in solutions) / rows,
            *breaks,
            individuals_a_class(used, solutions),
            1e3 * sum(runs[place].cpu for place in feasible) / rows,
        )
    )


def sparkov_windows(window_ms: int, days: int, field: str) -> list[Window]:
    """The windows that begin in the first days, with a field of theirs."""
    policy = with_window(example_policy("sparkov"), window_ms)
    feed = read_feed(data_path(SPARKOV), policy, days=days)
    found = []
    for window in feed.windows:
        who = window.rows.column("cc_num").combine_chunks().dictionary_encode().indices
        table = encode(window.rows, feed.bound, np.asarray(who).astype(np.int64), {}).table
        found.append(Window(table, _codes(window.rows.column(field))))
    return found


def adult_windows(rows: int | None) -> list[Window]:
    """Adult as one window."""
    feed = read_feed(data_path(ADULT), example_policy("adult"), rows=rows)
    table = encode(feed.windows[0].rows, feed.bound, None, {}).table
    return [Window(table, _codes(feed.windows[0].rows.column("salary-class")))]


def _codes(column: Any) -> NDArray[np.int64]:
    return np.asarray(column.combine_chunks().dictionary_encode().indices).astype(np.int64)


def measure(
    table: ResultTable,
    data: str,
    windows: list[Window],
    rules: Sequence[tuple[str, float]],
    budget: Budget,
    seed: int,
) -> None:
    """The plain search and every rule on one data set."""
    plain = [solved(window, None, budget, seed) for window in windows]
    add_rule(table, data, windows, plain, "plain", 0, plain)
    print(data, flush=True)
    for kind, limit in rules:
        runs = [solved(window, rule_of(window.values, kind, limit), budget, seed) for window in windows]
        add_rule(table, data, windows, plain, kind, limit, runs)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Rules for sensitive values inside the search.")
    parser.add_argument("--days", type=int, default=4, help="sparkov: windows of a day in so many days")
    parser.add_argument("--months", type=int, default=3, help="sparkov: windows of 28 days")
    parser.add_argument("--rows", type=int, nargs="*", default=[2000, 30162], help="Adult: first rows")
    parser.add_argument("--evaluations", type=float, help="a row (default: that of the solver)")
    parser.add_argument(
        "--cases", nargs="*", help="only those that contain one of these words; a file of its own"
    )
    parser.add_argument("--seed", type=int, default=1)
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("_".join(["diversity", *(arguments.cases or [])]), __doc__ or "")
    table = findings.table("Rules for sensitive values on closed classes, k = 10", COLUMNS)
    days, long = arguments.days, 28 * DAY_MS
    warm_up()
    cases: list[Case] = [
        Case(f"adult, {rows:,} rows", partial(adult_windows, rows), ADULT_RULES, arguments.evaluations)
        for rows in arguments.rows
    ]
    for name, field, size, until, rules in (
        ("merchant, days", "merchant", DAY_MS, days, FREQUENCIES),
        ("category, days", "category", DAY_MS, days, FREQUENCIES),
        ("category, 28 days", "category", long, 28 * arguments.months, CATEGORY_RULES),
        ("category, quarter", "category", 4 * long, 4 * 28, FREQUENCIES),
    ):
        cases.append(Case(name, partial(sparkov_windows, size, until, field), rules, arguments.evaluations))
    for case in cases:
        if arguments.cases and not any(word in case.name for word in arguments.cases):
            continue
        try:
            measure(table, case.name, case.read(), case.rules, Budget(case.evaluations), arguments.seed)
        except MissingDataError as missing:
            if str(missing) not in findings.skipped:
                findings.skipped.append(str(missing))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
