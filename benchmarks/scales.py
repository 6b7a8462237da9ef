"""Where people crowd in a field's domain, by which scale should the width of a box count?

Data: ``purchases``, 4,000 rows of sparkov at random and all fraudulent ones (amount, population of the city, age,
gender; outcome: fraud); ``bills``, 6,000 made card holders after the manner of the card defaults of Taiwan (limit,
three bills that follow each other, two payments of which some are 0, age, education; outcome: default, which goes by
logarithms of what is owed). Each row is a person (``protect: row``), k = 10, domains declared; half of the rows are
released, the others are asked about. One seed a split.

    linear, log, rank    ``scale`` of the fields in which people crowd, as a draft proposes it
    coded                linear, with the domain cut at the 1st and 99th percentile (``outside: code``)
    Mondrian             over rows, linear
    covered              mean share of the people whose value lies in a row's box, of the scaled fields: how many ranks
                         it covers
    GCP                  as the metrics tell it, by the policy's own scale; linear: the same boxes by differences
    AUC gap              a logistic regression of the outcome on all fields (numbers by deciles of the raw rows),
                         trained on the release, asked of raw rows that are in none; the AUC of the same model trained
                         on the raw rows less its AUC. middles: each range is its middle; people: the mean of five
                         imputed tables, weighed by the outcome
    seconds              of one process, CPU, for one release

Compare ways by the difference of their gaps and by the ratio of what they cover.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from benchmarks.data_sets import SPARKOV, MissingDataError, data_path
from benchmarks.outcome_models import auc, floats, logistic
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.pipelines.analysis.released_table import RangeColumn, ReleasedTable
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.columns.crowding import crowding
from kanonflow.transforms.one_table import anonymize_table
from kanonflow.transforms.secret.seeds import Secret

K = 10
TABLES = 5
OUTCOME = "outcome"
Float64s = NDArray[np.float64]


class Case(NamedTuple):
    """rows: raw. domains: of its numbers; other fields are categories."""

    name: str
    rows: pa.Table
    domains: dict[str, tuple[float, float]]


def purchases(seed: int) -> Case:
    """Of sparkov."""
    rows = pyarrow.csv.read_csv(data_path(SPARKOV))
    fraud = np.asarray(rows.column("is_fraud"))
    others = np.random.default_rng(seed).choice(np.flatnonzero(fraud == 0), 4_000, replace=False)
    rows = rows.take(pa.array(np.sort(np.append(others, np.flatnonzero(fraud)))))
    born = np.asarray(rows.column("dob").cast(pa.date32()).cast(pa.int32()))
    table = pa.table(
        {
            "amount": rows.column("amt").cast(pa.float64()),
            "population": rows.column("city_pop").cast(pa.int64()),
            "age": pa.array((18_262 - born) // 365),
            "gender": rows.column("gender"),
            OUTCOME: rows.column("is_fraud").cast(pa.string()),
        }
    )
    return Case("purchases", table, {"amount": (0, 30_000), "population": (0, 5_000_000), "age": (0, 120)})


def bills(seed: int) -> Case:
    """Made card holders."""
    random, n = np.random.default_rng(seed), 6_000
    limit = np.clip(np.exp(random.normal(11.7, 0.8, n)) // 10_000 * 10_000, 10_000, 1_000_000)
    used = np.clip(random.beta(0.5, 1.2, n) * 1.1, 0, 1.2)
    billed = [limit * used]
    for _ in range(2):
        billed.append(billed[-1] * np.exp(random.normal(-0.05, 0.35, n)) - random.exponential(300, n))
    paid = [
        np.where(random.random(n) < 0.2, 0, np.maximum(each, 0) * random.beta(0.7, 6, n))
        + random.exponential(800, n) * (random.random(n) < 0.7)
        for each in billed[1:]
    ]
    age = np.clip(random.gamma(9, 3, n) + 16, 21, 79)
    degree = random.choice(["school", "university", "graduate", "other"], n, p=[0.17, 0.47, 0.33, 0.03])
    score = (
        -0.9
        - 0.35 * (np.log1p(limit / 10_000) - 2)
        + 0.25 * np.log1p(np.maximum(billed[0], 0) / 1_000)
        - 0.45 * np.log1p(paid[0] / 100)
        - 0.3 * np.log1p(paid[1] / 100)
        + 0.01 * (age - 35)
        + 0.3 * (degree == "school")
    )
    outcome = random.random(n) < 1 / (1 + np.exp(-score))
    numbers = {"limit": limit, **{f"bill_{i}": each for i, each in enumerate(billed)}}
    numbers |= {f"paid_{i}": each for i, each in enumerate(paid)} | {"age": age}
    columns = {name: pa.array(np.rint(each).astype(np.int64)) for name, each in numbers.items()}
    table = pa.table(columns | {"degree": degree, OUTCOME: pa.array(outcome.astype(int)).cast(pa.string())})
    money = {name: (0, 2_000_000) for name in numbers if name.startswith("paid")}
    money |= {name: (-500_000, 2_000_000) for name in numbers if name.startswith("bill")}
    return Case("bills", table, {"limit": (0, 1_000_000), **money, "age": (0, 120)})


def scaled(case: Case, rows: pa.Table) -> dict[str, dict[str, Any]]:
    """The fields in which people crowd, with the keys of their scale; logarithms begin at the first tenth."""
    found = {}
    for name, (low, high) in case.domains.items():
        values = floats(rows, name)
        crowd = crowding(values, low, high)
        if crowd is not None:
            sizes = np.abs(values[values != 0])
            begin = 10.0 ** np.floor(np.log10(np.quantile(sizes, 0.1)))
            ends = np.quantile(values, [0.01, 0.99]).round()
            found[name] = {
                "rank": {
                    "scale": "rank",
                    "quantiles": np.quantile(values, np.arange(1, 20) / 20).round(2).tolist(),
                },
                "log": {"scale": "log", "log_from": float(begin)},
                "coded": {"domain": ends.tolist(), "outside": "code"},
            }
    return found


def policy_of(case: Case, changes: dict[str, dict[str, Any]], method: str) -> dict[str, Any]:
    """A policy file. changes: keys of fields."""
    fields: dict[str, Any] = {OUTCOME: {"role": "sensitive"}}
    for name in case.rows.column_names:
        if name != OUTCOME:
            kind = {"type": "numeric", "domain": list(case.domains[name])} if name in case.domains else None
            fields[name] = {"role": "quasi", **(kind or {"type": "categorical"}), **changes.get(name, {})}
    return {"version": 1, "k": K, "protect": "row", "solver": method, "fields": fields}


class Features:
    """The design of the models: deciles and levels of raw rows."""

    def __init__(self, case: Case) -> None:
        self.cuts = {
            name: np.unique(np.quantile(floats(case.rows, name), np.arange(1, 10) / 10))
            for name in case.domains
        }
        names = [name for name in case.rows.column_names if name not in (*case.domains, OUTCOME)]
        self.levels = {name: sorted(case.rows.column(name).unique().to_pylist())[1:] for name in names}

    def of(self, table: pa.Table) -> Float64s:
        """float64 (n, p)."""
        columns = [np.ones(table.num_rows)]
        for name, cuts in self.cuts.items():
            columns += list((floats(table, name)[:, None] >= cuts).T)
        for name, levels in self.levels.items():
            cells = table.column(name)
            cells = pc.list_element(cells, 0) if pa.types.is_list(cells.type) else cells
            codes = np.asarray(pc.fill_null(pc.index_in(cells, pa.array(levels)), -1))
            columns += [codes == code for code in range(len(levels))]
        return np.column_stack(columns).astype(np.float64)


def happened(table: pa.Table) -> Float64s:
    """1 where the outcome is."""
    return np.asarray(pc.equal(table.column(OUTCOME), "1").cast(pa.float64()))


def covered(found: ReleasedTable, raw: pa.Table, names: list[str]) -> float:
    """Mean share of people whose value a box holds, over rows and fields."""
    shares = []
    for name in names:
        values, boxes = np.sort(floats(raw, name)), found.column(name)
        assert isinstance(boxes, RangeColumn)
        low = np.maximum(boxes.low, values[0])
        high = np.minimum(boxes.high, values[-1])
        inside = np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")
        shares.append(inside.mean() / values.size)
    return float(np.mean(shares))


def by_differences(found: ReleasedTable, case: Case, raw: pa.Table) -> float:
    """GCP of the boxes by differences in the declared domains, ends beyond the data cut to them."""
    losses = []
    for name in case.rows.column_names:
        if name == OUTCOME:
            continue
        boxes = found.column(name)
        if isinstance(boxes, RangeColumn):
            low, high = case.domains[name]
            losses.append(float((boxes.high.astype(float) - boxes.low.astype(float)).mean() / (high - low)))
        else:
            values = pc.count_distinct(raw.column(name)).as_py()
            losses.append(float((boxes.widths - 1).mean() / max(values - 1, 1)))
    return float(np.mean(losses))


def ways(case: Case, train: pa.Table) -> Iterator[tuple[str, dict[str, dict[str, Any]], str]]:
    """Names, changes of fields, and solvers."""
    fields = scaled(case, train)
    yield "linear", {}, "auto"
    for name in ("log", "rank", "coded"):
        yield name, {field: each[name] for field, each in fields.items()}, "auto"
    yield "Mondrian", {}, "mondrian"


def add_case(findings: Findings, case: Case, arguments: argparse.Namespace) -> None:
    """One table."""
    features = Features(case)
    figures: dict[str, list[list[float]]] = {}
    names: list[str] = []
    for split in range(arguments.splits):
        order = np.random.default_rng([arguments.seed, split]).permutation(case.rows.num_rows)
        train, test = (case.rows.take(pa.array(part)) for part in np.array_split(order, 2))
        x, y = features.of(test), happened(test)
        names = list(scaled(case, train))

        def chances(table: pa.Table, x: Float64s = x) -> Float64s:
            return 1 / (1 + np.exp(-x @ logistic(features.of(table), happened(table))))

        best = auc(chances(train), y)
        for name, changes, method in ways(case, train):
            policy = parse_policy(policy_of(case, changes, method), "scales", "scales")
            made, spent = timed(anonymize_table, train, policy, Secret(bytes([split + 1]) * 32), threads=1)
            found = ReleasedTable.of(made.released, bind(policy, train.schema, text=False, source="scales"))
            tables = found.impute(TABLES, outcome=OUTCOME, seed=split)
            gap = best - auc(np.mean([chances(each) for each in tables], axis=0), y)
            (record,) = made.metrics
            row = [
                covered(found, train, names),
                record["gcp"],
                by_differences(found, case, train),
                best - auc(chances(found.flat("mid")), y),
                gap,
                spent.cpu,
            ]
            figures.setdefault(name, []).append(row)
            print(f"{case.name} {split} {name}: raw {best:.4f}", [round(each, 4) for each in row], flush=True)
    table = findings.table(
        f"{case.name}: {case.rows.num_rows // 2:,} rows, {arguments.splits} splits; scaled: {', '.join(names)}",
        ("", "covered", "GCP", "linear", "AUC gap, middles", "AUC gap, people", "seconds"),
    )
    for name, rows in figures.items():
        table.rows.append((name, *np.mean(rows, axis=0).tolist()))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="What scales of widths are worth.")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("scales", __doc__ or "")
    for make in (bills, purchases):
        try:
            case = make(arguments.seed)
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
            continue
        add_case(findings, case, arguments)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    sys.exit(main())
