"""What do people lose who are cut into shards, against one piece?

Cuts: ``plan``, the one that ``kanonflow plan`` keeps after its trial (``tried_cut``; its name, and the ratio that the
trial told of its sample); ``even k-d``, halves through the middle (``cut_near``); ``hash``, by chance. Against
``tour``, one piece searched along the even k-d tour as before decision 104, and ``tree``, one piece as it is now.

Founding: each shard by itself (``put_together``), k = 5, ``--evaluations`` a person everywhere, those of the search's
own sample among them; the trial's come on top, once a plan. Loss: GCP of everybody's boxes, a person each. Windows:
rows drawn for people (Poisson, mean 2.5, of lognormal means, sigma .9, which know nothing of the attributes); each
shard merges its cohorts that have rows until groups have 5 active people, cold, at the default evaluations a row.
Loss: a row each, mean of ``--windows`` windows; the same windows for all. Most: people of the largest shard by those
of an even one. One seed (``--seed``), one thread. A ratio below 1: shards lose less.

Demo: customers of the demo feed's generator; of ``rows`` each is one. Adult: ten shards. Cube: four independent
uniform columns, where there is nothing to cut at. Rivals of the plan are measured on at most ``--most-rivals``
people, for the time it takes.

Newcomers: a fifth of the demo's people come in ten daily lots and enter every second day, in one piece or each in the
shard that a plan of the others has for them; who finds no cohort in it waits for the next intake. Drift: half of the
newcomers live in a town where nobody did, and incomes are 30% higher; ``new``: the plan is of everybody.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import MissingDataError, example_policy
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.stopwatch import timed
from benchmarks.tree_cut import along_the_tour, demo_people, table_of
from kanonflow.schemas.policy import Policy, Protection
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.loss.ncp import gcp
from kanonflow.solvers.merging.merging import MergeTask, merge_cohorts
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.structures.partition import Partition
from kanonflow.solvers.units.locality_cut import cut_near
from kanonflow.solvers.warm_up import warm_up_merging
from kanonflow.transforms.roster.founding import put_together, rows_of
from kanonflow.transforms.shards.trial import tried_cut

K = 5
RIVALS = ("even k-d", "hash")
SEED = 1
ROWS_A_PERSON = 2.5
ROW_GRAPH_EVALUATIONS = 1_800.0
SHARDS = (
    "people of", "people", "shards", "cut", "founding", "founding by tour", "founding by tree", "merged",
    "merged by tour", "merged by tree", "told", "most", "CPU s",
)  # fmt: skip
ENTERED = (
    "newcomers",
    "known",
    "newcomers a day",
    "shards",
    "plan",
    "one piece",
    "in shards",
    "ratio",
    "most",
)
GRAPHS = ("people of", "rows", "shards", "cut", "one piece", "in shards", "ratio")

Parts = Sequence[NDArray[np.int64]]


class Course(NamedTuple):
    """How the people of a feed are founded and merged. windows: of each the rows of each person, int64 (n,)."""

    table: Table
    windows: list[NDArray[np.int64]]
    policy: Policy
    budget: Budget
    seed: int = SEED


class Figures(NamedTuple):
    """Losses, and CPU seconds of both."""

    founding: float
    merged: float
    cpu: float


def windows_of(people: int, count: int) -> list[NDArray[np.int64]]:
    """The rows of each person in each window."""
    rng = np.random.default_rng(5)
    mean = rng.lognormal(0, 0.9, people)
    return [rng.poisson(ROWS_A_PERSON * mean / mean.mean()) for _ in range(count)]


def founded(course: Course, parts: Parts) -> NDArray[np.int64]:
    """The cohort of each person of these parts, int64 (n,); -1 of others, and of parts too small for one."""
    cohorts = np.full(course.table.records, -1, dtype=np.int64)
    for part in parts:
        if part.size >= K:
            own = put_together(rows_of(course.table, part), course.policy, K, course.budget, course.seed, 1)[
                0
            ]
            cohorts[part] = own + cohorts.max() + 1
    return cohorts


def box_loss(table: Table, cohorts: NDArray[np.int64]) -> float:
    """GCP of the boxes of everybody who is in a cohort."""
    own = np.flatnonzero(cohorts >= 0)
    _, dense = np.unique(cohorts[own], return_inverse=True)
    return gcp(rows_of(table, own), Partition(dense.astype(np.int32)))


def merged(course: Course, cohorts: NDArray[np.int64], parts: Parts) -> float:
    """Mean loss a row of the windows, each part merged by itself."""
    losses = []
    for rows in course.windows:
        lost = 0.0
        for part in parts:
            here = np.unique(cohorts[part[rows[part] > 0]])
            own = part[np.isin(cohorts[part], here)]
            at = np.searchsorted(here, cohorts[own])
            table = replace(rows_of(course.table, own), individuals=at)
            of_cohort = np.bincount(at, weights=rows[own]).astype(np.int64)
            active = np.bincount(at, weights=rows[own] > 0).astype(np.int64)
            lost += merge_cohorts(MergeTask(table, of_cohort, active, K, course.seed)).loss * int(
                of_cohort.sum()
            )
        losses.append(lost / int(rows.sum()))
    return float(np.mean(losses))


def lived(course: Course, parts: Parts) -> Figures:
    """Founded and merged."""
    cohorts, spent = timed(founded, course, parts)
    loss, merging = timed(merged, course, cohorts, parts)
    return Figures(box_loss(course.table, cohorts), loss, spent.cpu + merging.cpu)


def split_by(piece: NDArray[np.int64], pieces: int) -> Parts:
    """Who is in each piece."""
    return np.split(np.argsort(piece, kind="stable"), np.cumsum(np.bincount(piece, minlength=pieces))[:-1])


def add_shards(
    table: ResultTable, name: str, course: Course, counts: Sequence[int], rivals: Sequence[str]
) -> None:
    """The rows of a set."""
    people = course.table.records
    everybody = [np.arange(people)]
    whole = {}
    for piece in ("tour", "tree"):
        with along_the_tour() if piece == "tour" else nullcontext():
            whole[piece] = lived(course, everybody)
    tour, tree = whole["tour"], whole["tree"]

    def add(shards: int, cut: str, own: Figures, told: float | None, parts: Parts) -> None:
        ratios = [
            (loss, loss / before, loss / now)
            for loss, before, now in (
                (own.founding, tour.founding, tree.founding),
                (own.merged, tour.merged, tree.merged),
            )
        ]
        most = max(part.size for part in parts) * len(parts) / people
        table.rows.append((name, people, shards, cut, *ratios[0], *ratios[1], told, most, own.cpu))
        print(table.rows[-1], flush=True)

    for piece, own in whole.items():
        add(1, piece, own, None, everybody)
    for shards in counts:
        tried = tried_cut(course.table, course.policy, shards, seed=course.seed, threads=1)
        parts = split_by(tried.cut.piece_of(course.table), tried.cut.pieces)
        told = tried.losses[tried.name] / tried.whole
        add(shards, f"plan: {tried.name}", lived(course, parts), told, parts)
        for rival in rivals:
            if rival == "hash":
                parts = np.array_split(np.random.default_rng(course.seed).permutation(people), shards)
            else:
                parts = cut_near(course.table, -(-people // shards), K, distinct=False)
            add(shards, rival, lived(course, parts), None, parts)


def add_row_graphs(
    table: ResultTable, name: str, people: Table, policy: Policy, counts: Sequence[int]
) -> None:
    """Each row an individual of its own, in one graph and in a graph a shard, by a plan of rows."""
    policy = replace(
        policy,
        protect=Protection.ROW,
        **dict.fromkeys(("cohort", "cohort_size", "intake", "intake_share", "max_outdated")),
    )

    def loss(part: Table) -> float:
        return solve(Task(part, K, budget=Budget(ROW_GRAPH_EVALUATIONS), seed=SEED, shape="row_graph")).loss

    whole = loss(people)
    for shards in counts:
        tried = tried_cut(people, policy, shards, seed=SEED, threads=1)
        parts = split_by(tried.cut.piece_of(people), tried.cut.pieces)
        cut = sum(loss(rows_of(people, part)) * part.size for part in parts) / people.records
        table.rows.append((name, people.records, shards, f"plan: {tried.name}", whole, cut, cut / whole))
        print(table.rows[-1], flush=True)


def drifted(table: Table, newcomers: NDArray[np.int64]) -> Table:
    """Half of the newcomers in a town of their own, all of them with higher incomes."""
    numeric = table.numeric.copy()
    rng = np.random.default_rng(7)
    moved = newcomers[: newcomers.size // 2]
    # Beside the box of all others: nobody lives in the south-west.
    numeric[moved, 1:3] = np.clip(rng.normal((0.05, 0.1), (0.01, 0.012), (moved.size, 2)), 0, 1)
    numeric[newcomers, 3] = np.clip(numeric[newcomers, 3] * 1.3, 0, 1)
    return replace(table, numeric=numeric)


def entered(course: Course, lots: Parts, parts: Parts) -> float:
    """The loss of newcomers who enter lot by lot, each part's by themselves."""
    waiting = [np.empty(0, dtype=np.int64) for _ in parts]
    cohorts = np.full(course.table.records, -1, dtype=np.int64)
    for lot in lots:
        for place, part in enumerate(parts):
            pool = np.concatenate([waiting[place], part[np.isin(part, lot)]])
            waiting[place] = pool if pool.size < K else pool[:0]
            if pool.size >= K:
                own = founded(course, [pool])[pool]
                cohorts[pool] = own + cohorts.max() + 1
    return box_loss(course.table, cohorts)


