"""What does the whole stream on a Flink cluster sustain, how late is a release, and what does it take?

Jobs: ``kanonflow stream`` over a directory of Avro files, on a session cluster on this machine (deploy/flink): a
JobManager, two TaskManagers with two slots each, a Python worker for each of them, parallelism 4, a checkpoint every
10 s. The feed is the demo generator's; the policy is the example ``transactions`` (k = 5, windows of a day, protect:
individual) with ``partition_by: postcode_area`` (20 partitions, the largest with a quarter of the rows), so that both
workers have windows to solve, with one thread a window, and with the transaction's id published, which is what the
accounts go by. A cluster of its own for each run.

replay: all files are there; the job reads them as fast as it can. Each solver's run is one after the other: the
policy's own (``cohort: lasting``); ``l-greedy``, a start without search, which is what the rest of the pipeline costs;
``pass-through``, one class of everybody (``cohort: window``), whose boxes hold the whole domain and are dear to write;
where it is named, ``window``, the policy's own solver with ``cohort: window``. Ratios are of rows/s in one run of this
script. With ``--kills`` TaskManagers are killed (SIGKILL) and started again, evenly over the feed; with
``--savepoints`` the job is stopped with a savepoint and another one goes on from it (``--resume``), as evenly.

soak: a file each second, at an even pace of event time, so that a window closes every ``--window-seconds``.

rows/s: rows of the feed by wall clock, from the moment that the source's counter was last seen at 0 to the last file of
released or rejected rows; the start of cluster and job is not in it, the checkpoints that the releases wait for are.
That the feed has ended the job says some checkpoints later, as each boundary before a sink passes the end on with one.
Flink tells counters and watermarks up to two seconds late, by which all that is read from them may be wrong.
Latency: from the arrival of the row that closes a window to the moment its file got its name. A release waits for the
checkpoint that holds it, so about half a checkpoint interval is in the median. In a replay a row arrives when the
source hands it on, which reads ahead of the solving; so also shown is the time from the moment that the watermark was
seen past the window's end at the solving step. CPU: seconds of all threads, from /proc, sampled; so is memory (RSS,
shared pages included). Solve and publish: wall clock in the metrics of the windows, against the time of all slots.

Accounts are exact when each row of the feed is released or rejected once (by its id), no slot was used twice, and
releases and metrics pair up. ``verify`` is the audit behind ``kanonflow verify``.

Compilers: the cluster's Java processes compile once (deploy/flink/session.py), as clusters for jobs of minutes should;
with ``--jvm=-XX:TieredStopAtLevel=4`` they have Java's default.

Target: the own solver at least 60 % of the rows/s of pass-through.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.data_sets import DAY_MS
from benchmarks.main_job import BENCHMARK_SECRET
from benchmarks.result_files import Findings, add_result_arguments, environment, publish
from benchmarks.stream_feed import OWN, WINDOW, write_stream_feed, write_stream_policy
from benchmarks.stream_report import draw, report, timeline, write_timeline
from benchmarks.stream_run import (
    Feeder,
    Killer,
    Outcome,
    Saver,
    StreamFailedError,
    follow,
    outcome,
    stream_command,
)
from benchmarks.stream_watch import joined
from deploy.flink.job_server_jar import MissingToolError
from deploy.flink.session import SessionCluster
from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.commands.demo_feed import FeedShape
from kanonflow.schemas.policy_file import load_policy
from kanonflow.solvers.warm_up import warm_up
from kanonflow.transforms.secret.seeds import Secret, people_key

HOUR_MS = 3_600_000
WORKERS = 2
SLOTS = 2
"""Of each TaskManager, as the session cluster has them: partitions are never equal, and with one slot a worker that has
the smaller ones waits for the other."""
METHODS = (OWN, "l-greedy", "pass-through")
BY_CHOICE = (WINDOW,)
"""Run only when they are named."""


@dataclass(frozen=True)
class Setting:
    """How a run is made. every: seconds between two samples. patience: seconds until it has failed.

    seconds_per_file: None: all files are there when the job starts. jvm: further flags of the cluster's Java processes.
    """

    shape: FeedShape
    file_ms: int
    seconds_per_file: float | None
    kills: int
    savepoints: int
    checkpointing_ms: int
    every: float
    patience: float
    verify: bool
    jvm: tuple[str, ...] = ()


def run_stream(setting: Setting, method: str, folder: Path) -> tuple[Outcome, bool | None]:
    """One run on a cluster of its own; what came of it, and whether the audit passed (None: it was not asked).

    Raises StreamFailedError, MissingToolError, TimeoutError.
    """
    folder.mkdir()
    staged = setting.seconds_per_file is not None
    feed = write_stream_feed(setting.shape, folder / "feed", setting.file_ms)
    source = folder / "arriving" if staged else feed.folder
    source.mkdir(exist_ok=True)
    policy_file = write_stream_policy(method, folder / "policy.yaml")
    policy = load_policy(policy_file)
    feeder = Feeder(feed, source, setting.seconds_per_file) if setting.seconds_per_file is not None else None
    if feeder is None:
        (source / "_END").touch()
    with SessionCluster(folder / "cluster", task_managers=WORKERS, slots=SLOTS, jvm=setting.jvm) as cluster:
        killer = Killer(cluster, feed, setting.kills, WORKERS)
        saver = Saver(cluster, feed, setting.savepoints)
        watches = []
        ended = None
        while ended is None:
            with stream_command(
                cluster, folder, policy_file, source, feed.folder / feed.files[0].name,
                parallelism=WORKERS * SLOTS, checkpointing_ms=setting.checkpointing_ms, every=setting.every,
                resume=saver.resume(),
            ) as (process, watch):  # fmt: skip
                ended = follow(process, watch, folder, feeder, killer, saver, setting.patience)
            watches.append(watch)
    watch = joined(watches)
    found = outcome(
        method, feed, folder / "out", watch, feeder, killer, saver, ended, policy.out_of_orderness_ms
    )
    if not setting.verify:
        return found, None
    # With cohorts that last the audit also follows people: it needs the key of their digests.
    key = people_key(Secret(BENCHMARK_SECRET)) if policy.lasting else None
    judged = audit(policy_file, [str(source / "*.avro")], folder / "out", people_key=key)
    if not judged.passed:
        print(judged.render(), file=sys.stderr)
    return found, judged.passed


def measure(
    arguments: argparse.Namespace, setting: Setting, methods: Sequence[str], findings: Findings
) -> list[Outcome]:
    """All runs, into tables; the runs, for plots."""
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        findings.skipped.append(f"{arguments.action}: skipped, no {' and no '.join(missing)} on the path")
        return []
    warm_up()  # fills the cache that the workers load their kernels from
    found: list[tuple[Outcome, bool | None]] = []
    folder = tempfile.mkdtemp(dir=arguments.work)
    try:
        for method in methods:
            print(f"{arguments.action}: {setting.shape.rows:,} rows, solver {method}", file=sys.stderr)
            place = Path(folder) / method
            try:
                found.append(run_stream(setting, method, place))
            except (StreamFailedError, MissingToolError, TimeoutError) as failed:
                findings.skipped.append(f"{method}: FAILED, {failed}")
            if not arguments.keep:
                shutil.rmtree(place, ignore_errors=True)
    finally:
        if arguments.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    report(findings, found, WORKERS * SLOTS)
    return [run for run, _ in found]


def replay_setting(arguments: argparse.Namespace) -> Setting:
    """All files there, a file for some hours of event time."""
    return Setting(
        FeedShape(rows=arguments.rows, days=arguments.days, seed=arguments.seed),
        file_ms=arguments.file_hours * HOUR_MS,
        seconds_per_file=None,
        kills=arguments.kills,
        savepoints=arguments.savepoints,
        checkpointing_ms=arguments.checkpointing_ms,
        every=1.0,
        patience=arguments.patience,
        verify=arguments.verify,
        jvm=tuple(arguments.jvm),
    )


def soak_setting(arguments: argparse.Namespace) -> Setting:
    """A file a second; the pace of event time is a day (a window) in ``window_seconds``."""
    seconds = round(arguments.minutes * 60)
    days = max(1, round(seconds / arguments.window_seconds))
    return Setting(
        FeedShape(rows=arguments.rate * seconds, days=days, seed=arguments.seed),
        file_ms=DAY_MS // arguments.window_seconds,
        seconds_per_file=1.0,
        kills=arguments.kills,
        savepoints=arguments.savepoints,
        checkpointing_ms=arguments.checkpointing_ms,
        every=2.0,
        patience=seconds + arguments.patience,
        verify=arguments.verify,
        jvm=tuple(arguments.jvm),
    )


def parsed(argv: list[str] | None) -> argparse.Namespace:
    """The arguments; a replay when none is named."""
    parser = argparse.ArgumentParser(description="A stream on a Flink cluster: speed, latency, memory.")
    actions = parser.add_subparsers(dest="action")
    replay = actions.add_parser("replay", help="a feed as fast as it goes, with several solvers")
    replay.add_argument("--rows", type=int, default=1_000_000)
    replay.add_argument("--days", type=int, default=60, help="of event time, and so windows a partition")
    replay.add_argument("--file-hours", type=int, default=6, help="event time of a file")
    replay.add_argument(
        "--methods",
        nargs="+",
        choices=(*METHODS, *BY_CHOICE),
        help="default: those of the text; with kills: own",
    )
    soak = actions.add_parser("soak", help="a paced feed for some minutes")
    soak.add_argument("--minutes", type=float, default=15)
    soak.add_argument("--rate", type=int, default=2_000, help="rows a second")
    soak.add_argument("--window-seconds", type=int, default=20, help="until the next window closes")
    plots = actions.add_parser("plots", help="draw the plots of the last runs anew")
    for action, patience in ((replay, 3_600.0), (soak, 600.0)):
        action.add_argument("--kills", type=int, default=0, help="TaskManagers to kill in the middle")
        action.add_argument("--savepoints", type=int, default=0, help="stops with a savepoint in between")
        action.add_argument("--checkpointing-ms", type=int, default=10_000)
        action.add_argument("--seed", type=int, default=1)
        action.add_argument("--patience", type=float, default=patience, help="seconds until a run has failed")
        action.add_argument("--work", type=Path, help="folder for feed and output (default: temporary)")
        action.add_argument("--keep", action="store_true", help="keep feed, output and logs")
        action.add_argument("--name", help="of the results (default: by what is run)")
        action.add_argument("--jvm", action="append", default=[], help="one more flag of the Java processes")
        action.add_argument("--no-verify", dest="verify", action="store_false")
    for action in (replay, soak, plots):
        add_result_arguments(action)
    given = sys.argv[1:] if argv is None else argv
    return parser.parse_args(given if given and not given[0].startswith("--") else ["replay", *given])


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; returns the exit code."""
    arguments = parsed(argv)
    if arguments.action == "plots":
        for path in sorted(arguments.results.glob("stream_*_timeline.json")):
            draw(path)
        return 0
    begun = environment()
    name = f"stream_{arguments.action}" + ("_kills" if arguments.kills else "")
    name = arguments.name or name
    findings = Findings(name, __doc__ or "", module="stream")
    if arguments.action == "soak":
        runs = measure(arguments, soak_setting(arguments), [OWN], findings)
    else:
        methods = arguments.methods or (METHODS if not arguments.kills else [OWN])
        runs = measure(arguments, replay_setting(arguments), methods, findings)
    publish(findings, arguments, begun)
    if runs:
        path = write_timeline([timeline(run) for run in runs], arguments.results, name)
        draw(path)
    return 1 if any("FAILED" in line for line in findings.skipped) else 0


if __name__ == "__main__":
    raise SystemExit(main())
