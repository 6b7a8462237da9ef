"""Do KAB's moves help, and what is left for a search to gain on S4's clusterings?

Data: UCI Adult, the first 2,000 rows as S4 takes them, by taxonomies (``adult_taxonomies``). GCP in %, by leaves.

Ratios: gain % is (before - after) / before, in one process. CPU seconds are not compared.

Ablation: KAB against the best of as many NCP clusterings as KAB made stars, mean over seeds; ``literal`` is eq. 10 on
ids, rounded, with the printed fitness. Search: what the searches gain when they start from each clustering, default
budget.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from benchmarks.adult_taxonomies import Adult
from benchmarks.data_sets import ADULT, MissingDataError, data_path
from benchmarks.kab_tables import METHODS
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.rivals.black_hole import BlackHoleParameters, StarProblem
from kanonflow.solvers.rivals.class_hulls import labels_loss
from kanonflow.solvers.rivals.clusterings import individual_input, star_problem
from kanonflow.solvers.rivals.kab import kab_result
from kanonflow.solvers.rivals.ncp_clustering import ncp_clustering_labels
from kanonflow.solvers.units.individuals import gather_individuals


def best_restart(problem: StarProblem, seed: int, restarts: int) -> NDArray[np.int32]:
    """The best of so many NCP clusterings: what KAB must beat to be worth its moves. O(restarts u^2 d / k)."""
    seeds = np.random.SeedSequence(seed).generate_state(max(restarts, 1), np.uint64)
    stars = (ncp_clustering_labels(problem.people, problem.who, problem.k, int(drawn)) for drawn in seeds)
    return min(stars, key=lambda labels: labels_loss(problem.people, labels))


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
        found.append((*losses, kab.made, literal.made, kab.overtaken, falling.overtaken))
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
    parser = argparse.ArgumentParser(description="What KAB's moves and our searches gain on Adult.")
    parser.add_argument("--k", type=int, nargs="+", default=[2, 5, 10, 20, 40])
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of the ablation")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("kab_search", __doc__ or "")
    try:
        adult = Adult(data_path(ADULT), arguments.rows)
    except MissingDataError as missing:
        findings.skipped.append(str(missing))
        return publish(findings, arguments, begun)
    ablation = findings.table(
        "Ablation of KAB, GCP %",
        (
            *("rows", "k", "KAB", "as many restarts", "no horizon", "3 restarts", "one clustering"),
            *("literal", "stars made", "stars made, literal", "overtaken", "overtaken without horizon"),
        ),
        "stars made: NCP clusterings in a run of KAB. no horizon: nobody is swallowed, so 3 are made, and stars fall"
        " all the way. overtaken: how often a star became the best by moving.",
    )
    gains = findings.table(
        "What local search gains with each as start, GCP %",
        ("rows", "k", "start", "classes", "searched", "gain %", "graph", "searched ", "gain % "),
        "classes: of 2k and more are cut before the search. graph: each class as a circulant.",
    )
    for k in arguments.k:
        add_ablation(ablation, adult, k, arguments.seeds)
        add_search(gains, adult, k, arguments.seeds[0], ["l-greedy", *METHODS])
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
