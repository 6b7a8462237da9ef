"""What are the heterogeneous constructions worth, by themselves and as starts of our search?

Constructions: Greedy, SortGreedy and Hungarian (S2, Doka et al., and its long version), the ring (the fixed form that
S2 improves on), insertion, SortGreedy in blocks; beside them the homogeneous starts l-greedy and k-d leaves, and Split
& Carry where it applies. Data: the first n rows of Adult (8 quasi-identifiers, domains of those rows), of
complete_journey (7 categorical ones, many equal rows) and of sparkov (6, dates and places among them; two rows of one
card holder never share a slot), and a generated table of 4 integers as S0's census extract has them (units and size of
a family, age of the eldest and the youngest child; 99: none).

Loss: GCP of the hulls. CPU seconds: of one thread of this process, kernels loaded; ``alone`` is the call that groups
rows, builds the tree and the neighbours and constructs (method), ``searched`` the call that goes on with the default
number of evaluations (start), the exchange of tied edges included. One seed. ``to Hungarian``: the ratio of losses in
this run. What a method refuses is listed with its own words.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from benchmarks.data_sets import (
    ADULT,
    COMPLETE_JOURNEY,
    SPARKOV,
    DataSet,
    MissingDataError,
    adult_table,
    data_path,
    example_policy,
    read_feed,
)
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.errors import UnservedError
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.transforms.columns.encode import encode

STARTS = (
    "ring",
    "greedy",
    "sort-greedy",
    "sort-greedy-blocks",
    "hungarian",
    "insertion",
    "split-and-carry",
    "kd-leaves",
    "l-greedy",
)
SEED = 1
ROWS = [1_000, 2_000, 5_000]
# Beyond this Split & Carry, at 10 ms a row, is not run here.
MOST_ROWS_SPLIT = 2_000
COLUMNS = (
    "data",
    "rows",
    "k",
    "construction",
    "GCP alone",
    "to Hungarian",
    "CPU s alone",
    "GCP searched",
    "searched, to l-greedy",
    "CPU s searched",
)


def feed_table(data: DataSet, policy_name: str, rows: int) -> Table:
    """The first rows of a feed as one table, individuals apart if the policy protects rows."""
    policy = example_policy(policy_name)
    feed = read_feed(data_path(data), policy, rows=4 * rows)
    joined = pa.concat_tables([window.rows for window in feed.windows]).slice(0, rows)
    people = joined.column(policy.individual.name) if policy.individual is not None else None
    individuals = None
    if people is not None and policy_name == "sparkov_rows":
        individuals = np.asarray(people.combine_chunks().dictionary_encode().indices).astype(np.int64)
    return replace(encode(joined, feed.bound, None, {}).table, individuals=individuals)


def census_like(rows: int) -> Table:
    """Units and size of a family, age of the eldest and the youngest child, generated; each over its own range."""
    rng = np.random.default_rng(20)
    units = 1 + (rng.random(rows) < 0.04) * rng.integers(1, 4, rows)
    size = np.minimum(1 + rng.poisson(1.8, rows), 12)
    children = (size >= 3) & (rng.random(rows) < 0.8)
    eldest = np.where(children, rng.integers(0, 30, rows), 99)
    youngest = np.where(children, np.maximum(eldest - rng.integers(0, 9, rows) * (size > 3), 0), 99)
    columns = np.stack([units, size, eldest, youngest], axis=1).astype(float)
    scaled = (columns - columns.min(axis=0)) / np.ptp(columns, axis=0)
    return Table(scaled, np.empty((rows, 0), np.int32), np.empty(0, np.int64), np.ones(4))


TABLES: dict[str, Callable[[int], Table]] = {
    "adult": lambda rows: adult_table(data_path(ADULT), rows),
    "complete_journey": lambda rows: feed_table(COMPLETE_JOURNEY, "complete_journey", rows),
    "sparkov": lambda rows: feed_table(SPARKOV, "sparkov_rows", rows),
    "census-like": census_like,
}


def measure(name: str, table: Table, k: int, findings: Findings) -> None:
    """Every construction on one table, alone and searched."""
    found, refused = findings.tables
    alone = {}
    for start in STARTS:
        if start == "split-and-carry" and table.records > MOST_ROWS_SPLIT and not table.categorical.shape[1]:
            refused.rows.append((name, table.records, k, start, "not refused; not run here for its time"))
            continue
        try:
            solution, spent = timed(solve, Task(table, k, seed=SEED), start)
        except UnservedError as refusal:
            refused.rows.append((name, table.records, k, start, str(refusal)))
            continue
        if solution.start != start:
            refused.rows.append(
                (name, table.records, k, start, "finds no graph for these individuals; kd-leaves stands in")
            )
            continue
        alone[start] = solution.start_loss, spent.cpu
    searched = {
        start: timed(solve, Task(table, k, start=start, budget=Budget(), seed=SEED))
        for start in alone
        if start != "split-and-carry"
    }
    base = alone.get("hungarian", (None,))[0]
    ours = searched["l-greedy"][0].loss if "l-greedy" in searched else None
    for start, (loss, cpu) in alone.items():
        end = searched.get(start)
        found.rows.append(
            (
                name,
                table.records,
                k,
                start,
                loss,
                None if base is None else loss / base,
                cpu,
                None if end is None else end[0].loss,
                None if end is None or ours is None else end[0].loss / ours,
                None if end is None else end[1].cpu,
            )
        )


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Heterogeneous constructions, alone and as starts.")
    parser.add_argument("--data", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--k", type=int, nargs="+", default=[3, 5, 10])
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    parts = arguments.data if len(arguments.data) == 1 else []
    parts = [*parts, *(str(rows) for rows in arguments.rows if arguments.rows != ROWS)]
    name = "_".join(["heterogeneous", *parts]).replace("-", "_")
    findings = Findings(name, __doc__ or "", module="heterogeneous" if parts else None)
    findings.table("Loss and time", COLUMNS, "A ratio below 1 is better than the one it is to.")
    findings.table("Refused", ["data", "rows", "k", "construction", "in its own words"])
    for data in arguments.data:
        try:
            tables = [TABLES[data](rows) for rows in arguments.rows]
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
            continue
        tiny = TABLES[data](60)
        for start in STARTS:
            try:
                solve(Task(tiny, 3, start=start, budget=Budget(10.0), seed=SEED))
            except UnservedError:
                continue
        for table in tables:
            for k in arguments.k:
                measure(data, table, k, findings)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