def add_newcomers(table: ResultTable, course: Course, counts: Sequence[int]) -> None:
    """Of the same kind as those who are known, and of another."""
    people = course.table.records
    order = np.random.default_rng(3).permutation(people)
    known, newcomers = np.sort(order[: people * 4 // 5]), order[people * 4 // 5 :]
    lots = np.array_split(newcomers, 5)
    for kind in ("as the others", "drift"):
        here = course if kind == "as the others" else course._replace(table=drifted(course.table, newcomers))
        one = entered(here, lots, [newcomers])
        for shards in counts:
            for plan in ("old",) if here is course else ("old", "new"):
                made_of = rows_of(here.table, known) if plan == "old" else here.table
                cut = tried_cut(made_of, course.policy, shards, seed=course.seed, threads=1).cut
                piece = cut.piece_of(here.table)
                parts = [part[np.isin(part, newcomers)] for part in split_by(piece, cut.pieces)]
                loss = entered(here, lots, parts)
                most = float(np.bincount(piece).max()) * cut.pieces / people
                row = (kind, known.size, newcomers.size // 10, shards, plan, one, loss, loss / one, most)
                table.rows.append(row)
                print(row, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code. Results are written after each set, so that none is lost."""
    parser = argparse.ArgumentParser(description="Shards of one partition against one piece.")
    parser.add_argument("--sets", nargs="*", default=["demo", "newcomers", "adult", "demo", "cube", "rows"])
    parser.add_argument(
        "--people", type=int, nargs="*", default=[100_000, 100_000, 30_162, 30_000, 30_000, 30_000]
    )
    parser.add_argument("--shards", type=int, nargs="*", default=[4, 16, 64])
    parser.add_argument("--most-rivals", type=int, default=50_000, help="people that are cut by rivals, too")
    parser.add_argument("--evaluations", type=float, default=3_500.0)
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument(
        "--newcomers", type=int, default=100_000, help="people of whom a fifth comes; 0: none"
    )
    parser.add_argument(
        "--seed", type=int, default=SEED, help="of plans and searches; people and windows stay"
    )
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("shards", __doc__ or "")
    shards = findings.table("Shards against one piece", SHARDS, arguments.note)
    graphs = findings.table("Row graphs", GRAPHS, f"{ROW_GRAPH_EVALUATIONS:,.0f} evaluations a row.")
    entering = findings.table("Newcomers, by a plan", ENTERED)
    warm_up_merging()
    policy = example_policy("sparkov")
    budget = Budget(arguments.evaluations)
    for name, size in zip(arguments.sets, arguments.people, strict=True):
        try:
            table = demo_people(size) if name in ("newcomers", "rows") else table_of(name, size)
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
            continue
        windows = windows_of(table.records, arguments.windows)
        course = Course(table, windows, policy, budget, arguments.seed)
        # Loads the kernels.
        lived(course._replace(budget=Budget(1.0)), [np.arange(min(table.records, 2_000))])
        if name == "rows":
            add_row_graphs(graphs, "demo", table, policy, arguments.shards)
        elif name == "newcomers":
            add_newcomers(entering, course, arguments.shards)
        else:
            rivals = RIVALS if size <= arguments.most_rivals else ()
            add_shards(shards, name, course, [10] if name == "adult" else arguments.shards, rivals)
        if name == "adult":
            add_row_graphs(graphs, name, table, policy, [10])
        publish(findings, arguments, begun)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
