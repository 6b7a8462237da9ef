"""kanonflow-flink.jar: Beam's Flink job server, built by Maven once for each state of its sources.

Beam would download a ready one. Not every mirror of Maven Central carries it, and the one that Beam's Python version
asks for is of another Flink than what is tested here (docs/decisions/043). ``job_server.xml`` says what is in the
jar. Two classes of that version of Beam are replaced: ``BundleCheckpointHandlers.java`` mends a leak, and with
``ServerFactory.java`` nothing listens beyond loopback.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from kanonflow.pipelines.flink.flags import flag_value, is_flink
from kanonflow.pipelines.flink.jobs import class_path, cluster_address
from kanonflow.pipelines.terminal.terminal import tell

FLINK_VERSION = "1.19"
"""Of the jar, and of the clusters that it sends jobs to."""

POM = Path(__file__).with_name("job_server.xml")
MENDED = {
    Path(__file__).with_name("BundleCheckpointHandlers.java"): "runners/fnexecution/control",
    Path(__file__).with_name("ServerFactory.java"): "sdk/fn/server",
    Path(__file__).with_name("ClasspathScanningResourcesDetector.java"): "sdk/util/construction/resources",
}
"""Classes in the place of Beam's, with their packages below ``org/apache/beam``."""


class MissingToolError(Exception):
    """Java or Maven is not there, or Maven failed; the message says what to do."""

    exit_code = 2


def with_job_server(runner: str, flags: Sequence[str], terminal: TextIO = sys.stderr) -> tuple[str, ...]:
    """The flags of a job on Flink, with a job server where they name none: neither a jar nor a version of Flink.

    Builds the jar when it is not there yet, and says so on the terminal. Raises MissingToolError.
    """
    named = any(flag_value(flags, name) for name in ("--flink_job_server_jar", "--flink_version"))
    if named or not is_flink(runner):
        return tuple(flags)
    if not _jar().exists():
        tell("building Flink's job server with Maven, once; that takes some minutes", terminal)
    return (*flags, f"--flink_version={FLINK_VERSION}", f"--flink_job_server_jar={job_server_jar()}")


def submitting_jvm(flags: Sequence[str]) -> tuple[str, ...]:
    """Flags for the Java process of a job server that hands one job to a cluster and then only watches it.

    Compiling once halves the processor time of its start (docs/decisions/046). The jar is not sent along to a cluster
    that runs from it: its name holds a digest of what it was made of. None where a flag says how that process runs,
    and where it is the cluster itself.
    """
    asked = any(flag_value(flags, f"--job_server_jvm_{each}") for each in ("properties", "property"))
    address = cluster_address(flags)
    if asked or address is None:
        return ()
    jar = flag_value(flags, "--flink_job_server_jar")
    there = jar is not None and Path(jar).name == _jar().name and Path(jar).name in class_path(address)
    return tuple(f"--job_server_jvm_properties={each}" for each in (*_SUBMITTING, *([_IS_THERE] * there)))


_SUBMITTING = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_IS_THERE = "-Dkanonflow.cluster.has.jar=true"


def cache_directory() -> Path:
    """Where jars are kept: $XDG_CACHE_HOME/kanonflow or ~/.cache/kanonflow."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kanonflow"


def job_server_jar() -> Path:
    """Path of the jar, built now if it is not there yet (some minutes, with the network).

    Raises MissingToolError: no ``java``, no ``mvn`` or ``javac`` to build with, or Maven failed.
    """
    _need("java", "Flink needs Java 17: install a JDK, so that `java` is on the path")
    jar = _jar()
    if jar.exists():
        return jar
    _need("mvn", "building Flink's job server needs Maven 3.6 or later: install `mvn`")
    _need("javac", "building Flink's job server needs a JDK of Java 17; here is only a JRE, without `javac`")
    jar.parent.mkdir(parents=True, exist_ok=True)
    with (jar.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            _build(jar)
    return jar


def _jar() -> Path:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in (POM, *MENDED))).hexdigest()[:16]
    return cache_directory() / "flink" / f"kanonflow-flink-{digest}.jar"


def _need(program: str, otherwise: str) -> None:
    if shutil.which(program) is None:
        raise MissingToolError(f"{otherwise}, or name a job server with --flink_job_server_jar")


def _build(jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jar.parent) as work:
        shutil.copy(POM, Path(work) / "pom.xml")
        for mended, package in MENDED.items():
            folder = Path(work) / "src/main/java/org/apache/beam" / package
            folder.mkdir(parents=True)
            shutil.copy(mended, folder)
        done = subprocess.run(
            ["mvn", "-q", "-B", "package"], cwd=work, check=False, capture_output=True, text=True
        )
        if done.returncode:
            errors = "\n".join(line for line in done.stdout.splitlines() if "ERROR" in line)[:2000]
            raise MissingToolError(
                "Maven could not build Flink's job server (a mirror of Maven Central goes into"
                f" ~/.m2/settings.xml):\n{errors}"
            )
        os.replace(Path(work) / "target" / "kanonflow-flink.jar", jar)
