"""How even are the shares of 16 and of 64 workers, by the CPU that each shard was measured to take?

Shards: those that ``kanonflow plan`` keeps, of the demo generator's customers. CPU of a shard: founding it by itself
and merging ``--windows`` windows of it, as in ``benchmarks.shards``, one thread, least of ``--repeats``. Workers:
parallel instances of a step on Flink. A worker has the key groups that Flink gives it, and their shards: ``dealt`` as
the plan deals them, heaviest in people first; ``hash``, a group by chance, mean of 20 draws. Slowest: CPU of the
busiest worker by that of a mean one; by people: the same of people, which is all that the plan knows.

One cell a shard and nothing else: what a worker does besides (reading, strangers) is not in it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import example_policy
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.shards import SEED, Course, Parts, lived, split_by, windows_of
from benchmarks.tree_cut import demo_people
from kanonflow.solvers.problem.budget import Budget
from kanonflow.solvers.warm_up import warm_up_merging
from kanonflow.transforms.shards.key_groups import KEY_GROUPS, dealt, worker_of
from kanonflow.transforms.shards.trial import tried_cut

SKEW = ("people", "shards", "workers", "slowest", "by people", "hash", "slowest shard", "CPU s of all")
DRAWS = 20


def cpu_of(course: Course, parts: Parts, repeats: int) -> NDArray[np.float64]:
    """CPU seconds of each part, float64 (parts,)."""
    return np.array([min(lived(course, [part]).cpu for _ in range(repeats)) for part in parts])


def slowest(loads: NDArray[np.float64], groups: Sequence[int], workers: int) -> float:
    """The busiest worker's load by the mean. groups: the key group of each load."""
    of_worker = np.bincount([worker_of(group, workers) for group in groups], loads, minlength=workers)
    return float(of_worker.max() / of_worker.mean())


def add_skew(table: ResultTable, course: Course, shards: int, workers: Sequence[int], repeats: int) -> None:
    """A row for each number of workers."""
    cut = tried_cut(course.table, course.policy, shards, seed=SEED, threads=1).cut
    parts = sorted(split_by(cut.piece_of(course.table), cut.pieces), key=len, reverse=True)
    people = np.array([part.size for part in parts], dtype=float)
    cpu, groups = cpu_of(course, parts, repeats), dealt(map(len, parts))
    rng = np.random.default_rng(SEED)
    chances = [rng.integers(0, KEY_GROUPS, len(parts)).tolist() for _ in range(DRAWS)]
    for count in workers:
        by_chance = float(np.mean([slowest(cpu, chance, count) for chance in chances]))
        row = (slowest(cpu, groups, count), slowest(people, groups, count), by_chance)
        table.rows.append(
            (course.table.records, len(parts), count, *row, float(cpu.max() / cpu.mean()), float(cpu.sum()))
        )
        print(table.rows[-1], flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Even shares of many workers.")
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--shards", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4, 16, 64])
    parser.add_argument("--evaluations", type=float, default=1_000.0)
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("shard_skew", __doc__ or "")
    table = findings.table("The busiest worker", SKEW, arguments.note)
    warm_up_merging()
    people = demo_people(arguments.people)
    windows = windows_of(people.records, arguments.windows)
    course = Course(people, windows, example_policy("sparkov"), Budget(arguments.evaluations))
    # Loads the kernels.
    lived(course._replace(budget=Budget(1.0)), [np.arange(min(people.records, 2_000))])
    for shards in arguments.shards:
        add_skew(table, course, shards, arguments.workers, arguments.repeats)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    sys.exit(main())
