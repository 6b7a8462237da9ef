"""What are models worth that are trained on imputed tables of a release, and do their intervals hold?

Data: Adult, each row a person (``protect: row``), salary class published as it is. Single splits and samples are drawn
by the seed.

    AUC gap     a logistic regression of the salary class on all quasi-identifiers (age also squared), trained on a
                release of ``--train`` rows at k = 10, asked of raw rows that are in no release; the AUC of the same
                model trained on the raw rows less its AUC. Of several tables the predicted chances are averaged.
    slope       of the share above 50K by a decade of age, and between men and women, by least squares on samples of
                ``--sample`` rows at k = 5. truth: the same over all rows of the file. ratio: mean estimate to truth.
                covered: intervals of 95% that hold the truth; width: mean, to that of the raw samples.
    seconds     of one process, CPU, for five tables of a split

With ``--made`` the slopes alone, of a score that is made of the attributes: age / 10 + 1 for men + a normal error of
variance 1, so that intervals are narrow beside what boxes hide.

    middle      each range its middle, each set its first member
    shares      the same with sets as 1 / |set| a member (AUC only)
    single      one imputed table without an outcome, and its own interval
    m tables    without an outcome; intervals by Rubin's rules
    outcome     weighed by the salary class, or the score; intervals by Rubin's rules
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.data_sets import ADULT, MissingDataError, data_path, example_policy
from benchmarks.outcome_models import Features, Float64s, auc, logistic, middle
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.pipelines.analysis.released_table import ReleasedTable
from kanonflow.schemas.avro_names import avro_name
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_fields import Field, Role
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.secret.seeds import Secret

OUTCOME, MADE = "salary_class", "score"
MODEL_K, SAMPLE_K = 10, 5
TABLES = 5


def release(rows: pa.Table, k: int) -> ReleasedTable:
    """Of raw rows."""
    policy = replace(example_policy("adult"), k=k)
    if MADE in rows.column_names:
        policy = replace(policy, fields=(*policy.fields, Field(MADE, Role.INSENSITIVE, "double")))
    made = anonymize_table(rows, policy, Secret(bytes(range(32))), threads=1)
    return ReleasedTable.of(made.released, bind(policy, rows.schema, text=False, source="adult"))


def above(table: pa.Table) -> Float64s:
    """1 of those who earn more than 50K."""
    return np.asarray(pc.equal(table.column(OUTCOME), ">50K").cast(pa.float64()))


def add_gaps(findings: Findings, raw: pa.Table, arguments: argparse.Namespace) -> None:
    """AUC gaps, split by split, and their mean."""
    table = findings.table(
        "AUC gap to the same model on raw rows",
        ("trained on", "mean", *map(str, range(arguments.splits)), "seconds, CPU"),
    )
    features = Features(
        raw, {"age": (40, 10)}, [name for name in raw.column_names if name not in ("age", OUTCOME)]
    )
    gaps: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}
    for split in range(arguments.splits):
        order = np.random.default_rng([arguments.seed, split]).permutation(raw.num_rows)
        train, test = (raw.take(pa.array(part)) for part in np.split(order, [arguments.train]))
        x, y = features.of(test), above(test)

        def chances(rows: pa.Table, sets: pa.Table | None = None, x: Float64s = x) -> Float64s:
            return 1 / (1 + np.exp(-x @ logistic(features.of(rows, sets), above(rows))))

        best = auc(chances(train), y)
        found = release(named(train, back=True), MODEL_K)
        middles = middle(found)
        scores = {"middle": chances(middles), "shares": chances(middles, found.arrow())}
        for outcome in (None, OUTCOME):
            tables, spent = timed(found.impute, TABLES, outcome=outcome, seed=split)
            each = [chances(one) for one in tables]
            name = f"{TABLES} tables" + (", outcome" if outcome else "")
            scores |= {"single" + (", outcome" if outcome else ""): each[0], name: np.mean(each, axis=0)}
            seconds[name] = seconds.get(name, 0.0) + spent.cpu / arguments.splits
        for name, score in scores.items():
            gaps.setdefault(name, []).append(best - auc(score, y))
        print(
            f"split {split}: raw {best:.4f}",
            {name: round(each[-1], 4) for name, each in gaps.items()},
            flush=True,
        )
    for name, each in gaps.items():
        table.rows.append((name, float(np.mean(each)), *each, seconds.get(name)))


def line(table: pa.Table) -> tuple[Float64s, Float64s]:
    """Slopes of age (a decade) and of men, and their variances by least squares."""
    age = np.asarray(table.column("age"), np.float64) / 10
    men = np.asarray(pc.equal(table.column("sex"), "Male").cast(pa.float64()))
    x = np.column_stack([np.ones(age.size), age, men])
    y = np.asarray(table.column(MADE)) if MADE in table.column_names else above(table)
    inverse = np.linalg.inv(x.T @ x)
    best = inverse @ x.T @ y
    variance = float(((y - x @ best) ** 2).sum()) / (age.size - 3)
    return best[1:], variance * np.diag(inverse)[1:]


def estimates(sample: pa.Table, seed: int) -> Iterator[tuple[str, Float64s, Float64s]]:
    """Estimates and half the widths of their intervals, by how they are made."""
    single: Callable[[pa.Table], tuple[Float64s, Float64s]] = lambda table: (  # noqa: E731
        line(table)[0],
        1.96 * np.sqrt(line(table)[1]),
    )
    yield "raw", *single(sample)
    found = release(named(sample, back=True), SAMPLE_K)
    yield "middle", *single(middle(found))
    for outcome in (None, MADE if MADE in sample.column_names else OUTCOME):
        tables = found.impute(TABLES, outcome=outcome, seed=seed)
        if outcome is None:
            yield "single", *single(tables[0])
        values, variances = zip(*map(line, tables), strict=True)
        pooled = found.combine(values, variances, rows_less_coefficients=sample.num_rows - 3)
        yield (
            f"{TABLES} tables" + (", outcome" if outcome else ""),
            pooled.estimate,
            (pooled.upper - pooled.lower) / 2,
        )


def add_slopes(findings: Findings, raw: pa.Table, arguments: argparse.Namespace) -> None:
    """Slopes of samples against those of all rows."""
    table = findings.table(
        f"Slopes of {arguments.samples} samples of {arguments.sample} rows",
        ("slope of", "by", "ratio", "covered", "of", "width"),
    )
    truth = line(raw)[0]
    found: dict[str, list[tuple[Float64s, Float64s]]] = {}
    for number in range(arguments.samples):
        random = np.random.default_rng([arguments.seed, 1, number])
        sample = raw.take(pa.array(random.choice(raw.num_rows, arguments.sample, replace=False)))
        for name, value, half in estimates(sample, number):
            found.setdefault(name, []).append((value, half))
        print(f"sample {number}", flush=True)
    raws = np.array([half for _, half in found["raw"]])
    for place, of in enumerate(("age", "men")):
        for name, each in found.items():
            values, halves = (np.array(part) for part in zip(*each, strict=True))
            covered = int((np.abs(values - truth) <= halves)[:, place].sum())
            ratio = float(values[:, place].mean() / truth[place])
            width = float(halves[:, place].mean() / raws[:, place].mean())
            table.rows.append((of, name, ratio, covered, arguments.samples, width))


def named(table: pa.Table, *, back: bool = False) -> pa.Table:
    """Under published names; back: under those of the file, which the policy knows."""
    names = [field.name for field in example_policy("adult").fields]
    if back:
        return table.rename_columns(
            [{avro_name(name): name for name in (*names, MADE)}[each] for each in table.column_names]
        )
    return table.rename_columns([avro_name(name) for name in table.column_names])


def with_score(raw: pa.Table, seed: int) -> pa.Table:
    """With the made score of each row."""
    score = np.asarray(raw.column("age"), np.float64) / 10 + np.asarray(pc.equal(raw.column("sex"), "Male"))
    return raw.append_column(MADE, pa.array(score + np.random.default_rng(seed).standard_normal(score.size)))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="What models on imputed tables are worth.")
    parser.add_argument("--made", action="store_true", help="the slopes of a made score alone")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--train", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--sample", type=int, default=1_500)
    parser.add_argument("--seed", type=int, default=1)
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    name = "imputed_models" + ("_score" if arguments.made else "")
    findings = Findings(name, __doc__ or "", module="imputed_models" if arguments.made else None)
    try:
        options = pyarrow.csv.ParseOptions(delimiter=";")
        raw = named(pyarrow.csv.read_csv(data_path(ADULT), parse_options=options))
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
    else:
        if not arguments.made:
            add_gaps(findings, raw, arguments)
        add_slopes(findings, with_score(raw, arguments.seed) if arguments.made else raw, arguments)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    sys.exit(main())
