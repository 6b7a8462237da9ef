"""What do 10^5, 10^6 and 10^7 rows of one partition cost that lie in one window, in shards?

Feed: the demo generator's, one day, twenty rows a customer, as Parquet files of half a million rows; policy
``transactions`` without ``partition_by``, k = 5, ``cohort: lasting``, windows of a day. All customers are known
from the start (``people:``), and ``kanonflow plan`` cuts them into the shards of a run; with one there is no
plan. Each run is ``kanonflow anonymize`` in a process of its own, as a user would start it; one with the smallest
feed before counts for nothing and loads the kernels.

CPU: of the command and all processes that it starts, by the rows of the feed. Releasing: from the first file of a
release to the last. A window ends when all of the feed is read, so the time before is that of reading it. Peak: the
largest resident set of one process. Flat: CPU a row against that of the smallest feed. Rows are exact when each is
released or rejected once, counted in the files.

With ``--days`` the rows are of so many windows, and each customer has so many rows a day: ``--days 91 --rows-a-day 5.5
--rows 10000000`` is 20,000 customers whose windows are one partition's. The results are ``many_windows`` then.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import fastavro
import pyarrow.parquet
import yaml

from benchmarks.main_job import BENCHMARK_SECRET, COMMAND, CommandFailedError
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.shard_workers import write_people, write_policy
from benchmarks.stream_feed import REFERENCE
from kanonflow.pipelines.commands.demo_feed import FeedShape, demo_feed
from kanonflow.schemas.policy_file import load_policy

ROWS_PER_FILE, ROWS_PER_PERSON = 500_000, 20
PEOPLE_PER_SHARD = 7_813
"""500,000 people in 64 shards."""
HEAD = ("rows", "people", "shards", "plan s", "wall s", "rows/s", "CPU us a row", "flat", "releasing s", "peak GB",
        "released", "rejected", "exact")  # fmt: skip


class Spent(NamedTuple):
    """Of one process and its own. peak: bytes of the largest."""

    wall: float
    cpu: float
    peak: int


def run_child(*arguments: str) -> Spent:
    """A ``kanonflow`` command to its end. Raises CommandFailedError."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as told:
        child = subprocess.Popen([*COMMAND, *arguments], stdout=told, stderr=told)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            told.seek(0)
            raise CommandFailedError(
                f"{arguments[0]} ended with {child.returncode}: {told.read().decode()[-500:]}"
            )
    return Spent(time.perf_counter() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def write_feed(
    rows: int,
    folder: Path,
    *,
    days: int = 1,
    rows_a_day: float = ROWS_PER_PERSON,
    publish_ids: bool = False,
) -> int:
    """Feed, people, policy and secret in a folder; returns how many people are known.

    publish_ids: the transaction's id is released, so that rows can be told apart.
    """
    (folder / "feed").mkdir(parents=True)
    table = demo_feed(FeedShape(rows=rows, days=days, seed=1, rows_per_customer_day=rows_a_day))
    for number, begin in enumerate(range(0, rows, ROWS_PER_FILE)):
        path = folder / "feed" / f"part-{number:03d}.parquet"
        pyarrow.parquet.write_table(table.slice(begin, ROWS_PER_FILE), path)
    policy = write_policy(folder)
    write_people(table, load_policy(policy), folder / "people.parquet")
    if not publish_ids:
        plain = yaml.safe_load(policy.read_text())
        plain["fields"][REFERENCE] = {"role": "identifier"}
        policy.write_text(yaml.safe_dump(plain, sort_keys=False))
    secret = folder / "secret"
    secret.write_bytes(BENCHMARK_SECRET)
    secret.chmod(0o600)
    return int(pyarrow.parquet.read_metadata(folder / "people.parquet").num_rows)


def rows_in(files: Sequence[Path]) -> int:
    """Records of Avro files, by their blocks."""
    count = 0
    for path in files:
        with path.open("rb") as file:
            count += sum(block.num_records for block in fastavro.block_reader(file))
    return count


def measured(rows: int, shards: int, folder: Path) -> tuple[float, ...]:
    """A run over a feed that is there: seconds of the plan, wall, CPU, releasing, peak, rows out and rejected."""
    given = ["--policy", str(folder / "policy.yaml"), "--input", str(folder / "feed" / "*.parquet")]
    plan, output, planned = folder / "plan.json", folder / "out", 0.0
    more = ["--secret-file", str(folder / "secret"), "--quiet"]
    if shards > 1:
        planned = run_child("plan", *given, "--shards", str(shards), "--output", str(plan)).wall
        more += ["--plan", str(plan)]
    spent = run_child("anonymize", *given, "--output", str(output), *more)
    files = sorted((output / "release").glob("*.avro"))
    times = [path.stat().st_mtime for path in files]
    rejected = rows_in(sorted((output / "restricted/rejected").glob("*.avro")))
    print(f"{rows:,} rows, {shards} shards: {spent}", file=sys.stderr, flush=True)
    released = rows_in(files)
    shutil.rmtree(output)
    plan.unlink(missing_ok=True)
    return planned, spent.wall, spent.cpu, max(times) - min(times), spent.peak, released, rejected


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code. Results are written after each run, so that none is lost."""
    parser = argparse.ArgumentParser(description="Many rows of one partition in one window.")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument(
        "--one-piece", type=int, nargs="*", default=[100_000, 1_000_000], help="rows that go by no plan, too"
    )
    parser.add_argument("--people-per-shard", type=int, default=PEOPLE_PER_SHARD)
    parser.add_argument("--days", type=int, default=1, help="windows of the feed")
    parser.add_argument("--rows-a-day", type=float, default=ROWS_PER_PERSON, help="of a customer")
    parser.add_argument("--work", type=Path, help="folder for feed and output (default: temporary)")
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("large_window", __doc__ or "", module="large_window")
    if arguments.days > 1:
        findings.name = "many_windows"
    table = findings.table(f"{arguments.days} windows of one partition", HEAD, arguments.note)
    first: float | None = None
    for rows in sorted({*arguments.rows, *arguments.one_piece}):
        with tempfile.TemporaryDirectory(dir=arguments.work) as work:
            folder = Path(work) / "job"
            # In a process of its own: a child's peak is never below that of the process that starts it.
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
                written = other.submit(
                    write_feed, rows, folder, days=arguments.days, rows_a_day=arguments.rows_a_day
                )
                people = written.result()
            if first is None:
                measured(rows, 1, folder)
            wanted = [1] if rows in arguments.one_piece else []
            shards = max(1, round(people / arguments.people_per_shard))
            wanted += [shards] if rows in arguments.rows and shards not in wanted else []
            for each in wanted:
                try:
                    planned, wall, cpu, releasing, peak, out, rejected = measured(rows, each, folder)
                except CommandFailedError as failed:
                    findings.skipped.append(f"{rows:,} rows, {each} shards: FAILED, {failed}")
                    continue
                first = cpu / rows if first is None else first
                exact = "yes" if out + rejected == rows else "NO"
                table.rows.append(
                    (rows, people, each, planned, wall, rows / wall, 1e6 * cpu / rows, cpu / rows / first, releasing,
                     peak / 1e9, int(out), int(rejected), exact)
                )  # fmt: skip
                publish(findings, arguments, begun)
    return 1 if findings.skipped else 0


if __name__ == "__main__":
    raise SystemExit(main())
