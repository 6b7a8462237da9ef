"""Is the error of a count that a report tells of a field near the one that its users meet?

Data: the first 5,000 rows of sparkov, of complete_journey and of Adult under their example policies, k = 5, in our
modes, two seeds. Of each quasi-identifier counts by bands of a tenth of the rows, or by categories (``band_counts``):
what ``expected_errors`` tells of the released rows alone, beside |counted - true| / true of all rows of the input. All
errors in % of the count; medians over the bands, means over the seeds. CPU time is in ``using_releases``.

    told        the median error that the model expects; told 90%: of ten bands nine are not above it
    met         the median error; met 90% the same
    ratio       told / met, of the means over the fields of a release whose error is above 0

And of the first 10,000 rows of sparkov in cohorts that last, four seeds: what leaving out city_pop and job, and what
weighing, does for counts by age (decades of birth that hold 1% of the rows) and by region (lat and long in fifths), in
% of the count: the median over the seeds, and the least and the most of them; as ``estimate`` counts, and evenly.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from benchmarks.by_data_set import Tables, by_data_set
from benchmarks.data_sets import (
    ADULT,
    COMPLETE_JOURNEY,
    SPARKOV,
    DataSet,
    data_path,
)
from benchmarks.result_files import Findings
from benchmarks.tagged_releases import input_table
from benchmarks.worth import releases
from kanonflow.pipelines.analysis.band_counts import Bands, band_errors, bands_of, counts_by
from kanonflow.pipelines.analysis.expected_errors import expected_errors
from kanonflow.pipelines.analysis.query_error import own_column
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.pipelines.estimates.query_parts import interval_parts
from kanonflow.pipelines.explain.variants import changed
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.secret.seeds import Secret

CASES: tuple[DataSet, ...] = (SPARKOV, COMPLETE_JOURNEY, ADULT)
ROWS = 5_000
MODES = ("lasting", "window", "row")
FIGURES = ("told", "met", "told 90%", "met 90%")
FIELDS = ("data", "release", "field", *FIGURES)
CHANGES: dict[str, dict[str, dict[str, Any]]] = {
    "the policy": {},
    "without city_pop and job": {name: {"role": "identifier"} for name in ("city_pop", "job")},
    "dob 4 times the weight": {"dob": {"weight": 4.0}},
    "lat and long 4 times the weight": {"lat": {"weight": 4.0}, "long": {"weight": 4.0}},
}
CHANGED = ("sparkov", "age", "age, evenly", "region", "region, evenly")
SUMMARY = ("data", "release", *FIGURES, "ratio", "ratio 90%")


def measure_case(tables: Tables, data: DataSet, arguments: argparse.Namespace) -> None:
    """All figures of one data set."""
    rows, seeds = arguments.rows or ROWS, arguments.seeds
    if data is SPARKOV:
        measure_changes(tables["changes"], 2 * rows)
    for mode, policy in releases(data.name, 5):
        if mode not in MODES:
            continue
        bound, table = input_table(data_path(data), policy, rows)
        canonical = classify(table.select(list(bound.input_columns)), bound).rows
        names = {column.published_name: column.name for column in bound.columns}
        fields: dict[str, list[list[float]]] = {}
        for seed in range(seeds):
            made = anonymize_table(
                table, policy, Secret(bytes([seed + 1]) * 32), text=True, threads=1
            ).released
            released = ReleasedTable.of(made, bound)
            for each in expected_errors(released, lasts=mode == "lasting"):
                own = own_column(canonical, released.form.field(each.field), names)
                bands = bands_of(each.field, own)
                counted = counts_by([released.column(each.field)], [bands])
                met = band_errors(counted, counts_by([own], [bands]), canonical.num_rows)
                assert met is not None
                fields.setdefault(each.field, []).append(
                    [
                        100.0 * value
                        for value in (each.errors.median, met.median, each.errors.ninth, met.ninth)
                    ]
                )
        means = {name: np.mean(values, axis=0) for name, values in fields.items()}
        for name, values in means.items():
            tables["fields"].rows.append((data.name, mode, name, *values.tolist()))
        told, met_, told_ninth, met_ninth = np.mean([each for each in means.values() if each[1] > 0], axis=0)
        tables["summary"].rows.append(
            (data.name, mode, told, met_, told_ninth, met_ninth, told / met_, told_ninth / met_ninth)
        )
        print(*tables["summary"].rows[-1], flush=True)


def measure_changes(table: Any, rows: int) -> None:
    """Age and region on sparkov, under changes of the policy."""
    policy = next(policy for mode, policy in releases(SPARKOV.name, 5) if mode == "lasting")
    bound, texts = input_table(data_path(SPARKOV), policy, rows)
    canonical = classify(texts.select(list(bound.input_columns)), bound).rows
    for name, change in CHANGES.items():
        play = changed(bound, {"fields": change})
        found: dict[tuple[str, bool], list[float]] = {}
        for seed in range(4):
            made = anonymize_table(texts, play.policy, Secret(bytes([seed + 1]) * 32), text=True, threads=1)
            released = ReleasedTable.of(made.released, play)
            for what, fields in (("age", ("dob",)), ("region", ("lat", "long"))):
                owns = [own_column(canonical, released.form.field(field), {}) for field in fields]
                theirs = [released.column(field) for field in fields]
                bands = [bands_of(field, own, 2) for field, own in zip(fields, owns, strict=True)]
                if what == "age":
                    asked = interval_parts("dob", released.form.field("dob").value, "10y", owns[0])
                    bands = [Bands("dob", tuple(asked), None)]
                true = counts_by(owns, bands)
                for evenly in (False, True):
                    counted = counts_by([each.evenly() if evenly else each for each in theirs], bands)
                    met = band_errors(counted, true, canonical.num_rows)
                    assert met is not None
                    found.setdefault((what, evenly), []).append(100.0 * met.median)
        table.rows.append(
            (name, *(f"{np.median(own):.1f} [{min(own):.1f}, {max(own):.1f}]" for own in found.values()))
        )
        print(*table.rows[-1], flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Errors of counts that are told, beside those that are met.")
    parser.add_argument("--seeds", type=int, default=2)
    titles = {
        "summary": ("Errors of counts told and met, %, mean of the fields", SUMMARY),
        "fields": ("Errors of counts told and met, %, field by field", FIELDS),
        "changes": ("Counts by age and region under changes of the policy, %", CHANGED),
    }
    return by_data_set(argv, parser, Findings("expected_errors", __doc__ or ""), titles, CASES, measure_case)


if __name__ == "__main__":
    sys.exit(main())
