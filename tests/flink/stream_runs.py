"""Running ``kanonflow stream`` on a cluster as a user does, feeding it, disturbing it, and doing its accounts."""

from __future__ import annotations

import collections
import contextlib
import csv
import os
import signal
import time
import urllib.error
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import fastavro
import yaml

from deploy.flink.session import SessionCluster
from tests.flink.forked_commands import ForkedCommand
from tests.small_feeds import Row

PATIENCE_SECONDS = 600.0
ALIVE = (
    "CREATED",
    "INITIALIZING",
    "RUNNING",
    "RESTARTING",
    "FAILING",
    "RECONCILING",
    "SUSPENDED",
    "CANCELLING",
)
SELDOM_MS = 15_000
"""Checkpoints mostly when a test asks for one. Without any, a slow machine was seen to keep a bundle open for ever."""


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Poll until the condition gives something true, and return that. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.3)
    raise TimeoutError(f"{what}: not within {seconds:.0f} s")


def free_cluster(cluster: SessionCluster) -> None:
    """Cancel every job, and wait until all slots are free."""
    for job in cluster.get("/jobs/overview")["jobs"]:
        if job["state"] in ALIVE:
            with contextlib.suppress(urllib.error.HTTPError):
                cluster.patch(f"/jobs/{job['jid']}?mode=cancel")

    def free() -> bool:
        told = cluster.get("/overview")
        return told["slots-total"] >= 2 and told["slots-available"] == told["slots-total"]

    wait_for(free, "free slots")


