"""How much less loss do several searches leave that are merged by a linear program, than one of as much time?

Data: the first n rows of UCI Adult, 8 quasi-identifiers (age numeric over the range of the rows taken, 7 categorical).
Loss: GCP of the hulls as searched, two-edge cuts left in. ``one``: a single graph search of so many evaluations a row;
``merged``: as many, spent on searches of several seeds and on what the program over their slots makes of them
(solvers/shapes/merged_search.py), whatever the budget (the product merges from a budget on that ``from`` states).

Seconds are CPU seconds of the whole call, one thread, kernels loaded. Equal time: evaluations are taken from the list
until the single search has had at least the merged one's seconds; ``ratio`` is the merged loss to that single loss, the
mean over seeds; ``-`` where no budget of the list was long enough.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks.data_sets import ADULT, MissingDataError, adult_table, data_path
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes import graphs as engine
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.solvers.shapes.merged_search import SHORT, least_evaluations, merging_plan

BUDGETS = (2500.0, 5000.0, 10_000.0, 20_000.0, 40_000.0)
CASES = (
    "1000:3",
    "1000:4",
    "1000:5",
    "1000:10",
    "1000:20",
    "5000:3",
    "5000:4",
    "5000:5",
    "5000:10",
    "30162:3",
)


class Point(NamedTuple):
    """Loss and CPU seconds, means over seeds."""

    loss: float
    seconds: float


def measured(table: Table, k: int, each: float, seeds: list[int], merge: bool) -> Point:
    """Solve with so many evaluations a row, merged or not, whatever the product would choose."""
    found = []
    plan = merging_plan(table.records, k, int(each * table.records), None) or SHORT
    with mock.patch.object(engine, "merging_plan", return_value=plan if merge else None):
        for seed in seeds:
            solution, spent = timed(solve_graph, Task(table, k, budget=Budget(each), seed=seed), untie=False)
            found.append((solution.loss, spent.cpu))
    return Point(*np.mean(found, axis=0).tolist())


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Merged searches against single ones on Adult.")
    parser.add_argument("--cases", nargs="+", default=list(CASES), help="rows:k")
    parser.add_argument("--budgets", type=float, nargs="+", default=list(BUDGETS), help="evaluations a row")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--most-seconds", type=float, default=40.0, help="longer runs end a case")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("merging", __doc__ or "")
    try:
        path = data_path(ADULT)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    small = adult_table(path, 200)
    columns = ["rows", "k", "from", "evaluations a row", "one: GCP", "one: CPU s", "merged: GCP",
               "merged: CPU s", "ratio at equal time"]  # fmt: skip
    found = findings.table("Merged searches and single ones", columns)
    for case in arguments.cases:
        rows, k = (int(part) for part in case.split(":"))
        table = adult_table(path, rows)
        for merge in (False, True):
            measured(small, k, 3000.0, [1], merge)
        points = []
        for each in sorted(arguments.budgets):
            points.append(
                (each, *(measured(table, k, each, arguments.seeds, merge) for merge in (False, True)))
            )
            if max(point.seconds for point in points[-1][1:]) > arguments.most_seconds:
                break
        for each, one, merged in points:
            longer = [other.loss for _, other, _ in points if other.seconds >= merged.seconds]
            ratio = merged.loss / longer[0] if longer else None
            least = least_evaluations(rows, k)
            found.rows.append(
                (rows, k, least, each, one.loss, one.seconds, merged.loss, merged.seconds, ratio)
            )
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
