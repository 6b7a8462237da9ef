"""What is a release worth to somebody who counts by bands, and how should a box be flattened?

Data: the first 10,000 rows of sparkov and of complete_journey, and 5,000 of Adult, under their example policies, k = 5
and 10, in our modes and, of rows, by Mondrian, with the number of each row among the payload, which tells its truth.
One dashboard a field: counts by bands (``BANDS``), or by each category. Of the released rows alone; one seed.
Compare ways by the ratio of what they misplace, cell by cell; CPU time is in ``using_releases``.

    misplaced   half of the sum of |counted - true| over the bands of a field, in % of the rows: what would have to be
                moved to make the dashboard true
    mean        mean of |mean - true| / mean |x| of the payload, in %, over the bands that hold 1% of the rows or more
    middles     each range is its middle, each set its first member
    evenly      each row counts in a band with the share of its box that is in it
    EM          the textbook's for intervals: bands have the weights under which they are most likely, if any value of a
                box could have led to it (100 steps from bands that weigh the same)
    people      as ``estimate`` does: what is surely somebody's weighs 1/m by itself, the rest lies as boxes do together
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.by_data_set import Tables, by_data_set
from benchmarks.data_sets import (
    ADULT,
    COMPLETE_JOURNEY,
    SPARKOV,
    DataSet,
    afresh,
    example_policy,
)
from benchmarks.result_files import Findings
from benchmarks.tagged_releases import naive, tagged, tagged_release
from kanonflow.pipelines.analysis.query_error import own_column
from kanonflow.pipelines.analysis.released_fields import Kind
from kanonflow.pipelines.estimates.coverage import Interval, RangeColumn
from kanonflow.pipelines.estimates.distinct_boxes import box_codes, distinct_boxes
from kanonflow.pipelines.estimates.query_parts import interval_parts
from kanonflow.schemas.policy import Policy
from kanonflow.schemas.policy_choices import Protection

Float64s = NDArray[np.float64]
BANDS: dict[str, Any] = {
    "dob": "10y",
    "lat": list(range(15, 75, 5)),
    "long": list(range(-180, -60, 10)),
    "city_pop": [0, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000],
    "age": [0, 25, 35, 45, 55, 65, 100],
}
CASES: dict[DataSet, tuple[str | None, int]] = {
    SPARKOV: ("amt", 10_000),
    COMPLETE_JOURNEY: ("sales_value", 10_000),
    ADULT: (None, 5_000),
}
"""The payload of means, and how many rows are taken."""
WAYS = ("middles", "evenly", "EM", "people")
EM_STEPS = 100
FIELDS = ("data", "k", "release", "field", *WAYS)
SUMMARY = ("data", "k", "release", "rows", *WAYS, "worse than middles", "worse than evenly")
MEANS = ("data", "k", "release", "middles", "evenly", "people")


def releases(name: str, k: int) -> Iterator[tuple[str, Policy]]:
    """Our modes, and Mondrian over rows."""
    policy = tagged(example_policy(name))
    policy = replace(policy, k=k, cohort_size=k if policy.lasting else None)
    if policy.individual is not None:
        yield "lasting", policy
        yield "window", afresh(policy)
    rows = replace(afresh(policy), protect=Protection.ROW, cohort=None)
    yield "row", rows
    yield "Mondrian", replace(rows, solver=replace(rows.solver, method="mondrian"))


def most_likely(even: Float64s, lengths: Float64s, rows: Float64s) -> Float64s:
    """EM: rows in each of b bands. even: float64 (d, b), shares of d boxes; lengths: of bands; rows: of boxes."""
    covered = even / lengths
    weights = np.full(lengths.size, 1.0 / lengths.size)
    for _ in range(EM_STEPS):
        each = covered * weights
        counted = rows @ (each / np.maximum(each.sum(axis=1, keepdims=True), 1e-300))
        weights = counted / counted.sum()
    return counted


def lengths_of(column: Any, queries: list[Any]) -> Float64s:
    """Of bands, within what is released; of categories 1."""
    if not isinstance(column, RangeColumn):
        return np.ones(len(queries))
    least, most = float(column.low.min()), float(column.high.max())
    ends = [(max(float(each.first), least), min(float(each.end), most)) for each in queries]
    return np.array([max(end - first, 1e-9) + column.whole for first, end in ends])


def dashboard(
    column: Any, middles: Any, own: Any, queries: list[Any], paid: tuple[Float64s, Float64s] | None
) -> tuple[dict[str, float], dict[str, float]]:
    """Of one field, rows misplaced and errors of means by each way, in %. paid: payload as released, and by truth."""
    count = own.keys[0].size
    truth = [own.cover(query).rows for query in queries]
    true = np.array([rows.size for rows in truth], float)
    even = column.evenly()
    misplaced, means = {}, {}
    for way, flat in (("middles", middles), ("evenly", even), ("people", column)):
        covers = [flat.cover(query) for query in queries]
        counted = np.array([cover.share.sum() for cover in covers])
        misplaced[way] = 50.0 * float(np.abs(counted - true).sum()) / count
        if paid is None:
            continue
        released, original = paid
        errors = [
            abs(
                float(cover.share @ released[cover.rows]) / max(float(cover.share.sum()), 1e-9)
                - original[rows].mean()
            )
            / np.abs(original[rows]).mean()
            for cover, rows in zip(covers, truth, strict=True)
            if rows.size >= 0.01 * count
        ]
        if errors:
            means[way] = 100.0 * float(np.mean(errors))
    boxes = distinct_boxes([box_codes(even)], count)
    shares = np.zeros((boxes.first.size, len(queries)))
    for place, query in enumerate(queries):
        met = even.of(boxes.first).cover(query)
        shares[met.rows, place] = met.share
    counted = most_likely(shares, lengths_of(column, queries), boxes.sizes.astype(float))
    misplaced["EM"] = 50.0 * float(np.abs(counted - true).sum()) / count
    return misplaced, means


def measure_case(tables: Tables, data: DataSet, arguments: argparse.Namespace) -> None:
    """All figures of one data set."""
    of, rows = CASES[data]
    rows, seed = min(rows, arguments.rows or rows), arguments.seed
    for k in (5, 10):
        for mode, policy in releases(data.name, k):
            read, truth, names = tagged_release(data, policy, rows, seed)
            middles = naive(read)
            paid = None if of is None else (_numbers(read.arrow(), of), _numbers(truth, of))
            found = []
            for field in read.fields:
                if field.kind not in (Kind.RANGE, Kind.SET):
                    continue
                column = read.column(field.name)
                queries: list[Any] = (
                    [
                        part.query
                        for part in interval_parts(field.name, field.value, BANDS[field.name], column)
                    ]
                    if isinstance(column, RangeColumn)
                    else [frozenset([value]) for value in column.each()]
                )
                assert all(isinstance(query, Interval | frozenset) for query in queries)
                own = own_column(truth, field, names)
                misplaced, means = dashboard(column, middles.column(field.name), own, queries, paid)
                found.append((misplaced, means))
                tables["fields"].rows.append(
                    (data.name, k, mode, field.name, *(misplaced[way] for way in WAYS))
                )
            worse = [
                sum(each["people"] > each[than] + 0.005 for each, _ in found)
                for than in ("middles", "evenly")
            ]
            tables["summary"].rows.append(
                (
                    data.name, k, mode, len(read),
                    *(float(np.mean([each[way] for each, _ in found])) for way in WAYS),
                    *(f"{number} of {len(found)}" for number in worse),
                )
            )  # fmt: skip
            told = [each for _, each in found if each]
            if told:
                tables["means"].rows.append(
                    (data.name, k, mode, *(float(np.mean([each[way] for each in told])) for way in MEANS[3:]))
                )
            print(*tables["summary"].rows[-1], flush=True)


def _numbers(table: pa.Table, name: str) -> Float64s:
    return np.asarray(table.column(name)).astype(np.float64)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="What a release is worth by how its boxes are flattened.")
    parser.add_argument("--seed", type=int, default=1)
    titles = {
        "summary": ("Rows misplaced, %, mean of the fields", SUMMARY),
        "fields": ("Rows misplaced, %, field by field", FIELDS),
        "means": ("Means of payload by bands, error in %, mean of the fields", MEANS),
    }
    return by_data_set(argv, parser, Findings("worth", __doc__ or ""), titles, CASES, measure_case)


if __name__ == "__main__":
    sys.exit(main())
