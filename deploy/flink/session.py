"""A Flink session cluster on this machine: a JobManager, TaskManagers, and a pool of Python workers.

    python -m deploy.flink.session up [--state DIR] [--task-managers 2] [--slots 2] [--prometheus]
    python -m deploy.flink.session flags      the flags that send a job there
    python -m deploy.flink.session down

All of them listen on the loopback interface only, and what they write only their user can read. Flink's reporter for
Prometheus can do nothing but listen on all interfaces: without ``--prometheus`` it is off. A job that runs here meets
what it meets on a real cluster: workers in processes of their own, checkpoints in files, TaskManagers that die.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deploy.flink.job_server_jar import FLINK_VERSION, MissingToolError, job_server_jar
from deploy.free_ports import free_ports

START_SECONDS = 180
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_OPENED = ("java.lang", "java.net", "java.io", "java.nio", "java.text", "java.time", "java.util")
_OPENED_TOO = ("java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks")
_LOOPBACK = "127.0.0.1"
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class SessionCluster:
    """The processes of one cluster. Their ids and ports are kept in ``state/cluster.json``.

    state: folder for configuration, logs, checkpoints and savepoints. python: whose worker pool runs the steps.
    jvm: further flags of the Java processes. prometheus: offer metrics, exact counts of rows, on all interfaces.
    """

    def __init__(
        self,
        state: Path,
        *,
        task_managers: int = 2,
        slots: int = 2,
        python: str = sys.executable,
        heap_mb: int = 512,
        jvm: Sequence[str] = (),
        prometheus: bool = False,
    ) -> None:
        self.state = state
        self._count = task_managers
        self._slots = slots
        self._python = python
        self._heap_mb = heap_mb
        self._jvm = tuple(jvm)
        self._prometheus = prometheus
        self._pids: dict[str, int] = {}
        self._ports: dict[str, int] = {}

    @classmethod
    def attach(cls, state: Path) -> SessionCluster:
        """The cluster that ``up`` started there. Raises FileNotFoundError."""
        record = json.loads((state / "cluster.json").read_text())
        cluster = cls(state, task_managers=record["task_managers"], slots=record["slots"])
        cluster._pids, cluster._ports = record["pids"], record["ports"]
        return cluster

    @property
    def rest(self) -> str:
        """host:port of Flink's REST interface."""
        return f"{_LOOPBACK}:{self._ports['rest']}"

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are kept."""
        return self.state / "checkpoints"

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that were started: managers and the pool; workers descend from the pool."""
        return tuple(self._pids.values())

    def flags(self, checkpointing_ms: int = 10_000) -> list[str]:
        """What sends a job here: runner, cluster, workers, checkpoints."""
        return [
            "--runner=FlinkRunner",
            f"--flink_version={FLINK_VERSION}",
            f"--flink_job_server_jar={job_server_jar()}",
            f"--flink_master={self.rest}",
            "--environment_type=EXTERNAL",
            f"--environment_config={_LOOPBACK}:{self._ports['workers']}",
            f"--checkpointing_interval={checkpointing_ms}",
        ]

    def start(self) -> None:
        """Start everything and wait until all slots are there. Raises TimeoutError."""
        self.state.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o700)  # it holds raw rows: in checkpoints and savepoints
        self._ports = dict(zip(("rest", "rpc", "workers"), free_ports(3), strict=True))
        self._write_configuration()
        self.start_job_manager()
        for number in range(self._count):
            self.start_task_manager(number)
        self.start_workers()
        self._save()
        self.wait_for_slots(self._count * self._slots)

    def stop(self) -> None:
        """Stop every process."""
        for name in sorted(self._pids):
            self._signal(name, signal.SIGTERM)
        deadline = time.monotonic() + 10
        while self._pids and time.monotonic() < deadline:
            self._pids = {name: pid for name, pid in self._pids.items() if _alive(pid)}
            time.sleep(0.05)
        for name in sorted(self._pids):
            self._signal(name, signal.SIGKILL)
        self._pids = {}
        with contextlib.suppress(FileNotFoundError):
            (self.state / "cluster.json").unlink()

    def __enter__(self) -> SessionCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_job_manager(self) -> None:
        """Start the JobManager, on the ports of an earlier one. It knows of no job: there is no high availability."""
        self._java("job-manager", _JOB_MANAGER, "--executionMode", "cluster")
        self._save()

    def kill_job_manager(self) -> None:
        """SIGKILL: every job is lost but for its retained checkpoints."""
        self._signal("job-manager", signal.SIGKILL)

    def start_task_manager(self, number: int) -> None:
        """Start a TaskManager; it registers itself."""
        self._java(f"task-manager-{number}", _TASK_MANAGER, heap_mb=self._heap_mb)
        self._save()

    def kill_task_manager(self, number: int) -> None:
        """SIGKILL: no goodbye, as when a machine dies."""
        self._signal(f"task-manager-{number}", signal.SIGKILL)

    def start_workers(self) -> None:
        """Start the pool that Flink asks for Python workers. Each worker is a process of the pool's group."""
        command = [self._python, "-m", "kanonflow.pipelines.runs.worker_pool"]
        command.append(f"--service_port={self._ports['workers']}")
        # The pool starts `python` from the path.
        path = f"{Path(self._python).parent}{os.pathsep}{os.environ['PATH']}"
        self._spawn("workers", command, {**os.environ, "PATH": path})
        _wait_for_port(self._ports["workers"])
        self._save()

    def task_manager_pid(self, number: int) -> int:
        """The process id of a TaskManager."""
        return self._pids[f"task-manager-{number}"]

    def worker_pids(self) -> list[int]:
        """The process ids of the Python workers that run now."""
        return [pid for pid in _children(self._pids["workers"]) if _alive(pid)]

    def kill_worker_pool(self) -> None:
        """SIGKILL the pool and every worker: no new one can be had until ``start_workers``."""
        self._signal("workers", signal.SIGKILL)

    def wait_for_slots(self, slots: int) -> None:
        """Wait until the JobManager knows of so many slots. Raises TimeoutError."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if self.get("/overview")["slots-total"] >= slots:
                    return
            time.sleep(0.2)
        raise TimeoutError(f"Flink did not offer {slots} slots in {START_SECONDS} s; see {self.state}/log")

    def get(self, path: str) -> Any:
        """A document of Flink's REST interface. Raises OSError."""
        with urllib.request.urlopen(f"http://{self.rest}{path}", timeout=10) as answer:
            return json.load(answer)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Ask for something: POST /jobs/<id>/stop, /jobs/<id>/checkpoints... Raises OSError."""
        return self._ask("POST", path, body)

    def patch(self, path: str) -> None:
        """PATCH /jobs/<id>?mode=cancel. Raises OSError."""
        self._ask("PATCH", path, None)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            f"http://{self.rest}{path}", data=data, method=method, headers=headers
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def _write_configuration(self) -> None:
        heap = self._heap_mb
        values = {
            "jobmanager.rpc.address": _LOOPBACK,
            "jobmanager.rpc.port": self._ports["rpc"],
            "jobmanager.bind-host": _LOOPBACK,
            "rest.address": _LOOPBACK,
            "rest.port": self._ports["rest"],
            "rest.bind-address": _LOOPBACK,
            "taskmanager.host": _LOOPBACK,
            "taskmanager.bind-host": _LOOPBACK,
            "taskmanager.numberOfTaskSlots": self._slots,
            # A job's workers on all TaskManagers, instead of all on the first.
            "taskmanager.load-balance.mode": "SLOTS",
            # What Flink's shell scripts would work out from the total.
            "taskmanager.cpu.cores": 1.0,
            "taskmanager.memory.task.heap.size": f"{heap}m",
            "taskmanager.memory.task.off-heap.size": "64m",
            "taskmanager.memory.network.min": "64m",
            "taskmanager.memory.network.max": "64m",
            "taskmanager.memory.managed.size": "32m",
            "taskmanager.memory.framework.heap.size": "128m",
            "taskmanager.memory.framework.off-heap.size": "128m",
            "taskmanager.memory.jvm-metaspace.size": "256m",
            "taskmanager.memory.jvm-overhead.min": "64m",
            "taskmanager.memory.jvm-overhead.max": "64m",
            # The REST API answers from what it knew three seconds ago otherwise: releases were seen outside before
            # the checkpoint that published them counted as complete.
            "web.refresh-interval": 300,
            # The same of counters and watermarks, which it would ask its TaskManagers for every ten seconds.
            "metrics.fetcher.update-interval": 1000,
            # A dead TaskManager is noticed in seconds.
            "heartbeat.interval": 1000,
            "heartbeat.timeout": 6000,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 1_000_000,
            "restart-strategy.fixed-delay.delay": "1 s",
            "state.checkpoints.dir": (self.state / "checkpoints").as_uri(),
            "state.savepoints.dir": (self.state / "savepoints").as_uri(),
            "state.checkpoints.num-retained": 3,
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "io.tmp.dirs": self.state / "tmp",
            # Jobs bring the jar that the cluster runs from: each class must be there once.
            "classloader.resolve-order": "parent-first",
        }
        if self._prometheus:
            values |= {
                "metrics.reporter.prom.factory.class": (
                    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
                ),
                "metrics.reporter.prom.port": "9249-9299",
            }
        for folder in ("conf", "log", "checkpoints", "savepoints", "tmp"):
            (self.state / folder).mkdir(exist_ok=True)
        lines = [f"{name}: {value}" for name, value in values.items()]
        (self.state / "conf" / "flink-conf.yaml").write_text("\n".join(lines) + "\n")

    def _java(self, name: str, main: str, *arguments: str, heap_mb: int = 512) -> None:
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*_OPENED, *_OPENED_TOO)]
        # Without Java's second compiler, which took more than all that it compiled (decision 046).
        jvm = [f"-Xmx{heap_mb + 256}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        jvm += ["-Dorg.slf4j.simpleLogger.showDateTime=true", *self._jvm]
        command = ["java", *jvm, *opened, "-cp", str(job_server_jar()), main]
        self._spawn(name, [*command, "--configDir", str(self.state / "conf"), *arguments], dict(os.environ))

    def _spawn(self, name: str, command: Sequence[str], environment: dict[str, str]) -> None:
        with os.fdopen(os.open(self.state / "log" / f"{name}.log", _APPEND, 0o600), "ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                umask=0o077,
            )
        self._pids[name] = process.pid

    def _signal(self, name: str, number: int) -> None:
        """To the whole group, and wait until a killed process is gone."""
        pid = self._pids[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)
        if number == signal.SIGKILL:
            while _alive(pid):
                time.sleep(0.02)

    def _save(self) -> None:
        record = {
            "pids": self._pids,
            "ports": self._ports,
            "task_managers": self._count,
            "slots": self._slots,
        }
        (self.state / "cluster.json").write_text(json.dumps(record))


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((_LOOPBACK, port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port} after {START_SECONDS} s")


def _alive(pid: int) -> bool:
    """Whether the process runs; a child that ended is buried on the way."""
    with contextlib.suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found += [int(entry.name), *_children(int(entry.name))]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m deploy.flink.session", description=__doc__)
    parser.add_argument("action", choices=("up", "down", "flags", "status"))
    parser.add_argument("--state", type=Path, default=Path(".flink"), help="folder of the cluster")
    parser.add_argument("--task-managers", type=int, default=2)
    parser.add_argument("--slots", type=int, default=2, help="of each TaskManager")
    parser.add_argument(
        "--prometheus",
        action="store_true",
        help="offer metrics, which are exact counts, on ports 9249-9299 of ALL interfaces",
    )
    options = parser.parse_args(arguments)
    state = options.state.resolve()
    try:
        if options.action == "up":
            cluster = SessionCluster(
                state,
                task_managers=options.task_managers,
                slots=options.slots,
                prometheus=options.prometheus,
            )
            cluster.start()
            print(f"Flink runs, http://{cluster.rest}/overview; logs in {state / 'log'}")
            return 0
        cluster = SessionCluster.attach(state)
        if options.action == "flags":
            print(" ".join(cluster.flags()))
        elif options.action == "status":
            print(json.dumps(cluster.get("/overview"), indent=1))
        else:
            cluster.stop()
    except FileNotFoundError:
        print(f"no cluster in {state}; `up` starts one", file=sys.stderr)
        return 2
    except (MissingToolError, TimeoutError, urllib.error.URLError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
