"""What are answers from a release worth, and do their bounds hold?

Data: sparkov and complete_journey under their example policies (cohorts that last), with the number of each row among
the payload, which tells the truth of each released row. The releases are written, exported and read again as a user
would. Of 400 queries over one or two quasi-identifiers, each matched by 1% of the rows or more:

    error       ratio of |value - true| to the true count, or to the mean of |x| of a mean; of the released rows alone,
                and of all rows of the input
    naive       the same where each range is its middle and each set its first member: what one gets without bounds
    within      queries whose truth, over the released rows, lies within the stated bounds: must be all
    width       (upper - lower) / true count, or / mean of |x|; the median

Attributes do not change in these feeds, so that those at entry are the row's own (checked). Groups: the same by period
and category. Rows and means by month, as polars, DuckDB (without a network) and pandas read them from the exported
Parquet, must agree. CPU seconds of one process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.by_data_set import Tables, by_data_set
from benchmarks.data_sets import (
    COMPLETE_JOURNEY,
    SPARKOV,
    DataSet,
    data_path,
    example_policy,
)
from benchmarks.result_files import Findings
from benchmarks.stopwatch import timed
from benchmarks.tagged_releases import TAG, behind, input_table, naive, tagged
from kanonflow.pipelines.analysis.export_release import export_releases
from kanonflow.pipelines.analysis.query_error import QueryError, query_errors
from kanonflow.pipelines.analysis.released_fields import Kind
from kanonflow.pipelines.analysis.released_table import ReleasedTable, read_release
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.transforms.columns.avro_encoding import avro_file
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.secret.seeds import Secret

ERRORS = (
    "data",
    "what",
    "rows",
    "queries",
    "median",
    "90%",
    "worst",
    "naive median",
    "naive worst",
    "within",
    "width",
)
WHOLE = ("data", "what", "queries", "median", "90%", "worst")
GROUPS = ("data", "by", "what", "groups", "median", "worst", "naive worst", "within", "median width")
SPEED = ("data", "rows", "step", "seconds, CPU")
CASES: dict[DataSet, tuple[str, tuple[dict[str, Any], ...]]] = {
    SPARKOV: (
        "amt",
        ({"dob": "10y", "gender": "each"}, {"dob": "20y"}, {"window": "1mo"}, {"gender": "each"}),
    ),
    COMPLETE_JOURNEY: (
        "sales_value",
        ({"age": "each", "income": "each"}, {"age": "each"}, {"window": "1q"}),
    ),
}
"""The payload of means, and the groups that are asked for."""


def check_attributes(rows: pa.Table, bound: BoundPolicy) -> None:
    """Everybody has one value of each quasi-identifier, so that what is known of a person at entry is the row's own."""
    individual = bound.policy.individual
    assert individual is not None
    names = [column.name for column in bound.quasis]
    people = len(rows.column(individual.name).unique())
    assert rows.group_by([individual.name, *names]).aggregate([]).num_rows == people, "attributes change"


def spread(values: list[float]) -> tuple[float, float, float]:
    """Median, 90% and worst."""
    median, ninth = np.quantile(values, [0.5, 0.9], method="higher").tolist()
    return median, ninth, max(values)


def scale_of(query: QueryError) -> float:
    """What the error of a query is relative to."""
    return abs(query.value - query.true) / query.error if query.error else abs(query.true)


