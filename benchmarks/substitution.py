"""How many evaluations does a warm start save when a part of the records is replaced?

Data: windows of 5,000 records. Adult (8 quasi-identifiers, age numeric, 7 categorical); mixed: a generated table of
four numbers and four categories (benchmarks/generated_tables.py); complete_journey: real retail data under its
example policy, mostly equal rows. Each record is its own individual, so that it can be known again. The next window
keeps 90% (98%) of the records and takes others for the rest. k = 5, one thread, seeds 1, 2, 3 (of the draw and of the
search).

The old graph is what a cold search of the old window finds with the default budget. The mark is the loss of a cold
search of the new window after 0.3 CPU seconds: the evaluations that fit into them, neighbours and start not counted.
The same window is then solved warm with growing budgets; the answer is the fewest evaluations at or below the mark (of
the budgets tried), at least one a row, for the old graph has to be read. They include those made while the old graph
is completed: every box and every pair that a removal or an insertion works out. A warm solve takes the cheaper of the
old graph and the cold start, as the product does. Ratio: evaluations cold / warm; a ``-`` never got there with the
cold search's budget. CPU seconds are of whole solves, neighbours and starts included: an evaluation of a removal takes
several times as long as one of the search. End: loss warm / cold when both have the cold search's evaluations. Targets:
at least 3 times fewer at 90%, 10 times at 98%, for Adult and mixed; the duplicate-heavy data is reported only.

Classes (``cohort: window``): the same, with closed classes and the default budget for both; the cheapest of the cold
start, all old classes and those of them that are cheap is searched. Means of the seeds; taken: how often it was not
the cold one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import (
    ADULT,
    COMPLETE_JOURNEY,
    DAY_MS,
    MissingDataError,
    adult_table,
    data_path,
    example_policy,
    read_feed,
    with_window,
)
from benchmarks.generated_tables import mixed_table
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from benchmarks.timed_budgets import measured_pace
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.last_window import WarmClasses, WarmGraph
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes.classes import solve_classes
from kanonflow.solvers.shapes.graphs import solve_graph
from kanonflow.transforms.columns.encode import encode

ROWS = 5_000
K = 5
SECONDS = 0.3
SHARES = (0.0, 0.1, 0.2, 0.25, 0.3, 0.33, 0.4, 0.5, 0.7, 1.0)
# share of records kept -> evaluations saved at least
TARGETS = {0.9: 3.0, 0.98: 10.0}
REPLACED = (0.0, 0.02, 0.05, 0.1, 0.3)
MIXED = "mixed"


class Measured(NamedTuple):
    """Losses (mark, old graph completed), evaluations of both (None: never), CPU seconds of both, loss at the end."""

    mark: float
    begun: float
    cold: int
    warm: int | None
    cold_cpu: float
    warm_cpu: float | None
    end: float


def part(table: Table, records: NDArray[np.int64]) -> Table:
    """These records, each its own individual under its number in the whole table; ``records`` ascending."""
    return replace(
        table, numeric=table.numeric[records], categorical=table.categorical[records], individuals=records
    )


def pools() -> Iterator[tuple[str, Table | str]]:
    """Each data set's name and whole table, or why it is left out."""
    yield MIXED, mixed_table(4 * ROWS, 1)
    for data in (ADULT, COMPLETE_JOURNEY):
        try:
            path = data_path(data)
        except MissingDataError as missing:
            yield data.name, str(missing)
            continue
        if data is ADULT:
            yield data.name, adult_table(path)
        else:
            feed = read_feed(path, with_window(example_policy(data.name), 3650 * DAY_MS), rows=4 * ROWS)
            largest = max(feed.windows, key=lambda window: window.rows.num_rows)
            yield data.name, encode(largest.rows, feed.bound, None, {}).table


