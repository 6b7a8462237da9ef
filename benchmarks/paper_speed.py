"""The parts of paper_tables that are about time: anytime curves, evaluation, time to the same loss, perturbation."""

from __future__ import annotations

import numpy as np

from benchmarks.line_charts import line_chart, thinned
from benchmarks.paper_runs import HEURISTICS, Bench, improvement, our_run, paper_run
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.rivals.paper_search import PaperSearch
from kanonflow.solvers.solution import Solution

TARGET_WHOLE, TARGET_SEARCH = 100.0, 500.0
MOST_PER_ROW = 50_000.0


def anytime_part(bench: Bench) -> None:
    """Fig. 5: loss over time at k = 5, S0's iterated search and ours from the same starts."""
    rows, k = min(bench.settings.rows), 5
    table = bench.findings.table(
        "Loss over time, k = 5",
        ["data", "start", "search", *(f"{at:g} s" for at in bench.settings.times), "last better at s"],
        "CPU seconds of the search alone; S0: iterated, perturbation 10; ours: its own budgets.",
    )  # fmt: skip
    for name in bench.settings.data:
        data = bench.table(name, rows)
        if data is None:
            continue
        lines: dict[str, list[tuple[float, float]]] = {}
        for start in HEURISTICS[:3]:
            begun = bench.begin(name, data, k, start, bench.settings.seeds[0])
            if begun is None:
                continue
            longest = bench.settings.times[-1]
            run = paper_run(
                data,
                begun.members,
                PaperSearch(),
                seed=1,
                most_seconds=longest,
                iterated=True,
                evaluations=10**12,
            )
            lines[f"S0, {start}"] = best_so_far(run.points)
            lines[f"ours, {start}"] = our_curve(data, k, start, longest)
        for label, points in lines.items():
            search, start = label.split(", ")
            table.rows.append(
                (name, start, search, *(at_time(points, at) for at in bench.settings.times),
                 last_better(points))
            )  # fmt: skip
        shown = {label: thinned(points) for label, points in lines.items()}
        bench.charts[f"paper_tables_anytime_{name}.svg"] = line_chart(
            f"{name}, {rows:,} rows, k = {k}", "CPU seconds of the search", "GCP", shown
        )


def our_curve(data: Table, k: int, start: str, longest: float) -> list[tuple[float, float]]:
    """(CPU seconds of the search alone, loss) of our search at budgets that double until ``longest``."""
    points: list[tuple[float, float]] = []
    per_row = 40.0
    alone = our_run(data, k, start, 1, 0.0)
    while not points or points[-1][0] * 2 <= longest:
        found, seconds = our_run(data, k, start, 1, per_row)
        points.append((max(seconds - alone[1], 1e-6), found.loss))
        per_row *= 2
    return best_so_far([(0.0, alone[0].loss), *points])


