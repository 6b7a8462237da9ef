"""What does it gain to know people from the start (``people:``), where else they enter by intakes as they come?

Feeds and policies are those of ``lasting``; the people file names everybody of the feed, with the values of the first
row that has them, or every second person. Both ways in one process, one thread, the same secret.

Loss: GCP of the boxes as published, mean over released rows. Rejected: share of the feed's rows. At once: rows that
leave with the release of their own window, by rows. Ratio: of losses, to the run without a file.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data_sets import MissingDataError
from benchmarks.lasting import FEEDS, Source, by_rows, percent
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from benchmarks.window_chain import SECRET
from kanonflow.schemas.bound_policy import bind
from kanonflow.solvers.warm_up import warm_up_merging
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.classify import cells_of

COLUMNS = (
    "feed", "named", "people named", "people known", "intakes", "gcp", "ratio", "rejected %", "at once %", "us/row all"
)  # fmt: skip
SHARES = {"nobody": 0, "every second": 2, "everybody": 1}


def people_of(source: Source, every: int) -> pa.Table:
    """A row for each person, or for one of ``every``: of each field the first value that fits the policy, else none."""
    policy, table = source.policy, source.table
    bound = bind(policy, table.schema, text=True, source=source.name)
    individual = policy.cohorts.individual.name
    everybody = pc.unique(table.column(individual)).drop_null().sort()
    names = everybody.take(pa.array(np.arange(0, len(everybody), every)))
    columns: dict[str, Any] = {individual: names}
    for field in policy.quasis:
        column = bound.column(field.name)
        values, _, problems = cells_of(column, table.column(field.name).combine_chunks())
        good = np.asarray(values.is_valid())
        for mask, _ in problems:
            good &= ~mask
        fit = table.select([individual, field.name]).filter(pa.array(good))
        first = fit.group_by(individual, use_threads=False).aggregate([(field.name, "first")])
        place = pc.index_in(names, first.column(individual).combine_chunks())
        columns[field.name] = first.column(f"{field.name}_first").combine_chunks().take(place)
    return pa.table(columns)


def row_of(source: Source, named: str, before: float | None) -> tuple[Any, ...]:
    """One run. before: the loss without a file."""
    every = SHARES[named]
    people = people_of(source, every) if every else None
    made, spent = timed(
        anonymize_table, source.table, source.policy, SECRET, text=True, threads=1, people=people
    )
    releases = [metrics for metrics in made.metrics if metrics["released"]]
    loss = by_rows(releases, "gcp")
    rows = source.table.num_rows
    put_off = sum(
        each["rows_released"] - each["rows_new"] for each in releases if each["rows_new"] is not None
    )
    return (
        source.name,
        named,
        0 if people is None else people.num_rows,
        max(each["people_known"] for each in releases),
        sum(each["people_entered"] > 0 for each in releases if each["people_entered"] is not None),
        loss,
        None if before is None or loss is None else loss / before,
        percent(len(made.rejected) / rows),
        percent(1 - max(put_off, 0) / rows),
        1e6 * spent.cpu / rows,
    )


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="People known from the start, beside intakes as they come.")
    parser.add_argument("--feeds", nargs="*", choices=list(FEEDS), default=list(FEEDS))
    parser.add_argument("--rows", type=int, help="of each feed, the first so many")
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("known_people", __doc__ or "")
    table = findings.table("People known from the start", COLUMNS, arguments.note)
    warm_up_merging()
    for name in arguments.feeds:
        try:
            source = FEEDS[name]()
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
            continue
        source = source._replace(table=source.table.slice(0, arguments.rows))
        before = None
        for named in SHARES:
            row = row_of(source, named, before)
            before = row[5] if before is None else before
            table.rows.append(row)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