def measure(table: Table, kept: float, seed: int) -> Measured:
    """One replacement of records."""
    old, new, _ = replaced(table, kept, np.random.default_rng(seed))
    graph = solve_graph(Task(part(table, old), K, budget=Budget(), seed=seed), untie=False).graph
    members = old[graph.members]
    place = np.searchsorted(new, members)
    here = new[np.minimum(place, ROWS - 1)] == members
    warm = WarmGraph(np.where(here, place, -1))
    window = part(table, new)
    whole = Budget(SECONDS / measured_pace(window, K, seed).each)
    cold, cold_spent = timed(solve_graph, Task(window, K, budget=whole, seed=seed), untie=False)
    end = solve_graph(Task(window, K, budget=whole, seed=seed, warm=warm), untie=False)
    reached: int | None = None
    warm_cpu: float | None = None
    for share in SHARES if end.loss <= cold.loss else ():
        budget = Budget(share * (whole.evaluations_per_row or 0.0))
        found, spent = timed(solve_graph, Task(window, K, budget=budget, seed=seed, warm=warm), untie=False)
        if found.loss <= cold.loss:
            reached, warm_cpu = max(found.evaluations, ROWS), spent.cpu
            break
    return Measured(
        cold.loss,
        end.warm_loss or 0.0,
        cold.evaluations,
        reached,
        cold_spent.cpu,
        warm_cpu,
        end.loss / cold.loss,
    )


class Windows(NamedTuple):
    """records, ascending: of the old window, of the new one; place: of each of the new one in the old, -1: new."""

    old: NDArray[np.int64]
    new: NDArray[np.int64]
    place: NDArray[np.int64]


def replaced(table: Table, kept: float, generator: np.random.Generator) -> Windows:
    """Two windows of ``ROWS`` records, of which they share so many."""
    records = generator.permutation(table.records)
    old, fresh = np.sort(records[:ROWS]), records[ROWS:]
    stay = np.sort(generator.permutation(old)[: round(kept * ROWS)])
    new = np.sort(np.concatenate([stay, fresh[: ROWS - stay.size]]))
    place = np.searchsorted(old, new)
    here = old[np.minimum(place, ROWS - 1)] == new
    return Windows(old, new, np.where(here, place, -1))


def classes_of(table: Table, kept: float, seed: int) -> tuple[float, ...]:
    """Losses of one replacement: cold start, warm start, both ends; and whether the warm one was taken."""
    windows = replaced(table, kept, np.random.default_rng(seed))
    before = solve_classes(Task(part(table, windows.old), K, budget=Budget(), seed=seed, shape="classes"))
    labels = np.where(windows.place < 0, -1, before.partition.labels[windows.place]).astype(np.int64)
    task = Task(part(table, windows.new), K, budget=Budget(), seed=seed + 100, shape="classes")
    cold, warm = solve_classes(task), solve_classes(replace(task, warm=WarmClasses(labels)))
    begun = np.nan if warm.warm_loss is None else warm.warm_loss
    return cold.start_loss, begun, cold.loss, warm.loss, float(warm.start == "warm")


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Evaluations that a warm start saves when records are replaced."
    )
    parser.add_argument("--classes", action="store_true", help="only the table of classes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("substitution", __doc__ or "")
    columns = ["data", "kept", "seed", "cold start's mark", "old graph", "evaluations cold", "warm", "ratio",
               "CPU s cold", "CPU s warm", "end"]  # fmt: skip
    runs = findings.table("Evaluations to the loss of a cold search after 0.3 s", columns)
    targets = findings.table("Targets, the median of the seeds", ["data", "kept", "ratio", "at least", "met"])
    ends = ["data", "replaced", "cold start", "old classes", "cold", "warm", "ratio", "taken"]
    classes = findings.table("Classes", ends)
    for name, table in pools():
        if isinstance(table, str):
            findings.skipped.append(table)
            continue
        for share in REPLACED:
            tried = np.array([classes_of(table, 1 - share, seed) for seed in arguments.seeds])
            start, begun_with, cold, warm, taken = tried.mean(axis=0).tolist()
            ratio = float((tried[:, 3] / tried[:, 2]).mean())
            classes.rows.append((name, share, start, begun_with, cold, warm, ratio, taken))
            print(classes.rows[-1], flush=True)
        if arguments.classes:
            continue
        for kept, goal in TARGETS.items():
            ratios = []
            for seed in arguments.seeds:
                found = measure(table, kept, seed)
                print(name, kept, seed, found, flush=True)
                ratio = None if found.warm is None else found.cold / found.warm
                ratios.append(ratio or 0.0)
                runs.rows.append((name, kept, seed, *found[:4], ratio, *found[4:]))
            middle = float(np.median(ratios))
            wanted = name != COMPLETE_JOURNEY.name
            targets.rows.append(
                (name, kept, middle, goal if wanted else None, middle >= goal if wanted else None)
            )
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
