"""Chaos: two streams on a real cluster with a real broker, what can die there dies, and the accounts are done.

    python -m tests.flink.chaos --seed 1 --times 10            ten strikes of each kind
    python -m tests.flink.chaos --seed 2 --minutes 60          for an hour
    python -m tests.flink.chaos --kinds worker,broker --times 3

A directory is released into files and a topic into a topic (``chaos_streams``), hour after hour of their feeds. Each
strike comes at a moment that the seed chooses while rows are on their way; more rows arrive before it is mended. It is
over when the hours that were fed since are visible outside. At the end every row must be released or rejected, once;
each release must have the rows that a batch run of the same rows makes; and the audits must pass.

SIGTERM ends the strikes, as ``--minutes`` does: the accounts are made all the same.

Exit code 0: all of that held. 1: something did not, and the report says what. 2: it could not run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from deploy.flink.session import SessionCluster
from deploy.kafka.broker import Broker, missing_programs
from tests.flink.chaos_report import Report, Strike
from tests.flink.chaos_streams import DirectoryStream, Ledger, Stream, TopicStream
from tests.flink.chaos_volume import Volume, can_mount
from tests.flink.stream_runs import wait_for
from tests.kafka.topics import Topics
from tests.listening import listeners, talks_to

T = TypeVar("T")
TASK_MANAGERS = 2
SLOTS = 3
"""Of each TaskManager: enough for both jobs (parallelism 2 and 1) while the other one is away."""
OUTPUT_MB, CHECKPOINTS_MB = 48, 128
HOLD_SECONDS = 4.0
"""How long a machine is away, a disk full, a folder read-only."""


CATCH_UP_SECONDS = 900.0
"""Given up after so long. On an idle machine it takes seconds; two cores that others use as well need minutes."""


@dataclass
class Stage:
    """What strikes fall upon. rng: the only source of chance. freeze_seconds: how long a frozen process stands still.

    volumes: disks of the outputs, and of the checkpoints; empty where none can be mounted.
    """

    cluster: SessionCluster
    broker: Broker
    streams: tuple[Stream, ...]
    outputs: tuple[Volume, ...]
    checkpoints: tuple[Volume, ...]
    rng: random.Random
    freeze_seconds: float
    hold_seconds: float = HOLD_SECONDS

    def feed(self) -> None:
        """An hour arrives in every stream."""
        for stream in self.streams:
            stream.feed()

    def each(self, act: Callable[[Stream], T]) -> list[T]:
        """Do it for every stream at the same time, and wait for all."""
        with ThreadPoolExecutor(len(self.streams)) as pool:
            return list(pool.map(act, self.streams))

    def catch_up(self) -> None:
        """Wait until every whole hour that was fed is visible outside."""

        def caught_up() -> bool:
            with contextlib.suppress(OSError):  # a JobManager or a disk on its way
                return all(stream.reached() >= stream.hours - 1 for stream in self.streams)
            return False

        wait_for(caught_up, "the streams to catch up", CATCH_UP_SECONDS)

    def restarts(self) -> dict[str, int]:
        """How often each job that runs now began with a checkpoint, by its id."""
        return {stream.run.job_id(): stream.run.restarts() for stream in self.streams}


@contextlib.contextmanager
def _worker(stage: Stage) -> Iterator[float]:
    """One Python worker dies."""
    os.kill(stage.rng.choice(_workers(stage)), signal.SIGKILL)
    yield 0.0


@contextlib.contextmanager
def _worker_pool(stage: Stage) -> Iterator[float]:
    """The pool dies with all of its workers, and comes back later."""
    stage.cluster.kill_worker_pool()
    time.sleep(stage.hold_seconds)
    yield 0.0
    stage.cluster.start_workers()


@contextlib.contextmanager
def _task_manager(stage: Stage) -> Iterator[float]:
    """A machine dies; another one comes later."""
    number = stage.rng.choice(_busy_task_managers(stage))
    stage.cluster.kill_task_manager(number)
    yield 0.0
    stage.cluster.start_task_manager(number)


@contextlib.contextmanager
def _frozen_worker(stage: Stage) -> Iterator[float]:
    """One Python worker stands still, and then goes on as if nothing had been."""
    with _frozen(stage.rng.choice(_workers(stage)), stage.freeze_seconds) as hold:
        yield hold


@contextlib.contextmanager
def _frozen_task_manager(stage: Stage) -> Iterator[float]:
    """A TaskManager stands still until it is given up, and wakes beside those that took its work over."""
    pid = stage.cluster.task_manager_pid(stage.rng.choice(_busy_task_managers(stage)))
    with _frozen(pid, stage.freeze_seconds) as hold:
        yield hold


@contextlib.contextmanager
def _job_manager(stage: Stage) -> Iterator[float]:
    """The JobManager dies, every job with it, and the commands too: new jobs go on from the retained checkpoints."""
    names = [stream.run.job_id() for stream in stage.streams]
    assert all(names)
    stage.cluster.kill_job_manager()
    for stream in stage.streams:
        stream.run.kill()
    yield 0.0
    stage.cluster.start_job_manager()
    stage.cluster.wait_for_slots(TASK_MANAGERS * SLOTS)
    stage.each(lambda stream: stream.resume())


@contextlib.contextmanager
def _broker(stage: Stage) -> Iterator[float]:
    """The broker dies as in a power cut."""
    stage.broker.kill()
    time.sleep(stage.hold_seconds)
    yield 0.0
    stage.broker.start()


@contextlib.contextmanager
def _read_only(stage: Stage) -> Iterator[float]:
    """Nobody can write into the outputs."""
    with ExitStack() as stack:
        for volume in stage.outputs:
            volume.protect()
            stack.callback(volume.unprotect)
        time.sleep(stage.hold_seconds)
        yield stage.hold_seconds


@contextlib.contextmanager
def _disk_full(stage: Stage) -> Iterator[float]:
    """The outputs have no byte left, and neither have the checkpoints."""
    with ExitStack() as stack:
        for volume in (*stage.outputs, *stage.checkpoints):
            volume.fill()
            stack.callback(volume.free)
        time.sleep(stage.hold_seconds)
        yield stage.hold_seconds


@contextlib.contextmanager
def _poison(stage: Stage) -> Iterator[float]:
    """Rows that are wrong, and messages that are no rows."""
    for stream in stage.streams:
        stream.spoil()
    yield 0.0


KINDS: dict[str, Callable[[Stage], AbstractContextManager[float]]] = {
    "worker": _worker,
    "worker-pool": _worker_pool,
    "task-manager": _task_manager,
    "frozen-worker": _frozen_worker,
    "frozen-task-manager": _frozen_task_manager,
    "job-manager": _job_manager,
    "broker": _broker,
    "read-only": _read_only,
    "disk-full": _disk_full,
    "poison": _poison,
}
"""Each strikes, gives how many seconds it is to last once more rows have arrived, and mends."""
NEED_MOUNTS = ("read-only", "disk-full")


def _workers(stage: Stage) -> list[int]:
    """The Python workers that rows go through.

    Nobody would miss one that was left and is about to end, nor that of a task to which no partition belongs: Beam sees
    that it is gone when there is a bundle for it. Who works is seen by the processor time that it takes.
    """

    def working() -> list[int]:
        managers = [stage.cluster.task_manager_pid(number) for number in range(TASK_MANAGERS)]
        ports = {each.port for each in listeners(managers)}
        there = [pid for pid in stage.cluster.worker_pids() if talks_to(pid, ports)]
        before = {pid: _ticks(pid) for pid in there}
        time.sleep(1.0)
        used = {pid: _ticks(pid) - before[pid] for pid in there}
        most = max(used.values(), default=0)
        return [pid for pid in there if 0 < most <= 2 * used[pid]]

    return list(wait_for(working, "a Python worker that works"))


def _ticks(pid: int) -> int:
    """The processor time of a process, in the kernel's units; 0 when it is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def _busy_task_managers(stage: Stage) -> list[int]:
    """The numbers of those that work: after a loss all may be on one machine, and nobody would miss another."""

    def busy() -> list[int]:
        told = stage.cluster.get("/taskmanagers")["taskmanagers"]
        ids = [each["id"] for each in told if each["freeSlots"] < each["slotsNumber"]]
        ports = {int(each.partition("-")[0].rpartition(":")[2]) for each in ids}
        return [
            number
            for number in range(TASK_MANAGERS)
            if ports & {each.port for each in listeners([stage.cluster.task_manager_pid(number)])}
        ]

    return list(wait_for(busy, "a TaskManager that works"))


