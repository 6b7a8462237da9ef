"""What do 10^5, 10^6 and 10^7 rows of one partition cost that lie in one window, in shards on a Flink cluster?

Feed, people and plan of benchmarks/large_window.py, with the transaction's id published, which the accounts go by. Job:
``kanonflow stream`` over the Parquet files, all there before it begins, on two TaskManagers of two slots each, with a
Python worker for each of them, parallelism 4, ``--max_parallelism=128``; a cluster of its own for each run. State lies
on the TaskManagers' heap. A checkpoint is asked for 30 s after the one before, and has an hour.

Job: seconds of the command, its start included. Rows/s: from the first row read to the last row released or rejected.
CPU: of the Python workers, of the TaskManagers (Java), from the first row on, by the rows of the feed. End to first,
to last: seconds from when the source handed its last row on, which ends the window, to the first and the last file of a
release, as far as samples of a second and Flink's metrics tell. Peak: the largest resident set of one process, of a
Python worker and of a TaskManager, sampled each second. State: of the largest checkpoint. Rows are exact when each is
released or rejected once, by its id.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.data_sets import DAY_MS
from benchmarks.large_window import PEOPLE_PER_SHARD, run_child, write_feed
from benchmarks.main_job import CommandFailedError
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.shard_workers import SLOTS, WORKER
from benchmarks.stream_feed import BEGIN_MS, FeedFile, StreamFeed
from benchmarks.stream_run import (
    Killer,
    Outcome,
    Saver,
    StreamFailedError,
    follow,
    kind_of,
    outcome,
    stream_command,
)
from benchmarks.stream_watch import Sample
from deploy.flink.job_server_jar import MissingToolError
from deploy.flink.session import SessionCluster
from kanonflow.schemas.policy_file import load_policy
from kanonflow.solvers.warm_up import warm_up

TASK_MANAGERS = 2
JAVA = "task-manager"
CHECKPOINTING_MS = 30_000
HEAP_MB, HEAP_BYTES_A_ROW = 512, 400
"""Of a TaskManager: three times the bytes of all rows, for one of them may hold more than its half."""
HEAD = ("rows", "people", "shards", "heap MB", "job s", "rows/s", "worker CPU us a row", "Java CPU us a row", "flat",
        "end to first s", "to last s", "worker peak GB", "TaskManager peak GB", "state GB", "restarts",
        "released", "rejected", "exact")  # fmt: skip


def heap_mb(rows: int) -> int:
    """Of a TaskManager, for a window of so many rows."""
    return HEAP_MB + rows * HEAP_BYTES_A_ROW // 1_000_000


def run_rows(rows: int, shards: int, folder: Path, patience: float) -> tuple[Outcome, float]:
    """A job over a feed that is there, and its seconds. Raises StreamFailedError, CommandFailedError, TimeoutError."""
    path, plan = folder / "policy.yaml", folder / "plan.json"
    more = [f"--checkpoint_timeout_millis={3_600_000}", "--max_parallelism=128"]
    if shards > 1:
        given = ["--policy", str(path), "--input", str(folder / "feed" / "*.parquet")]
        run_child("plan", *given, "--shards", str(shards), "--output", str(plan))
        more += ["--plan", str(plan)]
    # Only the end of the feed closes the window of its day.
    feed = StreamFeed(folder / "feed", (FeedFile("", 0, rows, BEGIN_MS + DAY_MS - 1),), rows)
    example = sorted(feed.folder.glob("*.parquet"))[0]
    (feed.folder / "_END").touch()
    begun = time.perf_counter()
    with SessionCluster(
        folder / "cluster", task_managers=TASK_MANAGERS, slots=SLOTS, heap_mb=heap_mb(rows)
    ) as cluster:
        killer, saver = Killer(cluster, feed, 0, TASK_MANAGERS), Saver(cluster, feed, 0)
        begun = time.perf_counter()
        with stream_command(
            cluster, folder, path, feed.folder, example, parallelism=TASK_MANAGERS * SLOTS,
            checkpointing_ms=CHECKPOINTING_MS, every=1.0, resume=more,
        ) as (process, watch):  # fmt: skip
            ended = follow(process, watch, folder, None, killer, saver, patience)
        spent = time.perf_counter() - begun
    assert ended is not None
    print(f"{rows:,} rows: the job ended after {spent:.0f} s", file=sys.stderr, flush=True)
    late = load_policy(path).out_of_orderness_ms
    return outcome("", feed, folder / "out", watch, None, killer, saver, ended, late), spent


def peak(samples: Sequence[Sample], kind: str) -> int:
    """Bytes of the largest process of a kind."""
    found = [
        each.rss for sample in samples for name, each in sample.processes.items() if kind_of(name) == kind
    ]
    return max(found, default=0)


def figures(run: Outcome, people: int, shards: int, spent: float, first: float | None) -> tuple[Any, ...]:
    """A row of the table. first: CPU a row of the Python workers in the smallest run."""
    rows, cpu, waits = run.feed.rows, run.cpu_seconds(), run.latencies()
    each = 1e6 * cpu.get(WORKER, 0.0) / rows
    return (
        rows, people, shards, heap_mb(rows), spent, rows / run.seconds, each, 1e6 * cpu.get(JAVA, 0.0) / rows,
        each / (first or each), min(waits), max(waits), peak(run.samples, WORKER) / 1e9, peak(run.samples, JAVA) / 1e9,
        max((checkpoint.size for checkpoint in run.checkpoints), default=0) / 1e9, run.restored,
        run.accounts.released, run.accounts.rejected.total(), run.accounts.exact,
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the exit code. Results are written after each run, so that none is lost."""
    parser = argparse.ArgumentParser(description="Many rows of one window on a Flink cluster.")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--people-per-shard", type=int, default=PEOPLE_PER_SHARD)
    parser.add_argument("--patience", type=float, default=3_600.0, help="seconds until a run has failed")
    parser.add_argument("--work", type=Path, help="folder for feed and output (default: temporary)")
    parser.add_argument("--note", default="", help="a sentence on the circumstances, for the results")
    add_result_arguments(parser)
    arguments = parser.parse_args(argv)
    begun = environment()
    findings = Findings("large_window_cluster", __doc__ or "", module="large_window_cluster")
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        findings.skipped.append(f"skipped, no {' and no '.join(missing)} on the path")
        return publish(findings, arguments, begun)
    warm_up()  # fills the cache that the workers load their kernels from
    table = findings.table("One window of one partition on two TaskManagers", HEAD, arguments.note)
    first: float | None = None
    for rows in sorted(arguments.rows):
        with tempfile.TemporaryDirectory(dir=arguments.work) as work:
            folder = Path(work) / "job"
            people = write_feed(rows, folder, publish_ids=True)
            shards = max(1, round(people / arguments.people_per_shard))
            try:
                run, spent = run_rows(rows, shards, folder, arguments.patience)
            except (StreamFailedError, CommandFailedError, MissingToolError, TimeoutError) as failed:
                findings.skipped.append(f"{rows:,} rows, {shards} shards: FAILED, {failed}")
                continue
        table.rows.append(figures(run, people, shards, spent, first))
        first = first or table.rows[0][6]
        publish(findings, arguments, begun)
    return 1 if findings.skipped else 0


if __name__ == "__main__":
    raise SystemExit(main())
