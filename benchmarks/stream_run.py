"""One run of ``kanonflow stream`` on a cluster: fed, disturbed, watched, and what came of it when."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.main_job import BENCHMARK_SECRET
from benchmarks.stream_feed import BEGIN_MS, Accounts, FeedFile, StreamFeed, accounts, records
from benchmarks.stream_watch import Checkpoint, Sample, Watch
from deploy.flink.session import SessionCluster

TICK_SECONDS = 0.05


class StreamFailedError(Exception):
    """The command ended badly or not at all."""


class Visible(NamedTuple):
    """A release. at: seconds since 1970 when its file got its name. window_end: ms."""

    at: float
    rows: int
    window_end: int


@dataclass(frozen=True)
class Outcome:
    """What one run came to. Times are seconds since 1970.

    name: of the run. begun: the first row was read, or arrived. done: the last row was released or rejected.
    ended: the job had said so.
    arrived: when each file arrived, None when all were there. kills: when a TaskManager was killed.
    waiting: rows that wait, over time.
    """

    name: str
    begun: float
    done: float
    ended: float
    feed: StreamFeed
    out_of_orderness_ms: int
    arrived: Mapping[str, float] | None
    fed_at: float
    kills: Sequence[float]
    savepoints: int
    samples: Sequence[Sample]
    checkpoints: Sequence[Checkpoint]
    restored: int
    releases: Sequence[Visible]
    waiting: Sequence[tuple[float, int]]
    metrics: Sequence[Mapping[str, Any]]
    accounts: Accounts

    @property
    def seconds(self) -> float:
        """From the first row in to the last row out."""
        return self.done - self.begun

    @property
    def steady_rows_per_second(self) -> float | None:
        """Between the moments when a tenth and nine tenths of the released rows were visible; None: at once."""
        total = sum(release.rows for release in self.releases)
        count, marks = 0, []
        for release in self.releases:
            before, count = count, count + release.rows
            marks += [release.at for share in (0.1, 0.9) if before < share * total <= count]
        return 0.8 * total / (marks[1] - marks[0]) if len(marks) == 2 and marks[1] > marks[0] else None

    @property
    def failed_checkpoints(self) -> int:
        """Of those between the first row and the end."""
        failed = [each.failed_checkpoints for each in self.samples if self.begun <= each.at <= self.ended]
        # A job that goes on from a savepoint counts from 0.
        return sum(max(0, after - before) for before, after in pairwise(failed))

    def latencies(self) -> list[float]:
        """Seconds from the arrival of the row that closes a window to each of its releases.

        Arrival: the file came; where all files were there, the source handed its last row on, as far as the samples
        tell (at most one of them too early). After a kill the source counts from 0 again: then none.
        """
        if self.arrived is None and self.kills:
            return []
        found = []
        for release in self.releases:
            file = self.feed.closing(release.window_end, self.out_of_orderness_ms)
            arrival = self.fed_at if file is None else self._arrival(file)
            if arrival is not None:
                found.append(release.at - arrival)
        return found

    def latencies_of_step(self) -> list[float]:
        """Seconds from when the watermark at the solving step was first seen past a window's end to each release.

        Flink says so up to two seconds late.
        """
        reached = [(each.watermark, each.at) for each in self.samples if each.watermark is not None]
        found = []
        for release in self.releases:
            at = next((at for watermark, at in reached if watermark >= release.window_end), None)
            if at is not None:
                found.append(release.at - at)
        return found

    def _arrival(self, file: FeedFile) -> float | None:
        if self.arrived is not None:
            return self.arrived[file.name]
        before = [
            each.at for each in self.samples if each.rows_read is not None and each.rows_read < file.rows
        ]
        return max(self.begun, before[-1]) if before else self.begun

    def cpu_seconds(self) -> dict[str, float]:
        """CPU seconds by kind of process, from the first row on."""
        spent: dict[str, float] = {}
        for name, cpu in self.cpu_by_process().items():
            spent[kind_of(name)] = spent.get(kind_of(name), 0.0) + cpu
        return spent

    def cpu_by_process(self) -> dict[str, float]:
        """CPU seconds by process, from the first row on."""
        last: dict[str, float] = {}
        first: dict[str, float] = {}
        for sample in self.samples:
            for name, process in sample.processes.items():
                # A process that was started anew under its name counts from 0.
                if name in last and process.cpu < last[name]:
                    first[name] = first.get(name, 0.0) - last[name]
                if sample.at <= self.begun:
                    first[name] = process.cpu
                last[name] = process.cpu
        return {name: cpu - first.get(name, 0.0) for name, cpu in last.items()}


def kind_of(process: str) -> str:
    """A process's name without its number."""
    head, _, tail = process.rpartition("-")
    return head if tail.isdigit() else process


