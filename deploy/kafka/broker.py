"""A Kafka broker of one node on this machine, for tests and trials: Java and Maven are all it needs.

    python -m deploy.kafka.broker up DIRECTORY      starts it, prints the address, leaves it running
    python -m deploy.kafka.broker down DIRECTORY    stops it; its data stays in the directory

The jars that pom.xml names are copied once into ``${XDG_CACHE_HOME:-~/.cache}/kanonflow``. The broker listens on
loopback only, without passwords; it is no example of how to run one that matters. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from deploy.free_ports import free_ports

POM = Path(__file__).with_name("pom.xml")
CLUSTER = "a2Fub25mbG93LXRyaWFscw"  # 16 bytes, base64 without its padding
START_SECONDS = 180.0
"""It takes a few on an idle machine; one with thirty times as much to do as it can was seen to need more than 60."""
STOP_SECONDS = 30.0
POLL_SECONDS = 0.1

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={logs}
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
num.network.threads=2
num.io.threads=4
log.cleaner.dedupe.buffer.size=8388608
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
"""


class BrokerError(Exception):
    """Java or Maven is missing, the jars cannot be had, or the broker does not start; the message says which."""


@dataclass(frozen=True)
class Ports:
    """Where a broker listens on loopback: for clients, and for itself as its own controller."""

    clients: int
    controller: int


class Broker:
    """A broker with its data in ``directory``, which may be that of an earlier one: then it carries on.

    The address stays the same over ``stop`` or ``kill`` and another ``start``.
    """

    def __init__(self, directory: Path, ports: Ports | None = None) -> None:
        self.directory = Path(directory)
        self._ports = ports or _remembered_ports(self.directory) or Ports(*free_ports(2))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """host:port for clients."""
        return f"127.0.0.1:{self._ports.clients}"

    @property
    def pid(self) -> int | None:
        """The process, while this object runs one."""
        return self._process.pid if self._process else None

    @property
    def log(self) -> Path:
        """The broker's own log."""
        return self.directory / "broker.log"

    def start(self, *, detached: bool = False) -> None:
        """Start it and return when it answers. detached: it outlives this process.

        Raises BrokerError.
        """
        if self._process is not None and self._process.poll() is None:
            return
        classpath = f"{jars()}/*"
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = self._write_settings()
        logs = self.directory / "logs"
        if not (logs / "meta.properties").exists():
            self._format(classpath, settings)
        with (self.directory / "broker.out").open("ab") as out:
            self._process = subprocess.Popen(
                [*_java(self.log, heap="512m"), "-cp", classpath, "kafka.Kafka", str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=detached,
                cwd=self.directory,
            )
        self._wait_until_it_answers()

    def stop(self) -> None:
        """End it in order; after a while the hard way. Its data stays."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL). Its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write_settings(self) -> Path:
        path = self.directory / "server.properties"
        path.write_text(
            _SETTINGS.format(
                port=self._ports.clients,
                controller=self._ports.controller,
                logs=(self.directory / "logs").absolute(),
            )
        )
        return path.absolute()

    def _format(self, classpath: str, settings: Path) -> None:
        command = [*_java(self.directory / "format.log", heap="128m")]
        command += ["-cp", classpath, "kafka.tools.StorageTool", "format"]
        command += ["--cluster-id", CLUSTER, "--config", str(settings), "--ignore-formatted"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"formatting {self.directory} failed:\n{done.stdout}{done.stderr}")

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not answers(self._ports.clients):
            if self._process is None or self._process.poll() is not None:
                self._process = None
                raise BrokerError(f"the broker ended while it started:\n{self._last_lines()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(f"no broker after {START_SECONDS:.0f} s:\n{self._last_lines()}")
            time.sleep(POLL_SECONDS)

    def _last_lines(self) -> str:
        files = [path for path in (self.log, self.directory / "broker.out") if path.exists()]
        return "\n".join(line for path in files for line in path.read_text().splitlines()[-20:])


def jars() -> Path:
    """The folder with the broker's jars; fetched with Maven the first time. Raises BrokerError.

    A process that dies while it fetches leaves nothing that looks complete, and of two only one fetches.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kanonflow"
    folder = cache / f"kafka-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "kafka.lock"):
        if folder.is_dir():
            return folder
        unfinished = Path(tempfile.mkdtemp(prefix="kafka-", suffix=".tmp", dir=cache))
        try:
            _fetch(unfinished)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def missing_programs() -> tuple[str, ...]:
    """Which of the programs that a broker needs are not on the path."""
    return tuple(name for name in ("java", "mvn") if shutil.which(name) is None)


def answers(port: int) -> bool:
    """Whether a broker answers requests there: an open port alone does not say so."""
    which_versions = struct.pack(
        ">ihhih", 10, 18, 0, 1, -1
    )  # length, ApiVersions, version, number, no client
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(which_versions)
            return len(connection.recv(4)) == 4
    except OSError:
        return False


def main(argv: list[str] | None = None) -> int:
    """The command line; 0 when done."""
    parser = argparse.ArgumentParser(description="A Kafka broker on this machine, for trials.")
    parser.add_argument("command", choices=("up", "down"))
    parser.add_argument("directory", type=Path, help="for its data, its log and its process id")
    arguments = parser.parse_args(argv)
    pid_file = arguments.directory / "pid"
    try:
        if arguments.command == "up":
            _up(arguments.directory, pid_file)
        else:
            _down(arguments.directory, pid_file)
    except BrokerError as error:
        print(f"broker: {error}", file=sys.stderr)
        return 1
    return 0


def _up(directory: Path, pid_file: Path) -> None:
    broker = Broker(directory)
    if _running(directory, pid_file) is None:
        broker.start(detached=True)
        pid_file.write_text(str(broker.pid))
    print(broker.bootstrap)


def _down(directory: Path, pid_file: Path) -> None:
    pid = _running(directory, pid_file)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while _running(directory, pid_file) is not None:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                deadline += STOP_SECONDS
            time.sleep(POLL_SECONDS)
    pid_file.unlink(missing_ok=True)


def _running(directory: Path, pid_file: Path) -> int | None:
    """The process id in the file, if that process still is the broker of this directory."""
    try:
        pid = int(pid_file.read_text())
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    settings = str((directory / "server.properties").absolute()).encode()
    return pid if settings in arguments else None


def _remembered_ports(directory: Path) -> Ports | None:
    """The ports in the settings of an earlier broker there."""
    try:
        lines = (directory / "server.properties").read_text().splitlines()
    except OSError:
        return None
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    clients = settings["advertised.listeners"].rsplit(":", 1)[1]
    return Ports(int(clients), int(settings["controller.quorum.voters"].rsplit(":", 1)[1]))


def _fetch(folder: Path) -> None:
    _need("mvn")
    command = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerError(f"Maven could not fetch the jars of {POM}:\n{done.stdout}{done.stderr}")


def _java(log: Path, heap: str) -> list[str]:
    _need("java")
    options = {"logFile": str(log.absolute()), "defaultLogLevel": "warn", "showDateTime": "true"}
    logging = [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in options.items()]
    # Without Java's second compiler: a trial is over before what it compiles is used.
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *logging]


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise BrokerError(f"{program} is not on the path; a broker needs Java 17 and Maven")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