def best_so_far(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The least loss at or before each time."""
    least = np.minimum.accumulate([loss for _, loss in points])
    return [(at, float(loss)) for (at, _), loss in zip(points, least, strict=True)]


def last_better(points: list[tuple[float, float]]) -> float:
    """When the least loss was first reached."""
    least = min(loss for _, loss in points)
    return next(at for at, loss in points if loss == least)


def at_time(points: list[tuple[float, float]], at: float) -> float:
    """The loss reached by then."""
    return min(loss for seconds, loss in points if seconds <= at)


def evaluation_part(bench: Bench) -> None:
    """As Fig. 4, but of the local search: the same moves with and without what is kept for each slot."""
    table = bench.findings.table(
        "Incremental against non-incremental evaluation",
        ["data", "k", "loss", "evaluations", "incremental ns", "non-incremental ns", "times", "less time %"],
        "One scan after the other from l-greedy, best improvement; both runs make the same moves.",
    )
    for name in bench.settings.data:
        data = bench.table(name, min(bench.settings.rows))
        for k in sorted({5, max(bench.settings.k)}) if data is not None else ():
            begun = bench.begin(name, data, k, "l-greedy", 1) if data is not None else None
            for loss in ("ncp", "sil", "sil-own") if begun is not None else ():
                if data is None or begun is None:
                    continue
                runs = [
                    paper_run(
                        data, begun.members, PaperSearch(loss=loss, incremental=kept), seed=1, most_seconds=1e9,
                        evaluations=bench.settings.evaluations,
                    )
                    for kept in (True, False)
                ]  # fmt: skip
                each = [run.seconds / run.evaluations * 1e9 for run in runs]
                table.rows.append(
                    (
                        name,
                        k,
                        loss,
                        runs[0].evaluations,
                        *each,
                        each[1] / each[0],
                        100 * (1 - each[0] / each[1]),
                    )
                )


def optimum_part(bench: Bench) -> None:
    """How much faster our search reaches the loss of S0's exhaustive local optimum."""
    table = bench.findings.table(
        "Time to the loss of S0's local optimum, Adult, l-greedy start",
        ["rows", "k", "improvement", "S0 GCP", "S0 s", "ours GCP", "evaluations a row",
         "whole s", "search s", "times, whole", "times, search", "whole met", "search met"],
        "ours: the smallest budget, in steps of a fifth from 20 evaluations a row. Targets at 5,000 rows:"
        f" {TARGET_WHOLE:g} times whole, {TARGET_SEARCH:g} times search alone.",
    )  # fmt: skip
    rows, k = bench.settings.optimum_rows, 5
    data = bench.table("adult-8", rows)
    begun = None if data is None else bench.begin("adult-8", data, k, "l-greedy", 1)
    if data is None or begun is None:
        return
    theirs = paper_run(data, begun.members, PaperSearch(), seed=1, most_seconds=1e9)
    found, whole, alone = reached(data, k, theirs.after)
    times = theirs.seconds / whole, theirs.seconds / alone
    met = times[0] >= TARGET_WHOLE, times[1] >= TARGET_SEARCH
    per_row = found.evaluations / rows
    table.rows.append(
        (rows, k, "best", theirs.after, theirs.seconds, found.loss, per_row, whole, alone, *times, *met)
    )


def reached(data: Table, k: int, loss: float) -> tuple[Solution, float, float]:
    """Our first solution at most that loss, or of the largest budget; CPU seconds of the call and of its search."""
    per_row = 20.0
    while True:
        found, whole = our_run(data, k, "l-greedy", 1, per_row)
        if found.loss <= loss or per_row > MOST_PER_ROW:
            whole = min(whole, *(our_run(data, k, "l-greedy", 1, per_row)[1] for _ in range(2)))
            without = min(our_run(data, k, "l-greedy", 1, 0.0)[1] for _ in range(3))
            return found, whole, max(whole - without, 1e-3)
        per_row *= 1.2


def perturbation_part(bench: Bench) -> None:
    """Section 5.4: does shaking the whole graph ever improve on the local optimum?"""
    table = bench.findings.table(
        "S0's perturbation",
        ["data", "rows", "k", "random swaps", "local optimum", "four times as long", "better by %"],
        "Iterated local search from l-greedy with four times the evaluations of its first local search, one seed.",
    )  # fmt: skip
    rows, k = bench.settings.sil_rows, 5
    for name in bench.settings.data:
        data = bench.table(name, rows)
        begun = None if data is None else bench.begin(name, data, k, "l-greedy", 1)
        if data is None or begun is None:
            continue
        single = paper_run(data, begun.members, PaperSearch(), seed=1, most_seconds=1e9)
        for swaps in (1, 10, 100, 0):
            given = PaperSearch(perturbation=swaps)
            run = paper_run(
                data,
                begun.members,
                given,
                seed=1,
                most_seconds=1e9,
                iterated=True,
                evaluations=4 * single.evaluations,
            )
            label = f"n = {rows}" if not swaps else str(swaps)
            table.rows.append(
                (name, rows, k, label, single.after, run.after, improvement(single.after, run.after))
            )
