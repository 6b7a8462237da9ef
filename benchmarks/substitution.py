"""How many evaluations does a warm start save when a part of the records is replaced?

Data: windows of 5,000 records. Adult (8 quasi-identifiers, age numeric, 7 categorical) and mixed: the first rows of
Complete Journey under its example policy (numeric and categorical retail data, many equal rows). Each record is its
own individual, so that it can be known again. The next window keeps 90% (98%) of the records and takes others for the
rest. k = 5, one thread, seeds 1, 2, 3 (of the draw and of the search).

The old graph is what a cold search of the old window finds with the default budget. The mark is the loss of a cold
search of the new window after 0.3 CPU seconds: the evaluations that fit into them, neighbours and start not counted.
The same window is then solved warm with budgets from 0 upwards; the answer is the fewest evaluations at or below the
mark (of the budgets tried), at least one a row, for the old graph has to be read. A warm solve takes the cheaper of
the old graph and the cold start, as the product does. Ratio: evaluations cold / warm; a ``-`` never got there with the
cold search's budget. Targets: at least 3 times fewer at 90%, 10 times at 98%.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import (
    ADULT,
    COMPLETE_JOURNEY,
    DAY_MS,
    DataSet,
    MissingDataError,
    adult_table,
    data_path,
    example_policy,
    read_feed,
    with_window,
)
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.timed_budgets import measured_pace
from kanonflow.solvers.budget import Budget
from kanonflow.solvers.solve_graph import solve_graph
from kanonflow.solvers.table import Table
from kanonflow.solvers.warm_start import WarmGraph
from kanonflow.transforms.encode import encode

ROWS = 5_000
K = 5
SECONDS = 0.3
SHARES = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.33, 0.5, 1.0)
# share of records kept -> evaluations saved at least
TARGETS = {0.9: 3.0, 0.98: 10.0}


def part(table: Table, records: NDArray[np.int64]) -> Table:
    """These records, each its own individual under its number in the whole table; ``records`` ascending."""
    return replace(
        table, numeric=table.numeric[records], categorical=table.categorical[records], individuals=records
    )


def pools() -> Iterator[tuple[DataSet, Table | str]]:
    """Each data set's whole table, or why it is left out."""
    for data in (ADULT, COMPLETE_JOURNEY):
        try:
            path = data_path(data)
        except MissingDataError as missing:
            yield data, str(missing)
            continue
        if data is ADULT:
            yield data, adult_table(path)
        else:
            feed = read_feed(path, with_window(example_policy(data.name), 3650 * DAY_MS), rows=4 * ROWS)
            largest = max(feed.windows, key=lambda window: window.rows.num_rows)
            yield data, encode(largest.rows, feed.bound, None, {}).table


def measure(table: Table, kept: float, seed: int) -> tuple[float, float, int, int | None]:
    """One replacement: the mark, the warm start's loss, evaluations of the cold search, and of the warm one."""
    generator = np.random.default_rng(seed)
    records = generator.permutation(table.records)
    old, fresh = np.sort(records[:ROWS]), records[ROWS:]
    stay = np.sort(generator.permutation(old)[: round(kept * ROWS)])
    new = np.sort(np.concatenate([stay, fresh[: ROWS - stay.size]]))
    graph = solve_graph(part(table, old), K, budget=Budget(), seed=seed, untie=False).graph
    members = old[graph.members]
    place = np.searchsorted(new, members)
    here = new[np.minimum(place, ROWS - 1)] == members
    warm = WarmGraph(np.where(here, place, -1))
    window = part(table, new)
    pace = measured_pace(window, K, seed)
    cold = solve_graph(window, K, budget=Budget(SECONDS / pace.each), seed=seed, untie=False)
    reached: int | None = None
    begun = 0.0
    for share in SHARES:
        budget = Budget(share * SECONDS / pace.each)
        found = solve_graph(window, K, budget=budget, seed=seed, untie=False, warm=warm)
        begun = found.warm_loss or 0.0
        if found.loss <= cold.loss:
            reached = max(found.evaluations, ROWS)
            break
    return cold.loss, begun, cold.evaluations, reached


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(
        description="Evaluations that a warm start saves when records are replaced."
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("substitution", __doc__ or "")
    columns = ["data", "kept", "seed", "cold start's mark", "old graph", "evaluations cold", "warm", "ratio"]
    runs = findings.table("Evaluations to the loss of a cold search after 0.3 s", columns)
    targets = findings.table("Targets, the median of the seeds", ["data", "kept", "ratio", "at least", "met"])
    for data, table in pools():
        if isinstance(table, str):
            findings.skipped.append(table)
            continue
        for kept, goal in TARGETS.items():
            ratios = []
            for seed in arguments.seeds:
                mark, start, cold, warm = measure(table, kept, seed)
                ratio = None if warm is None else cold / warm
                ratios.append(ratio or 0.0)
                runs.rows.append((data.name, kept, seed, mark, start, cold, warm, ratio))
            middle = float(np.median(ratios))
            targets.rows.append((data.name, kept, middle, goal, middle >= goal))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