class StreamRun:
    """One output directory, and the jobs that write to it one after the other.

    policy_text: the policy file. source: what ``--source`` names.
    """

    def __init__(
        self, cluster: SessionCluster, folder: Path, *, policy_text: str, source: str | None = None
    ) -> None:
        self.cluster = cluster
        self.folder = folder
        self.output = folder / "out"
        self.feed = folder / "feed"
        self.feed.mkdir(parents=True, exist_ok=True)
        self.source = source or str(self.feed)
        self.policy = folder / "policy.yaml"
        self.policy.write_text(policy_text)
        self.secret = folder / "secret"
        self.secret.write_bytes(bytes(range(7, 39)))
        self.secret.chmod(0o600)
        self._process: ForkedCommand | None = None
        self.name = ""
        self._job_id: str | None = None
        self._vertex: str | None = None
        self._files = 0

    def start(
        self,
        *extra: str,
        checkpointing_ms: int = 2_000,
        parallelism: int = 1,
        awaited: bool = True,
        quiet: bool = True,
    ) -> None:
        """Submit a job, and wait until all of its steps run (unless it is not to be ``awaited``)."""
        self.name = f"test-{uuid.uuid4().hex[:10]}"
        self._job_id = self._vertex = None
        output = ["--output", str(self.output)] if "--output" not in extra else []
        command = [
            *("stream", "--policy", str(self.policy), "--source", self.source, *output),
            *("--secret-file", str(self.secret), f"--job_name={self.name}", "--unmeasured"),
            *(["--quiet"] if quiet else []),
            *self.cluster.flags(checkpointing_ms),
            *(f"--parallelism={parallelism}", *extra),
        ]
        command[command.index("--runner=FlinkRunner")] = "--runner"
        command.insert(command.index("--runner") + 1, "FlinkRunner")
        self._process = ForkedCommand(command, self.folder / "stream.log")
        if awaited:
            wait_for(self.running, f"{self.name} running; see {self.folder}/stream.log")

    def rotate(self) -> str:
        """A new secret from the next job on; the flag that names the one it replaces."""
        old = self.secret.rename(self.folder / "secret.old")
        self.secret.write_bytes(bytes(range(100, 132)))
        self.secret.chmod(0o600)
        return f"--previous-secret=file:{old}"

    def put(self, rows: Sequence[Row], *, name: str | None = None) -> Path:
        """A file arrives."""
        path = self.feed / f"{name or f'part-{self._files:04d}'}.csv"
        self._files += 1
        hidden = path.with_name("_" + path.name)
        with hidden.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        os.rename(hidden, path)
        return path

    def end(self) -> None:
        """The feed ends; wait until the command has."""
        (self.feed / "_END").touch()
        assert self.wait() == 0, (self.folder / "stream.log").read_text()[-2000:]

    def end_with_checkpoints(self) -> None:
        """The feed ends, in a job that takes checkpoints only when it is asked to."""
        (self.feed / "_END").touch()
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._process.poll() is None:
            assert time.monotonic() < deadline, "the command does not end"
            with contextlib.suppress(urllib.error.HTTPError):  # the job is gone already
                self.checkpoint()
            time.sleep(0.5)
        assert self._process.returncode == 0

    def wait(self) -> int:
        """Wait for the end of the command; its exit code."""
        assert self._process is not None
        return self._process.wait(PATIENCE_SECONDS)

    @property
    def pid(self) -> int:
        """The command's process."""
        assert self._process is not None
        return self._process.pid

    def interrupt(self) -> None:
        """Ctrl-C: the command and whatever it started get it."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGINT)

    def said(self) -> str:
        """What the commands have written."""
        return (self.folder / "stream.log").read_text()

    def kill(self) -> None:
        """Kill the command; the job goes on."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    # What Flink says.

    def job(self) -> dict[str, Any] | None:
        """The job's overview."""
        found = [job for job in self.cluster.get("/jobs/overview")["jobs"] if job["name"] == self.name]
        return found[0] if found else None

    def job_id(self) -> str:
        """The job's id."""
        if self._job_id is None:
            job = self.job()
            assert job is not None
            self._job_id = str(job["jid"])
        return self._job_id

    def solve_vertex(self) -> str:
        """The id of the solving step; asked for once, as the JobManager is slow to describe a job."""
        if self._vertex is None:
            job = self.cluster.get(f"/jobs/{self.job_id()}")
            (self._vertex,) = (vertex["id"] for vertex in job["vertices"] if "Solve" in vertex["name"])
        return str(self._vertex)

    def running(self) -> bool:
        """Whether every task runs."""
        assert self._process is not None
        assert self._process.poll() in (None, 0), (self.folder / "stream.log").read_text()[-2000:]
        job = self.job()
        return job is not None and 0 < job["tasks"]["total"] == job["tasks"]["running"]

    def watermark(self) -> int:
        """Event time in ms that the solving step has reached; -2^63 before anything."""
        values = self.cluster.get(f"/jobs/{self.job_id()}/vertices/{self.solve_vertex()}/watermarks")
        return min((int(value["value"]) for value in values), default=-(1 << 63))

    def reaches(self, when_ms: int) -> None:
        """Wait until the solving step has reached this time."""
        wait_for(lambda: self.watermark() >= when_ms, f"watermark {when_ms}")

    def restarts(self) -> int:
        """How often the job was restored from a checkpoint."""
        return int(self.cluster.get(f"/jobs/{self.job_id()}/checkpoints")["counts"]["restored"])

    def metric_names(self) -> set[str]:
        """Names of all metrics of the solving step in Flink's REST API."""
        path = f"/jobs/{self.job_id()}/vertices/{self.solve_vertex()}/subtasks/metrics"
        return {metric["id"] for metric in self.cluster.get(path)}

    def checkpoint(self) -> str:
        """Ask for a checkpoint without waiting for it; the request's id."""
        answer = self.cluster.post(f"/jobs/{self.job_id()}/checkpoints", {"checkpointType": "CONFIGURED"})
        return str(answer["request-id"])

    def completed(self) -> int:
        """How many checkpoints are complete."""
        return int(self.cluster.get(f"/jobs/{self.job_id()}/checkpoints")["counts"]["completed"])

    def complete_checkpoint(self) -> None:
        """Ask for checkpoints until one completes: right after a restart they may be declined."""

        before = self.completed()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(urllib.error.HTTPError):
                self.checkpoint()
            with contextlib.suppress(TimeoutError):
                wait_for(lambda: self.completed() > before, "a checkpoint", 5)
                return
        raise TimeoutError("no checkpoint completes")

    def commit(self, releases: int) -> None:
        """Complete checkpoints until so many releases are visible. Windows that close together take turns."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.releases()) < releases:
            assert time.monotonic() < deadline, f"{len(self.releases())} releases, not {releases}"
            self.complete_checkpoint()
            with contextlib.suppress(TimeoutError):
                wait_for(lambda: len(self.releases()) >= releases, "releases", 2)

    def last_checkpoint(self) -> str:
        """Where the last complete checkpoint is."""
        told = self.cluster.get(f"/jobs/{self.job_id()}/checkpoints")
        return str(told["latest"]["completed"]["external_path"])

    def checkpoint_bytes(self) -> int:
        """How large the state in the last complete checkpoint is."""
        told = self.cluster.get(f"/jobs/{self.job_id()}/checkpoints")
        return int(told["latest"]["completed"]["state_size"])

    def stop_with_savepoint(self) -> str:
        """Stop the job; where its savepoint is."""
        answer = self.cluster.post(
            f"/jobs/{self.job_id()}/stop",
            {"drain": False, "targetDirectory": (self.cluster.state / "savepoints").as_uri()},
        )

        def done() -> dict[str, Any] | None:
            told = self.cluster.get(f"/jobs/{self.job_id()}/savepoints/{answer['request-id']}")
            return told if told["status"]["id"] == "COMPLETED" else None

        told = wait_for(done, "the savepoint")
        assert "location" in told["operation"], str(told)[:2000]
        return str(told["operation"]["location"])

    # What stands in the output.

    def releases(self) -> dict[str, bytes]:
        """The release files, by name."""
        return {path.name: path.read_bytes() for path in sorted((self.output / "release").glob("*.avro"))}

    def wait_for_releases(self, count: int) -> None:
        """Wait until so many releases are visible."""
        wait_for(lambda: len(self.releases()) >= count, f"{count} releases")

    def released(self) -> list[str]:
        """The references of the released rows."""
        return [row["reference"] for row in records(self.output / "release")]

    def rejected(self) -> list[tuple[str, str]]:
        """Reference and reason of the rejected rows that have one."""
        rows = records(self.output / "restricted" / "rejected")
        return [(row["row"].get("reference") or "", row["reason"]) for row in rows]


def records(folder: Path) -> list[dict[str, Any]]:
    """All records of the Avro files in a folder."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.avro")):
        with path.open("rb") as stream:
            found += [record for record in fastavro.reader(stream) if isinstance(record, dict)]
    return found