@contextlib.contextmanager
def _frozen(pid: int, seconds: float) -> Iterator[float]:
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds / 2)
        yield seconds / 2
    finally:
        with contextlib.suppress(ProcessLookupError):  # Flink may have ended it
            os.kill(pid, signal.SIGCONT)


def strike(stage: Stage, kind: str) -> Strike:
    """One strike, while rows are on their way before, during and after it; return when all of them are visible."""
    before = stage.restarts()
    stage.feed()
    time.sleep(stage.rng.uniform(0.0, 2.5))
    with KINDS[kind](stage) as hold:
        stage.feed()
        time.sleep(stage.rng.uniform(0.0, 1.0) + hold)
        mended = time.monotonic()
    stage.feed()
    stage.catch_up()
    seconds = time.monotonic() - mended
    restarts = sum(count - before.get(job, 0) for job, count in stage.restarts().items())
    return Strike(kind, seconds, restarts)


def schedule(rng: random.Random, kinds: Sequence[str], times: int | None) -> Iterator[str]:
    """Every kind once in each round, in an order that chance gives."""
    rounds = 0
    while times is None or rounds < times:
        yield from rng.sample(list(kinds), len(kinds))
        rounds += 1


def run(
    folder: Path,
    *,
    seed: int,
    kinds: Sequence[str] = tuple(KINDS),
    times: int | None = 1,
    minutes: float | None = None,
    freeze_seconds: float = 60.0,
    cohort: str = "lasting",
    say: Callable[[str], None] = print,
) -> Report:
    """Bring chaos upon two streams, ``times`` strikes of each kind or until ``minutes`` are over; the report.

    cohort: of their policies; ``window`` has no roster that a strike could tear.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mounts = can_mount(folder)
    left_out = tuple(kind for kind in kinds if kind in NEED_MOUNTS and not mounts)
    kinds = [kind for kind in kinds if kind not in left_out]
    report = Report(seed, freeze_seconds, left_out)
    rng = random.Random(seed)
    with ExitStack() as stack:
        asked_to_end = stack.enter_context(_ended_by_sigterm())
        stage = _set_up(stack, folder, rng, seed, freeze_seconds, cohort, mounts=mounts)
        began = time.monotonic()
        for kind in schedule(rng, kinds, times):
            over = minutes is not None and time.monotonic() - began > minutes * 60
            if over or asked_to_end():
                break
            try:
                report.strikes.append(strike(stage, kind))
            except Exception as error:  # the report of what came before must not be lost
                report.failure = f"{kind}: {type(error).__name__}: {error}"
                break
            told = report.strikes[-1]
            say(
                f"{time.monotonic() - began:6.0f} s  {kind:<20} {told.recovery_seconds:5.1f} s {told.restarts}"
            )
        report.minutes = (time.monotonic() - began) / 60
        if not report.failure:
            try:
                report.ledgers += _accounts(stage, folder)
            except Exception as error:  # nor that of the strikes
                report.failure = f"accounts: {type(error).__name__}: {error}"
    return report


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[Callable[[], bool]]:
    """Whether somebody asked for an end, which SIGTERM does meanwhile instead of ending this process."""
    asked: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGTERM, before)


def _set_up(
    stack: ExitStack,
    folder: Path,
    rng: random.Random,
    seed: int,
    freeze_seconds: float,
    cohort: str,
    *,
    mounts: bool,
) -> Stage:
    """Disks, broker, cluster, and two jobs that have released something."""
    places = [folder / name / "out" for name in ("directory", "topic")] if mounts else []
    state = [folder / "flink" / "checkpoints"] if mounts else []
    outputs = tuple(stack.enter_context(Volume(place, OUTPUT_MB)) for place in places)
    checkpoints = tuple(stack.enter_context(Volume(place, CHECKPOINTS_MB)) for place in state)
    broker = stack.enter_context(Broker(folder / "broker"))
    topics = stack.enter_context(Topics(broker.bootstrap))
    cluster = SessionCluster(folder / "flink", task_managers=TASK_MANAGERS, slots=SLOTS)
    stack.enter_context(cluster)
    streams: tuple[Stream, ...] = (
        DirectoryStream(cluster, folder / "directory", seed, cohort),
        TopicStream(cluster, folder / "topic", seed, cohort, broker, topics),
    )
    stage = Stage(cluster, broker, streams, outputs, checkpoints, rng, freeze_seconds)
    stage.feed()
    for stream in streams:
        stack.callback(stream.run.kill)
    stage.each(lambda stream: stream.begin())
    stage.feed()
    stage.catch_up()
    return stage


def _accounts(stage: Stage, folder: Path) -> list[Ledger]:
    """End both streams, and set what came out against what went in."""
    stage.each(lambda stream: stream.finish())
    return stage.each(lambda stream: stream.account(folder / f"batch-{stream.name}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.flink.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True, help="of the feeds, the order and the moments")
    parser.add_argument("--times", type=int, help="strikes of each kind (default: 1, or as --minutes allows)")
    parser.add_argument("--minutes", type=float, help="begin no further strike after so long")
    parser.add_argument("--kinds", default=",".join(KINDS), help="default: %(default)s")
    parser.add_argument("--freeze", type=float, default=60.0, help="seconds (default: %(default)s)")
    parser.add_argument("--cohort", choices=("lasting", "window"), default="lasting", help="of the policies")
    parser.add_argument("--folder", type=Path, help="to work in, and to be kept; default: a temporary one")
    parser.add_argument("--report", type=Path, help="write the report there as JSON")
    options = parser.parse_args(arguments)
    kinds = options.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"--kinds: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    if missing := missing_programs():
        print(f"chaos: {' and '.join(missing)} not on the path", file=sys.stderr)
        return 2
    times = options.times or (None if options.minutes else 1)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="kanonflow-chaos-"))
    report = run(
        folder,
        seed=options.seed,
        kinds=kinds,
        times=times,
        minutes=options.minutes,
        freeze_seconds=options.freeze,
        cohort=options.cohort,
        say=lambda line: print(line, flush=True),
    )
    print(report.render(), flush=True)
    if options.report:
        options.report.write_text(json.dumps(report.record(), indent=1) + "\n")
    if options.folder is None and not report.problems():
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if report.problems() else 0


if __name__ == "__main__":
    sys.exit(main())
