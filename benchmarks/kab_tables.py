"""Where do KAB and the clusterings it is compared with stand on Adult, and what is left for a search to gain?

Data: UCI Adult, complete cases, 30,162 rows; 8 quasi-identifiers as in S4 (KAB): age and education numeric (education
by its rank of 1 to 16), 6 categorical; class label: salary-class. Domains are those of the rows taken. Measures as S4
defines them (``solvers/loss/class_measures.py``): GenTotal-IL with the heights of ARX's hierarchies for Adult, CM,
C_AVG, CA; GCP is the project's, by sets of values and not by subtrees, so it is smaller than S4's on categorical
attributes.

Methods: as the solvers have them, one thread, one seed; population methods with S4's 3 stars and 10 iterations.
``auto, classes`` searches closed classes over rows with the default budget; ``auto, graph`` is the project's graph
search: it has no classes, so only GCP, and CM over the edges. Seconds are CPU seconds: of clusterings the clustering
itself, of ``auto`` the whole ``solve``, neighbours and bound included. S4's averages were read from its text.

Ratios: gain % is (before - after) / before, in one process.

Ablation: KAB against the best of as many NCP clusterings as KAB made stars, mean over seeds; ``literal`` is eq. 10 on
ids, rounded, with the printed fitness. Search: what the searches gain in GCP when they start from each clustering,
default budget.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import ADULT, MissingDataError, data_path
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.class_measures import (
    Height,
    average_class_size,
    class_sizes,
    classification_accuracy,
    classification_metric,
    general_total_loss,
    graph_classification_metric,
)
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.black_hole import BlackHoleParameters, StarProblem
from kanonflow.solvers.rivals.class_hulls import labels_loss
from kanonflow.solvers.rivals.clusterings import CLUSTERINGS, individual_input, star_problem
from kanonflow.solvers.rivals.kab import kab_result
from kanonflow.solvers.rivals.ncp_clustering import ncp_clustering_labels
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.individuals import gather_individuals

ALL_ROWS = 30_162
NUMERIC = ("age", "education")
CATEGORICAL = ("workclass", "marital-status", "occupation", "race", "sex", "native-country")
# From the least to the most schooling, as the census numbers them.
EDUCATION = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college",
    "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip
METHODS = ("mondrian", "black-hole", "kab", "k-member", "oka", "ika", "ncp-clustering")
# GenTotal-IL in %, averaged over k (S4, 4.3.3).
PAPER = {"kab": 14.0, "ika": 25.0, "k-member": 28.0, "oka": 32.0}


class Adult:
    """The first rows of the file: a table, the class labels, and the heights of the hierarchies."""

    def __init__(self, path: Path, rows: int) -> None:
        with path.open(encoding="utf-8", newline="") as file:
            records = [row for row, _ in zip(csv.DictReader(file, delimiter=";"), range(rows), strict=False)]
        ages = np.array([float(record["age"]) for record in records])
        schooling = np.array([EDUCATION.index(record["education"]) for record in records], dtype=float)
        domains, codes = [], []
        for name in CATEGORICAL:
            values, column = np.unique([record[name] for record in records], return_inverse=True)
            domains.append(values.tolist())
            codes.append(column)
        self.table = Table(
            numeric=np.stack([_scaled(ages), _scaled(schooling)], axis=1),
            categorical=np.stack(codes, axis=1).astype(np.int32),
            cardinality=np.array([len(domain) for domain in domains]),
            weights=np.ones(len(NUMERIC) + len(CATEGORICAL)),
        )
        self.income = np.array([record["salary-class"] == ">50K" for record in records]).astype(np.int64)
        folder = path.parent / "hierarchies"
        self.heights = [
            hierarchy_height(folder / f"adult_hierarchy_{name}.csv", domain)
            for name, domain in zip(CATEGORICAL, domains, strict=True)
        ]


def best_restart(problem: StarProblem, seed: int, restarts: int) -> NDArray[np.int32]:
    """The best of so many NCP clusterings: what KAB must beat to be worth its moves. O(restarts u^2 d / k)."""
    seeds = np.random.SeedSequence(seed).generate_state(max(restarts, 1), np.uint64)
    stars = (ncp_clustering_labels(problem.people, problem.who, problem.k, int(drawn)) for drawn in seeds)
    return min(stars, key=lambda labels: labels_loss(problem.people, labels))


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return (values - values.min()) / max(float(np.ptp(values)), 1.0)


def hierarchy_height(path: Path, domain: list[str]) -> Height:
    """Share of the tree's height at which codes of ``domain`` meet. path: CSV with ``;``, leaf first, root last."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = {row[0]: row for row in csv.reader(file, delimiter=";") if row}
    levels = np.array([lines[value] for value in domain])
    top = levels.shape[1] - 1

    def height(codes: NDArray[np.int32]) -> float:
        if codes.size < 2:
            return 0.0
        return next(level for level in range(top + 1) if np.unique(levels[codes, level]).size == 1) / top

    return height


def add_classes(into: ResultTable, adult: Adult, k: int, name: str, labels: NDArray, cpu: float) -> None:
    """One row of measures."""
    classes = Partition(labels)
    into.rows.append(
        (
            adult.table.records,
            k,
            name,
            general_total_loss(adult.table, classes, adult.heights),
            100 * gcp(adult.table, classes),
            classification_metric(classes, adult.income),
            average_class_size(class_sizes(classes), k),
            classification_accuracy(class_sizes(classes), k),
            cpu,
        )
    )