def accounts(run: StreamRun, rows: Iterable[Row]) -> collections.Counter[str]:
    """Assert that each row is released or rejected, once, and that no slot is there twice; rejected by reason."""
    expected = collections.Counter(str(row["reference"]) for row in rows)
    rejected = run.rejected()
    found = collections.Counter([*run.released(), *(reference for reference, _ in rejected)])
    assert not found - expected, f"there twice, or from nowhere: {sorted(found - expected)}"
    assert not expected - found, f"lost: {sorted(expected - found)}"
    told = records(run.output / "restricted" / "metrics")
    slots = [(record["partition"], record["window_end"], record["release_no"]) for record in told]
    assert len(slots) == len(set(slots))
    assert {record["release_id"] for record in told if record["released"]} == {
        name.removesuffix(".avro") for name in run.releases()
    }
    assert not [reason for _, reason in rejected if reason in ("release_conflict", "gate_refused")]
    return collections.Counter(reason for _, reason in rejected)


def policy_text(**head: Any) -> str:
    """The small feeds' policy as a file (tests/small_feeds.py); cohorts last unless ``head`` says otherwise."""
    fields: dict[str, Any] = {
        "who": {"role": "individual"},
        "when": {"role": "time"},
        "age": {"role": "quasi", "type": "numeric", "as": "int", "domain": [0, 120], "outside": "code"},
        "job": {"role": "quasi", "type": "categorical", "domain": JOBS},
        "town": {"role": "insensitive"},
        "amount": {"role": "sensitive", "as": "double"},
        "reference": {"role": "insensitive", "accept_risk": "numbers of a test"},
    }
    solver = {"evaluations_per_row": 20, "threads": 1}
    base = {"version": 1, "name": "test", "k": 3, "window": "1h", "max_delay": "3h", "solver": solver}
    if head.get("cohort", "lasting") == "lasting":
        base |= {"cohort": "lasting", "intake": INTAKE}
    return str(yaml.safe_dump({**base, **head, "fields": fields, "others": "drop"}, sort_keys=False))


INTAKE = 12
"""People who enter together: fewer than come in an hour of these feeds, so that each of its hours is released."""

JOBS = ["baker", "clerk", "nurse", "smith", *(f"other {number}" for number in range(12))]
