"""What does the cut by a tree gain in one partition, against even k-d cuts?

The class search of people of one row each, k = 5, default start, two threads: its parts are pieces of a tree, or of the
k-d tour as before (``tour``); both at the same evaluations a person, which include those of the sample. Where the
tree's start costs more, the search goes along the tour after all. Loss: mean of ``--seeds`` seeds. Ratio below 1: the
tree loses less. ``tree_cut_always`` is of the commit before, which took the tree without comparing starts.

Demo: customers of the demo feed's generator, birth date, place and income, sex and occupation. Adult: 30,162 rows,
eight attributes. Cards, mixed, census: ``rosters.Crowd``, ``generated_tables``. Cube: four independent uniform columns,
where there is nothing to cut at.

Large intakes: ``founding`` of demo customers at its own budget, two threads, a process of its own: pieces of 16,000 by
a tree, and parts of 200,000 by ``cut_near`` as before. Memory: the most that the process had, less what it had before.
"""

from __future__ import annotations

import argparse
import datetime as dt
import multiprocessing
import resource
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.data_sets import ADULT, SPARKOV, MissingDataError, adult_table, data_path, example_policy
from benchmarks.generated_tables import census_table, mixed_table
from benchmarks.lasting import text_table
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.rosters import Crowd
from benchmarks.stopwatch import timed
from kanonflow.pipelines.commands.demo_feed import FeedShape, _customers
from kanonflow.solvers.dispatch import solve
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.problem.table import Table
from kanonflow.solvers.problem.task import Task
from kanonflow.solvers.shapes import classes
from kanonflow.solvers.units.locality_cut import cut_near
from kanonflow.transforms.columns.encode import encode
from kanonflow.transforms.roster import founding

K = 5
THREADS = 2
SEARCHED = (
    "people of", "people", "loss", "evaluations a person", "tour", "tree", "ratio", "CPU s tour", "CPU s tree",
)  # fmt: skip
FOUNDED = ("people", "cut", "pieces", "loss", "CPU seconds", "memory MB")
BORN = (dt.date(1920, 1, 1), dt.date(2020, 12, 31))
EPOCH = dt.date(1970, 1, 1)


def demo_people(people: int, seed: int = 3) -> Table:
    """Customers of the demo feed, each once."""
    columns = _customers(FeedShape(rows=5 * people, days=2, seed=seed), np.random.default_rng(seed)).columns
    low, high = ((day - EPOCH).days for day in BORN)
    born = columns["birth_date"].cast(pa.int32()).to_numpy()[:people]
    numbers = [_scaled(born, low, high)]
    for name, least, most in (
        ("home_latitude", 47.0, 55.5),
        ("home_longitude", 5.5, 15.5),
        ("income", 0, 5e5),
    ):
        numbers.append(
            _scaled(columns[name].cast(pa.float64()).to_numpy(zero_copy_only=False)[:people], least, most)
        )
    codes = [columns[name].slice(0, people).dictionary_encode() for name in ("gender", "occupation")]
    return Table(
        numeric=np.stack(numbers, axis=1),
        categorical=np.stack([np.asarray(each.indices) for each in codes], axis=1).astype(np.int32),
        cardinality=np.array([len(each.dictionary) for each in codes]),
        weights=np.ones(len(numbers) + len(codes)),
    )


def _scaled(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    return np.clip((values - low) / (high - low), 0, 1)


def table_of(name: str, people: int) -> Table:
    """A table by its name. Raises MissingDataError."""
    if name == "demo":
        return demo_people(people)
    if name == "adult":
        return adult_table(data_path(ADULT), people)
    if name == "cards":
        data_path(SPARKOV)
        crowd = Crowd(text_table(SPARKOV))
        return encode(crowd.draw(people)[1].values, crowd.bound, None, {}).table
    if name == "cube":
        cube = np.random.default_rng(1).random((people, 4))
        return Table(cube, np.empty((people, 0), np.int32), np.empty(0, np.int64), np.ones(4))
    return {"mixed": mixed_table, "census": census_table}[name](people, 1)


@contextmanager
def along_the_tour() -> Iterator[None]:
    """The class search as it was: parts are even stretches of a k-d tour."""
    with (
        patch.object(classes, "_in_pieces", lambda problem, effort: (problem, effort)),
        patch.object(classes, "_cheaper_start", lambda whole, _: (None, whole)),
    ):
        yield


def searched(table: Table, loss: str, per_row: float, seeds: int, *, tree: bool) -> tuple[float, float]:
    """Mean loss and mean CPU seconds of a search."""
    task = Task(table, K, seed=0, shape="classes", loss=loss, budget=Budget(per_row), threads=THREADS)
    runs = []
    with nullcontext() if tree else along_the_tour():
        for seed in range(seeds):
            solution, spent = timed(solve, replace(task, seed=seed), "auto")
            runs.append((solution.loss, spent.cpu))
    mean = np.mean(runs, axis=0)
    return float(mean[0]), float(mean[1])


def add_searched(table: ResultTable, name: str, people: int, loss: str, per_row: float, seeds: int) -> None:
    """A row."""
    numbers = table_of(name, people)
    # Loads the kernels.
    searched(numbers, loss, 5.0, 1, tree=True)
    tour, cpu_tour = searched(numbers, loss, per_row, seeds, tree=False)
    tree, cpu_tree = searched(numbers, loss, per_row, seeds, tree=True)
    table.rows.append((name, numbers.records, loss, per_row, tour, tree, tree / tour, cpu_tour, cpu_tree))


class Intake(NamedTuple):
    """What founding has taken. memory: MB more than before."""

    pieces: int
    loss: float
    cpu: float
    memory: int


def founded(people: int, cut: str) -> Intake:
    """Demo customers, founded by the cut of that name, in this process."""
    table, policy = demo_people(people), example_policy("sparkov")
    own, counts = founding._pieces, []

    def pieces(table: Table, *rest: object) -> list[NDArray[np.int64]]:
        parts = (
            own(table, *rest) if cut == "tree" else cut_near(table, founding.PART, K, distinct=False)  # type: ignore[arg-type]
        )
        counts.append(len(parts))
        return parts

    solve(Task(demo_people(300), K, seed=0, shape="classes"), "auto")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with patch.object(founding, "_pieces", pieces):
        (_, loss), spent = timed(founding._labels, table, policy, K, 1, THREADS)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Intake(counts[0], loss, spent.cpu, (most - before) // 1024)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="A cut by a tree against even k-d cuts.")
    parser.add_argument("--sets", nargs="*", default=["demo", "adult", "cards", "mixed", "census", "cube"])
    parser.add_argument("--people", type=int, default=30_000)
    parser.add_argument("--budgets", type=float, nargs="*", default=[500.0, 3_500.0])
    parser.add_argument("--losses", nargs="*", default=["ncp"], choices=("ncp", "sil"))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--founded", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("tree_cut", __doc__ or "")
    # Before anything large is here: a child begins with its parent's mark.
    if arguments.founded:
        table = findings.table("Large intakes", FOUNDED, arguments.note)
        for people in arguments.founded:
            for cut in ("k-d", "tree"):
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    table.rows.append((people, cut, *pool.apply(founded, (people, cut))))
    table = findings.table("The class search", SEARCHED, arguments.note)
    for name in arguments.sets:
        for loss in arguments.losses:
            for per_row in arguments.budgets:
                try:
                    add_searched(table, name, arguments.people, loss, per_row, arguments.seeds)
                except MissingDataError as missing:
                    findings.skipped.append(str(missing))
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    raise SystemExit(main())