def add_measures(into: ResultTable, adult: Adult, k: int, seed: int, methods: list[str]) -> None:
    """Every method for one table and k."""
    table = adult.table
    people = gather_individuals(table)
    for name in methods:
        labels, spent = timed(CLUSTERINGS[name], individual_input(table, people, k, seed))
        add_classes(into, adult, k, name, labels, spent.cpu)
    solution, spent = timed(solve, Task(table, k, shape="classes", seed=seed))
    add_classes(into, adult, k, "auto, classes", solution.partition.labels, spent.cpu)
    solution, spent = timed(solve, Task(table, k, seed=seed))
    errors = graph_classification_metric(solution.graph.members, adult.income)
    loss = 100 * gcp(table, solution.graph)
    into.rows.append((table.records, k, "auto, graph", None, loss, errors, None, None, spent.cpu))


def add_averages(findings: Findings, measured: ResultTable, rows: int) -> None:
    """GenTotal-IL and GCP averaged over k, beside the paper's."""
    averages = findings.table(
        f"Averages over k, {rows:,} rows", ["method", "GenTotal-IL %", "S4's", "GCP %", "CPU s"]
    )
    for name in dict.fromkeys(row[2] for row in measured.rows):
        own = [row for row in measured.rows if row[0] == rows and row[2] == name]
        whole = None if own[0][3] is None else float(np.mean([row[3] for row in own]))
        averages.rows.append(
            (
                name,
                whole,
                PAPER.get(name),
                float(np.mean([row[4] for row in own])),
                float(np.mean([row[8] for row in own])),
            )
        )


def add_ablation(into: ResultTable, adult: Adult, k: int, seeds: list[int]) -> None:
    """KAB, as many restarts, one clustering, and the literal form: GCP in %, mean over seeds."""
    people = gather_individuals(adult.table)
    found: list[tuple[float, ...]] = []
    for seed in seeds:
        task = star_problem(individual_input(adult.table, people, k, seed))
        kab = kab_result(task, seed)
        literal = kab_result(task, seed, BlackHoleParameters(literal=True))
        falling = kab_result(task, seed, BlackHoleParameters(horizon=0.0))
        restarts = [best_restart(task, seed, count) for count in (kab.made, falling.made, 1)]
        stars = [kab.labels, restarts[0], falling.labels, *restarts[1:], literal.labels]
        losses = [100 * labels_loss(people, labels) for labels in stars]
        found.append((*losses, kab.made, kab.overtaken, falling.overtaken))
    into.rows.append((adult.table.records, k, *np.mean(found, axis=0).tolist()))


def add_search(into: ResultTable, adult: Adult, k: int, seed: int, starts: list[str]) -> None:
    """What the searches gain from each start: GCP in % before and after, in both shapes."""
    for start in starts:
        row: list[float] = []
        for shape in ("classes", "row_graph"):
            solution = solve(Task(adult.table, k, shape=shape, start=start, budget=Budget(), seed=seed))
            before, after = 100 * solution.start_loss, 100 * solution.loss
            row += [before, after, 100 * (before - after) / before]
        into.rows.append((adult.table.records, k, start, *row))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="S4's tables: KAB and its rivals on Adult.")
    parser.add_argument("--k", type=int, nargs="+", default=[2, 5, 10, 20, 40])
    parser.add_argument("--rows", type=int, default=ALL_ROWS, help="first rows of the file")
    parser.add_argument("--sizes", type=int, nargs="*", default=[5_000, 10_000, 20_000], help="at k=5 too")
    parser.add_argument("--methods", nargs="+", choices=tuple(CLUSTERINGS), default=list(METHODS))
    parser.add_argument("--small", type=int, default=2_000, help="rows of the ablation and of the search")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of the ablation")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("kab_tables", __doc__ or "")
    try:
        path = data_path(ADULT)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    tiny = Adult(path, 200)
    add_measures(ResultTable("warm-up", ()), tiny, 5, 1, arguments.methods)
    columns = ("rows", "k", "method", "GenTotal-IL %", "GCP %", "CM", "C_AVG", "CA", "CPU s")
    measured = findings.table("Measures by k", columns)
    adult = Adult(path, arguments.rows)
    for k in arguments.k:
        add_measures(measured, adult, k, arguments.seeds[0], arguments.methods)
    add_averages(findings, measured, adult.table.records)
    sized = findings.table("Measures by size, k=5", columns)
    for rows in arguments.sizes:
        add_measures(sized, Adult(path, rows), 5, arguments.seeds[0], arguments.methods)
    small = Adult(path, arguments.small)
    ablation = findings.table(
        "Ablation of KAB, GCP %",
        (
            *(
                "rows",
                "k",
                "KAB",
                "as many restarts",
                "no horizon",
                "3 restarts",
                "one clustering",
                "literal",
            ),
            *("stars made", "overtaken", "overtaken without horizon"),
        ),
        "stars made: NCP clusterings in a run of KAB. no horizon: nobody is swallowed, so 3 are made, and stars fall"
        " all the way. overtaken: how often a star became the best by moving.",
    )
    gains = findings.table(
        "What local search gains with each as start, GCP %",
        ["rows", "k", "start", "classes", "searched", "gain %", "graph", "searched ", "gain % "],
        "classes: of 2k and more are cut before the search. graph: each class as a circulant.",
    )
    for k in arguments.k:
        add_ablation(ablation, small, k, arguments.seeds)
        add_search(gains, small, k, arguments.seeds[0], ["l-greedy", *arguments.methods])
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