class Feeder:
    """Lets files arrive one after the other. seconds: between two stretches of event time."""

    def __init__(self, feed: StreamFeed, target: Path, seconds: float) -> None:
        self.arrived: dict[str, float] = {}
        self.ended_at: float | None = None
        self._feed, self._target, self._seconds = feed, target, seconds
        self._begun: float | None = None

    def tick(self, now: float) -> None:
        """Whatever is due arrives; in the end the marker of the end."""
        if self._begun is None:
            self._begun = now
        for file in self._feed.files[len(self.arrived) :]:
            if now < self._begun + file.number * self._seconds:
                return
            # Whole at once, as with a rename.
            os.link(self._feed.folder / file.name, self._target / file.name)
            self.arrived[file.name] = time.time()
        if self.ended_at is None:
            (self._target / "_END").touch()
            self.ended_at = time.time()


class Killer:
    """Kills a TaskManager when so much of the feed is solved, and starts it again. kills: how many, evenly."""

    def __init__(self, cluster: SessionCluster, feed: StreamFeed, kills: int, task_managers: int) -> None:
        self.at: list[float] = []
        self._cluster, self._count = cluster, task_managers
        self._due = _evenly(feed, kills)

    def tick(self, watch: Watch) -> None:
        """Kill if it is time."""
        number = len(self.at)
        if number < len(self._due) and watch.watermark >= self._due[number] and watch.running():
            self._cluster.kill_task_manager(number % self._count)
            self.at.append(time.time())
            self._cluster.start_task_manager(number % self._count)


class Saver:
    """Stops a job with a savepoint when so much of the feed is solved. savepoints: how many, evenly.

    places: of those that are complete. A job that is declined one, as right after a restart, is asked again.
    """

    def __init__(self, cluster: SessionCluster, feed: StreamFeed, savepoints: int) -> None:
        self.places: list[str] = []
        self._cluster = cluster
        self._due = _evenly(feed, savepoints)
        self._asked: str | None = None

    @property
    def asked(self) -> bool:
        """Whether a savepoint was asked for and nothing is known of it."""
        return self._asked is not None

    def tick(self, watch: Watch) -> None:
        """Ask for a savepoint if it is time, or for what has come of it."""
        number, job = len(self.places), watch.job_id()
        if job is None or number == len(self._due):
            return
        if self._asked is None:
            if watch.watermark >= self._due[number] and watch.running():
                target = (self._cluster.state / "savepoints").as_uri()
                wanted = {"drain": False, "targetDirectory": target}
                # Where it is declined at once, the next tick asks again.
                with contextlib.suppress(OSError):
                    self._asked = self._cluster.post(f"/jobs/{job}/stop", wanted)["request-id"]
            return
        with contextlib.suppress(OSError):
            told = self._cluster.get(f"/jobs/{job}/savepoints/{self._asked}")
            if told["status"]["id"] == "COMPLETED":
                self._asked = None
                if "location" in told["operation"]:
                    self.places.append(told["operation"]["location"])

    def resume(self) -> list[str]:
        """What lets a command go on from the last savepoint."""
        return ["--resume", f"--savepoint_path={self.places[-1]}"] if self.places else []


