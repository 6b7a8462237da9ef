"""How often does the truth lie in the plausible intervals of estimates, and how wide are they?

Data: the first rows of sparkov, complete_journey and Adult under their example policies, k = 5 and 10, in our modes,
with the number of each row among the payload, which tells its truth. For each field, counts by bands (``worth``'s), or
by each category; sums, means and quantiles (q = 3/4) of the payload by the same. Of the released rows alone; one seed,
95% intervals. Groups whose bounds are one number are left out.

    held        share of the groups whose truth lies in the plausible interval
    by field    the same field by field, the mean: sparkov's jobs are four fifths of its groups
    of bounds   width of the interval in % of that of the certain bounds, the median
    of error    ratio of the widths of all intervals to all |value - true|

Feeds: the model has two parameters, which were fitted on complete_journey, k = 5; all else is held out. CPU seconds are
of one process and of all answers of the line's release, with its draws.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.by_data_set import Tables, by_data_set
from benchmarks.data_sets import DataSet
from benchmarks.result_files import Findings
from benchmarks.stopwatch import timed
from benchmarks.tagged_releases import tagged_release
from benchmarks.worth import BANDS, CASES, releases
from kanonflow.pipelines.analysis.query_error import own_column
from kanonflow.pipelines.analysis.released_fields import Kind
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.coverage import RangeColumn
from kanonflow.pipelines.estimates.query_parts import interval_parts

QUESTIONS = ("count", "sum", "mean", "quantile")
DRAWS = 200
Q = 0.75
RIVALS = frozenset({"Mondrian"})
COLUMNS = (
    "data",
    "k",
    "release",
    "rows",
    "what",
    "groups",
    "held, %",
    "by field, %",
    "of bounds, %",
    "of error",
)
SPEED = ("data", "k", "release", "rows", "answers", "seconds, CPU")


class Told(NamedTuple):
    """A group: its field, its truth, and what was said of it."""

    field: str
    true: float
    row: dict[str, Any]


def answered(read: ReleasedTable, truth: pa.Table, names: dict[str, str], what: str, of: str) -> list[Told]:
    """All groups of all fields that are asked one question."""
    found = []
    payload = np.asarray(truth.column(of)).astype(np.float64) if what != "count" else np.ones(len(read))
    options = {"q": Q} if what == "quantile" else {}
    for field in read.fields:
        if field.kind not in (Kind.RANGE, Kind.SET):
            continue
        column, own = read.column(field.name), own_column(truth, field, names)
        banded = isinstance(column, RangeColumn)
        asked = BANDS[field.name] if banded else column.each()
        queries = (
            [part.query for part in interval_parts(field.name, field.value, asked, column)]
            if banded
            else [frozenset([value]) for value in asked]
        )
        # Each band by itself has a row even where nobody is in it: by edges, or by names.
        rows = read.estimate(
            what, None if what == "count" else of, by={field.name: asked}, draws=DRAWS, **options
        ).rows()
        keys = read.estimate("count", by={field.name: asked}).rows()
        key = [name for name in keys[0] if name.startswith(field.name)]
        place = {tuple(row[name] for name in key): at for at, row in enumerate(keys)}
        if len(keys) < len(queries):
            meets = [at for at, query in enumerate(queries) if column.cover(query).rows.size]
            queries = [queries[at] for at in meets]
        for row in rows:
            values = payload[own.cover(queries[place[tuple(row[name] for name in key)]]).rows]
            if row["lower"] == row["upper"] or (not values.size and what not in ("count", "sum")):
                continue
            found.append(Told(field.name, _true(what, values), row))
    return found


def _true(what: str, values: Any) -> float:
    if what == "mean":
        return float(values.mean())
    if what == "quantile":
        return float(np.quantile(values, Q, method="averaged_inverted_cdf"))
    return float(values.sum())


def line(told: list[Told]) -> Iterator[float]:
    """Groups, held, width by bounds and by error."""
    true = np.array([each.true for each in told])
    value, lower, upper, low, high = (
        np.array([each.row[name] for each in told], float)
        for name in ("value", "lower", "upper", "plausible_low", "plausible_high")
    )
    held = (true >= low - 1e-9 * np.abs(true)) & (true <= high + 1e-9 * np.abs(true))
    fields = np.array([each.field for each in told])
    yield len(told)
    yield 100.0 * float(held.mean())
    yield 100.0 * float(np.mean([held[fields == field].mean() for field in np.unique(fields)]))
    yield 100.0 * float(np.median((high - low) / (upper - lower)))
    yield float((high - low).sum() / max(np.abs(value - true).sum(), 1e-9))


def measure_case(tables: Tables, data: DataSet, arguments: argparse.Namespace) -> None:
    """All figures of one data set."""
    of, rows = CASES[data]
    rows, seed = min(rows, arguments.rows or rows), arguments.seed
    for k in (5, 10):
        for mode, policy in releases(data.name, k):
            if mode in RIVALS:
                continue
            read, truth, names = tagged_release(data, policy, rows, seed)
            seconds, answers = 0.0, 0
            for what in QUESTIONS if of is not None else QUESTIONS[:1]:
                told, spent = timed(answered, read, truth, names, what, of or "")
                seconds, answers = seconds + spent.cpu, answers + len(told)
                tables["held"].rows.append((data.name, k, mode, len(read), what, *line(told)))
                print(*tables["held"].rows[-1], flush=True)
            tables["speed"].rows.append((data.name, k, mode, len(read), answers, seconds))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="How often plausible intervals hold.")
    parser.add_argument("--seed", type=int, default=1)
    titles = {
        "held": ("Truths within plausible intervals of 95%", COLUMNS),
        "speed": ("What it takes", SPEED),
    }
    return by_data_set(argv, parser, Findings("plausible", __doc__ or ""), titles, CASES, measure_case)


if __name__ == "__main__":
    sys.exit(main())
