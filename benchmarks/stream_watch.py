"""Watching a stream on a cluster while it runs: what its processes take, and what Flink says about the job."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import urllib.error
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """rss: bytes, shared pages included. cpu: seconds of all threads since it began."""

    rss: int
    cpu: float


class Checkpoint(NamedTuple):
    """at: seconds since 1970 when it was complete. size: bytes of state. seconds: from trigger to completion."""

    at: float
    size: int
    seconds: float


@dataclass(frozen=True)
class Sample:
    """at: seconds since 1970. rows_read: by the source since it last began. watermark: ms, of the solving step.

    None: Flink did not say. failed_checkpoints: so far; those count that come before all tasks run.
    """

    at: float
    rows_read: int | None
    watermark: int | None
    failed_checkpoints: int
    processes: Mapping[str, Process]


@dataclass
class Watch:
    """Samples a job every so many seconds, in a thread of its own, from ``with`` to its end.

    get: a document of Flink's REST interface. state: the cluster's folder. job: its name. command: process id of
    ``kanonflow stream``.
    """

    get: Callable[[str], Any]
    state: Path
    job: str
    command: int
    every: float
    samples: list[Sample] = field(default_factory=list)
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    restored: int = 0
    _failed: int = 0
    _names: dict[int, str] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _job: str | None = None
    _vertices: tuple[str, str, str] | None = None

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def watermark(self) -> int:
        """The last one that is known; -2^63 before anything."""
        known = [sample.watermark for sample in self.samples[-20:] if sample.watermark is not None]
        return known[-1] if known else -(1 << 63)

    def job_id(self) -> str | None:
        """Of the job, as far as Flink has told."""
        return self._job

    def running(self) -> bool:
        """Whether every task of the job runs."""
        with contextlib.suppress(OSError):
            job = self._overview()
            return job is not None and 0 < job["tasks"]["total"] == job["tasks"]["running"]
        return False

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            self.samples.append(self._sample())
            if self._stop.wait(max(0.0, began + self.every - time.monotonic())):
                return

    def _sample(self) -> Sample:
        rows, watermark = None, None
        # A cluster that has just lost a machine may not answer.
        with contextlib.suppress(OSError, LookupError, ValueError):
            rows, watermark = self._ask()
        return Sample(time.time(), rows, watermark, self._failed, self._processes())

    def _overview(self) -> dict[str, Any] | None:
        found = [job for job in self.get("/jobs/overview")["jobs"] if job["name"] == self.job]
        return found[0] if found else None

    def _ask(self) -> tuple[int | None, int | None]:
        if self._job is None:
            overview = self._overview()
            if overview is None:
                return None, None
            self._job = overview["jid"]
        job = f"/jobs/{self._job}"
        self._ask_checkpoints(job)
        if self._vertices is None:
            self._vertices = self._find(job)
        reading, metric, solving = self._vertices
        values = self.get(f"{job}/vertices/{solving}/watermarks")
        watermark = min((int(value["value"]) for value in values), default=None)
        query = urllib.parse.urlencode({"get": metric})
        told = self.get(f"{job}/vertices/{reading}/subtasks/metrics?{query}")
        return (int(told[0]["sum"]) if told else None), watermark

    def _find(self, job: str) -> tuple[str, str, str]:
        """Ids of the reading vertex, of the metric of rows read there, of the solving vertex. Raises LookupError."""
        vertices = self.get(job)["vertices"]
        solving = next((vertex["id"] for vertex in vertices if "Solve" in vertex["name"]), None)
        for vertex in vertices:
            for metric in self.get(f"{job}/vertices/{vertex['id']}/subtasks/metrics"):
                if metric["id"].endswith("kanonflow_rows_read") and solving is not None:
                    return vertex["id"], metric["id"], solving
        raise LookupError("no row was read yet")

    def _ask_checkpoints(self, job: str) -> None:
        told = self.get(f"{job}/checkpoints")
        self._failed, self.restored = told["counts"]["failed"], told["counts"]["restored"]
        for each in told["history"]:
            if each["status"] == "COMPLETED":
                end = each["latest_ack_timestamp"] / 1e3
                seconds = each["end_to_end_duration"] / 1e3
                self.checkpoints[each["id"]] = Checkpoint(end, each["state_size"], seconds)

    def _processes(self) -> dict[str, Process]:
        """The cluster's processes, its Python workers, the command and the job server below it, by name."""
        try:
            pids: dict[str, int] = json.loads((self.state / "cluster.json").read_text())["pids"]
        except (OSError, ValueError):  # written at this moment, or gone
            return {}
        named = {pid: name for name, pid in pids.items() if name != "workers"}
        named[self.command] = "command"
        parents = _parents()
        pool = pids.get("workers", -1)
        for pid, parent in sorted(parents.items()):
            if pool in (parent, parents.get(parent, -1)):
                named[pid] = self._numbered("python-worker", pid)
            elif parent == self.command:
                named[pid] = self._numbered("job-server", pid)
        found = {name: look_at_process(pid) for pid, name in named.items()}
        return {name: process for name, process in found.items() if process is not None}

    def _numbered(self, kind: str, pid: int) -> str:
        if pid not in self._names:
            others = sum(name.startswith(kind) for name in self._names.values())
            self._names[pid] = f"{kind}-{others}"
        return self._names[pid]


def joined(watches: Sequence[Watch]) -> Watch:
    """What was seen of jobs that went on from each other's savepoints, as if of one."""
    first, *others = watches
    for each in others:
        first.samples.extend(each.samples)
        first.checkpoints.update(each.checkpoints)
        first.restored += each.restored
    return first


def look_at_process(pid: int) -> Process | None:
    """What a process takes; None: it is gone, or about to."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] == "Z":
        return None
    # Counted from the third field, the state: utime is the 14th, stime the 15th, rss the 24th.
    return Process(int(fields[21]) * _PAGE, (int(fields[11]) + int(fields[12])) / _TICKS)


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return found