def group_keys(by: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """What a row of an estimate is asked for by, as ``where`` takes it."""
    return {name: row[name] if name in row else (row[f"{name}_from"], row[f"{name}_to"]) for name in by}


def engines(folder: Path, of: str) -> dict[str, dict[str, tuple[int, float]]]:
    """Rows and mean of a column by release day's month, as polars, DuckDB without a network and pandas have it."""
    import duckdb
    import pandas
    import polars

    offline = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    frame = polars.read_parquet(folder, hive_partitioning=True)
    grouped = frame.group_by(polars.col("window").dt.strftime("%Y-%m")).agg(
        polars.len(), polars.col(of).mean()
    )
    found = {"polars": {month: (count, mean) for month, count, mean in grouped.iter_rows()}}
    with duckdb.connect(config=offline) as connection:
        source = f"read_parquet('{folder}/**/*.parquet', hive_partitioning = true)"
        told = connection.sql(
            f"select strftime(\"window\", '%Y-%m'), count(*), avg({of}) from {source} group by 1"
        )
        found["DuckDB"] = {month: (count, mean) for month, count, mean in told.fetchall()}
    table = pandas.read_parquet(folder, dtype_backend="pyarrow")
    months = table["window"].astype(str).str[:7]
    both = table.groupby(months)[of].agg(["size", "mean"])
    found["pandas"] = {str(month): (int(size), float(mean)) for month, size, mean in both.itertuples()}
    return found


def same(one: dict[str, tuple[int, float]], other: dict[str, tuple[int, float]]) -> bool:
    """Whether two engines have the same groups, up to the rounding of sums."""
    return one.keys() == other.keys() and all(
        one[key][0] == other[key][0] and abs(one[key][1] - other[key][1]) <= 1e-9 * abs(one[key][1])
        for key in one
    )


def measure_case(findings: Tables, data: DataSet, arguments: argparse.Namespace) -> None:
    """All figures of one data set."""
    of, groups = CASES[data]
    policy = tagged(example_policy(data.name))
    bound, table = input_table(data_path(data), policy, arguments.rows)
    rows = classify(table.select(list(bound.input_columns)), bound).rows
    check_attributes(rows, bound)
    made, spent = timed(anonymize_table, table, policy, Secret(bytes(range(32))), text=True, threads=1)
    print(f"{data.name}: {made.released.num_rows:,} of {table.num_rows:,} rows released", flush=True)
    findings["speed"].rows.append((data.name, made.released.num_rows, "anonymize", spent.cpu))
    with tempfile.TemporaryDirectory() as folder:
        write(made.released, bound, Path(folder))
        exported, spent = timed(export_releases, [folder], "parquet")
        findings["speed"].rows.append((data.name, exported.rows, "export to Parquet", spent.cpu))
        read, spent = timed(read_release, folder)
        findings["speed"].rows.append((data.name, len(read), "read_release", spent.cpu))
        found = engines(Path(exported.written), of)
        assert same(found["polars"], found["DuckDB"]), "polars and DuckDB"
        assert same(found["polars"], found["pandas"]), "polars and pandas"
    truth = behind(rows, read.arrow())
    add_errors(findings, data.name, truth, rows, read, arguments)
    for by in groups:
        add_groups(findings, data.name, by, of, truth, read, bound)


def write(released: pa.Table, bound: BoundPolicy, folder: Path) -> None:
    """The releases as a run writes them, a file each."""
    (folder / "release").mkdir()
    schema = release_avro_schema(bound, 0)
    for name in released.column("release_id").unique().to_pylist():
        rows = released.filter(pc.equal(released.column("release_id"), name))
        (folder / "release" / f"{name}.avro").write_bytes(avro_file(rows, schema, bytes(16)))


def add_errors(
    findings: Tables,
    name: str,
    truth: pa.Table,
    rows: pa.Table,
    read: ReleasedTable,
    arguments: argparse.Namespace,
) -> None:
    """Random queries, against the released rows and against the whole input."""
    without = truth.drop_columns([TAG]), _without_tag(read)
    errors, spent = timed(query_errors, *without, queries=arguments.queries, seed=arguments.seed)
    plain = query_errors(without[0], naive(without[1]), queries=arguments.queries, seed=arguments.seed)
    whole = query_errors(rows.drop_columns([TAG]), without[1], queries=arguments.queries, seed=arguments.seed)
    findings["speed"].rows.append((name, len(read), f"{arguments.queries} queries of both kinds", spent.cpu))
    for what in ("count", "mean"):
        of = [query for query in errors.queries if query.what == what]
        median, ninth, worst = spread([query.error for query in of])
        naive_median, _, naive_worst = spread([query.error for query in plain.queries if query.what == what])
        within = sum(query.within for query in of)
        width = float(
            np.median([(query.upper - query.lower) / scale_of(query) for query in of if scale_of(query)])
        )
        findings["errors"].rows.append(
            (
                name,
                what,
                len(read),
                len(of),
                median,
                ninth,
                worst,
                naive_median,
                naive_worst,
                f"{within} of {len(of)}",
                width,
            )
        )
        assert within == len(of), "a truth outside of its bounds"
        told = [query.error for query in whole.queries if query.what == what]
        findings["whole"].rows.append((name, what, len(told), *spread(told)))


def add_groups(
    findings: Tables,
    name: str,
    by: dict[str, Any],
    of: str,
    truth: pa.Table,
    read: ReleasedTable,
    bound: BoundPolicy,
) -> None:
    """Counts and means of groups."""
    exact = _exact(truth, read, bound)
    for what in ("count", "mean"):
        column = None if what == "count" else of
        answers = read.estimate(what, column, by=by).rows()
        taken = naive(read)
        errors, naively, widths, within = [], [], [], 0
        for row in answers:
            where = group_keys(by, row)
            (true,) = exact.estimate(what, column, where=where).rows()
            if not true["value"]:
                within += what == "mean" or row["lower"] <= 0 <= row["upper"]
                continue
            (plain,) = taken.estimate(what, column, where=where).rows()
            within += row["lower"] <= true["value"] <= row["upper"]
            errors.append(abs(row["value"] - true["value"]) / abs(true["value"]))
            naively.append(abs((plain["value"] or 0.0) - true["value"]) / abs(true["value"]))
            widths.append((row["upper"] - row["lower"]) / abs(true["value"]))
        findings["groups"].rows.append(
            (
                name, " x ".join(f"{field} {asked}" for field, asked in by.items()), what, len(answers),
                float(np.median(errors)), max(errors), max(naively), f"{within} of {len(answers)}",
                float(np.median(widths)),
            )
        )  # fmt: skip
        assert within == len(answers), "a truth outside of its bounds"


def _without_tag(read: ReleasedTable) -> ReleasedTable:
    fields = tuple(field for field in read.fields if field.name != TAG)
    return ReleasedTable(read.arrow().drop_columns([TAG]), replace(read.form, fields=fields))


def _exact(truth: pa.Table, read: ReleasedTable, bound: BoundPolicy) -> ReleasedTable:
    """The true rows in the form of a release: boxes that are points, and windows of a millisecond."""
    table = read.arrow()
    for field in read.fields:
        place = table.schema.get_field_index(field.name)
        kind = table.schema.field(place).type
        if field.kind is Kind.RANGE:
            values = truth.column(field.name).combine_chunks().cast(field.value)
            array = pa.StructArray.from_arrays([values, values, values.is_null()], fields=list(kind))
        elif field.kind is Kind.SET:
            values = truth.column(field.name).combine_chunks().cast(field.value)
            array = pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1), pa.int32()), values).cast(
                kind
            )
        elif field.kind is Kind.EXACT:
            array = truth.column(field.name).combine_chunks().cast(kind)
        else:
            continue
        table = table.set_column(place, field.name, array)
    assert bound.policy.time is not None
    start = truth.column(bound.policy.time.name).combine_chunks().cast(pa.int64())
    for name, instants in (("window_start", start), ("window_end", pc.add(start, 1))):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, instants.cast(table.schema.field(place).type))
    return ReleasedTable(table, read.form)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="What answers from a release are worth.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=400)
    titles = {
        "errors": ("Random queries against the released rows", ERRORS),
        "whole": ("The same against all rows of the input, rejected ones too", WHOLE),
        "groups": ("Groups against the released rows", GROUPS),
        "speed": ("What it takes", SPEED),
    }
    return by_data_set(argv, parser, Findings("using_releases", __doc__ or ""), titles, CASES, measure_case)


if __name__ == "__main__":
    sys.exit(main())