def _evenly(feed: StreamFeed, count: int) -> list[int]:
    """``count`` moments of event time that cut the feed into equal stretches."""
    span = feed.files[-1].newest_ms - BEGIN_MS
    return [BEGIN_MS + span * (number + 1) // (count + 1) for number in range(count)]


@contextlib.contextmanager
def stream_command(
    cluster: SessionCluster,
    folder: Path,
    policy: Path,
    source: Path | str,
    example: Path | None,
    *,
    parallelism: int,
    checkpointing_ms: int,
    every: float,
    resume: Sequence[str] = (),
) -> Iterator[tuple[subprocess.Popen[bytes], Watch]]:
    """Start the command over ``source`` into ``folder/out`` and watch it; end it when the block is left.

    example: a file of the feed; None: it is a topic. every: seconds between two samples. resume: flags of a command
    that goes on.
    """
    secret = folder / "secret"
    secret.write_bytes(BENCHMARK_SECRET)
    secret.chmod(0o600)
    secret.chmod(0o600)
    name = f"benchmark-{uuid.uuid4().hex[:8]}"
    runner, *flags = cluster.flags(checkpointing_ms)
    command = [
        *(sys.executable, "-m", "kanonflow.pipelines.cli", "stream", "--quiet", "--unmeasured"),
        *("--policy", str(policy), "--source", str(source), "--output", str(folder / "out")),
        *(() if example is None else ("--schema", str(example))),
        *("--secret-file", str(secret), "--runner", runner.partition("=")[2]),
        *(f"--job_name={name}", f"--parallelism={parallelism}", *flags, *resume),
    ]
    with (folder / "stream.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        with Watch(cluster.get, cluster.state, name, process.pid, every) as watch:
            yield process, watch
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def follow(
    process: subprocess.Popen[bytes],
    watch: Watch,
    folder: Path,
    feeder: Feeder | None,
    killer: Killer,
    saver: Saver,
    patience: float,
) -> float | None:
    """Feed and kill until the command ends; when all was written, None: it stopped with a savepoint.

    Raises StreamFailedError.
    """
    saved = len(saver.places)
    deadline = time.monotonic() + patience
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise StreamFailedError(f"not at its end after {patience:.0f} s")
        # The first file arrives when the job waits for it: what starting takes is not latency.
        if feeder is not None and (feeder.arrived or watch.running()):
            feeder.tick(time.monotonic())
        killer.tick(watch)
        saver.tick(watch)
        time.sleep(TICK_SECONDS)
    # The job ends before anybody was told of its savepoint.
    if saver.asked:
        saver.tick(watch)
    if process.returncode == 0 and len(saver.places) > saved:
        return None
    ended = folder / "out/restricted/ended"
    if process.returncode != 0 or not ended.exists():
        log = (folder / "stream.log").read_text(errors="replace")
        raise StreamFailedError(f"stream ended with {process.returncode}: {log.strip()[-800:]}")
    return ended.stat().st_mtime


def outcome(
    name: str,
    feed: StreamFeed,
    output: Path,
    watch: Watch,
    feeder: Feeder | None,
    killer: Killer,
    saver: Saver,
    ended: float,
    out_of_orderness_ms: int,
) -> Outcome:
    """Put together what was watched and what stands in the output."""
    releases, waiting = [], []
    held: dict[str, int] = {}
    # A window without a release has a file of a name of its own.
    told = [
        (path.stat().st_ctime, path.stem.removeprefix("unreleased-"))
        for path in (output / "restricted/metrics").glob("*.avro")
    ]
    metrics = {record["release_id"]: record for record in records(output / "restricted/metrics")}
    for at, release in sorted(told):
        record = metrics[release]
        if record["released"]:
            # A file gets its name by a link, which is its last change.
            visible = (output / "release" / f"{release}.avro").stat().st_ctime
            end = int(record["window_end"].timestamp() * 1000)
            releases.append(Visible(visible, record["rows_released"], end))
        held[record["partition"]] = record["rows_waiting"]
        waiting.append((at, sum(held.values())))
    left = [path.stat().st_ctime for path in (output / "restricted/rejected").glob("*.avro")]
    done = max([*left, *(release.at for release in releases)], default=ended)
    begun = _begin(watch.samples) if feeder is None else min(feeder.arrived.values())
    fed_at = begun if feeder is None or feeder.ended_at is None else feeder.ended_at
    if feeder is None:
        # The source is through when it has read the last row.
        unread = [
            each.at for each in watch.samples if each.rows_read is not None and each.rows_read < feed.rows
        ]
        fed_at = max(begun, unread[-1]) if unread else begun
    return Outcome(
        name, begun, done, ended, feed, out_of_orderness_ms, None if feeder is None else feeder.arrived, fed_at,
        killer.at, len(saver.places), watch.samples, [watch.checkpoints[key] for key in sorted(watch.checkpoints)],
        watch.restored, sorted(releases), waiting, list(metrics.values()),
        accounts(feed.rows, output),
    )  # fmt: skip


def _begin(samples: Sequence[Sample]) -> float:
    """The last moment at which no row had been read yet, as far as the samples tell."""
    for before, sample in pairwise(samples):
        if sample.rows_read:
            return before.at
    raise StreamFailedError("no row was seen being read: the feed is too short to be measured")
