"""What do many small partitions cost, and what does a large intake?

Partitions: made-up rows (seed 1), ``--rows`` of people who come on five days of the first week of March 2024, k = 3,
``cohort: lasting``, windows of a day, rows may wait one more; ``kanonflow anonymize`` as a process of its own. The same
rows and people are parted into few or many by ``partition_by``. CPU seconds are of the whole command, ratio to that
with the fewest partitions, in one run. A firing is a window of a partition (a record of the metrics). Milliseconds a
firing: what a run costs more than that with the fewest partitions, by the firings that it has more.

Founding: ``found`` over so many people at once, as of ``benchmarks.rosters``, all cores; above 200,000 in k-d parts.
Memory is the most that the process had, from the pool on. A checkpoint that waits for it has 600 s of wall time.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import fastavro

from benchmarks.data_sets import SPARKOV, MissingDataError, data_path
from benchmarks.lasting import text_table
from benchmarks.result_files import Findings, ResultTable, add_result_arguments, environment, publish
from benchmarks.rosters import EPOCH, SEED, Crowd
from benchmarks.stopwatch import timed, timed_child
from kanonflow.transforms.roster.founding import found
from kanonflow.transforms.roster.roster import RosterHead

PARTITIONED = ("partitions", "rows", "firings", "released", "CPU seconds", "ratio", "ms a firing")
FOUNDED = ("people", "threads", "cohorts", "loss", "seconds", "CPU seconds", "memory MB")
DAYS = 5
POLICY = """
version: 1
k: 3
window: 1d
max_delay: 1d
cohort: lasting
solver: {threads: 1}
partition_by: [shop]
fields:
  who: {role: individual}
  when: {role: time}
  age: {role: quasi, type: numeric, as: int, domain: [0, 120]}
  job: {role: quasi, type: categorical}
  shop: {role: insensitive, accept_risk: made up}
  amount: {role: sensitive, as: "decimal(9,2)", accept_risk: made up}
"""


def write_feed(path: Path, rows: int, partitions: int) -> None:
    """The feed as CSV: a row a person and day. Only the shop hangs on the number of partitions."""
    rng = random.Random(SEED)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(("who", "when", "age", "job", "shop", "amount"))
        for who in range(rows // DAYS):
            age, job = rng.randint(18, 90), rng.choice(("baker", "clerk", "nurse", "smith"))
            for day in range(1, DAYS + 1):
                when = f"2024-03-{day:02} {rng.randrange(24):02}:{rng.randrange(60):02}:00"
                out.writerow(
                    (f"p{who}", when, age, job, f"s{who % partitions}", f"{rng.randrange(9999) / 100:.2f}")
                )


def run(place: Path, rows: int, partitions: int) -> tuple[int, int, float]:
    """Firings, released rows and CPU seconds of the command."""
    write_feed(place / f"{partitions}.csv", rows, partitions)
    (place / "policy.yaml").write_text(POLICY)
    output = place / f"out{partitions}"
    command = [
        sys.executable,
        "-m",
        "kanonflow.pipelines.cli",
        "anonymize",
        "--policy",
        str(place / "policy.yaml"),
    ]
    command += ["--input", str(place / f"{partitions}.csv"), "--output", str(output), "--quiet"]
    _, spent = timed_child(subprocess.run, command, check=True, capture_output=True)
    released = []
    for path in output.glob("restricted/metrics/*.avro"):
        with path.open("rb") as file:
            released += [record["rows_released"] for record in fastavro.reader(file)]  # type: ignore[index, misc]
    return len(released), sum(released), spent.cpu


def add_partitions(table: ResultTable, rows: int, counts: list[int]) -> None:
    """A row for each number of partitions, the smallest first."""
    with tempfile.TemporaryDirectory() as work:
        runs = [(count, *run(Path(work), rows, count)) for count in sorted(counts)]
    _, least, _, base = runs[0]
    for count, firings, released, cpu in runs:
        each = 1e3 * (cpu - base) / (firings - least) if firings > least else None
        table.rows.append((count, rows, firings, released, cpu, cpu / base, each))


def add_founded(table: ResultTable, people: int) -> None:
    """One row."""
    crowd, threads = Crowd(text_table(SPARKOV)), os.cpu_count() or 1
    # Loads the kernels.
    found(crowd.draw(200)[1], RosterHead(EPOCH), crowd.bound, {}, seed=SEED, threads=1)
    pool = crowd.draw(people)[1]
    made, spent = timed(found, pool, RosterHead(EPOCH), crowd.bound, {}, seed=SEED, threads=threads)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    table.rows.append((people, threads, made.segment.after.cohorts, made.loss, spent.wall, spent.cpu, memory))


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(description="Many partitions, large intakes.")
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--partitions", type=int, nargs="*", default=[10, 100, 1_000])
    parser.add_argument("--founded", type=int, nargs="*", default=[1_000_000, 4_000_000])
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("limits", __doc__ or "")
    if arguments.partitions:
        table = findings.table("Many partitions", PARTITIONED, arguments.note)
        add_partitions(table, arguments.rows, arguments.partitions)
    if arguments.founded:
        table = findings.table("A large intake", FOUNDED, arguments.note)
        try:
            data_path(SPARKOV)
        except MissingDataError as missing:
            findings.skipped.append(str(missing))
        else:
            for people in sorted(arguments.founded):
                add_founded(table, people)
    return publish(findings, arguments, begun)


if __name__ == "__main__":
    sys.exit(main())
