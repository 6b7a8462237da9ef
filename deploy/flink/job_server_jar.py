"""kanonflow-flink.jar: built once for each state of pom.xml, kept outside the repository."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")


class MissingToolError(Exception):
    """Java or Maven is not there; the message says what to install."""


def cache_directory() -> Path:
    """Where jars are kept: $XDG_CACHE_HOME/kanonflow or ~/.cache/kanonflow."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kanonflow"


def job_server_jar() -> Path:
    """Path of the jar, built now if it is not there yet (about two minutes, with the network).

    Raises:
        MissingToolError: no ``java``, or no ``mvn`` to build with.
        subprocess.CalledProcessError: Maven failed; its messages are on stderr.
    """
    if shutil.which("java") is None:
        raise MissingToolError("Flink needs Java 17: install a JDK or JRE, so that `java` is on the path")
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:16]
    folder = cache_directory() / "flink"
    jar = folder / f"kanonflow-flink-{digest}.jar"
    if jar.exists():
        return jar
    if shutil.which("mvn") is None:
        raise MissingToolError("building Flink's job server needs Maven 3.6 or later: install `mvn`")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            _build(jar)
    return jar


def _build(jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jar.parent) as work:
        shutil.copy(POM, work)
        subprocess.run(["mvn", "-q", "-B", "package"], cwd=work, check=True)
        os.replace(Path(work) / "target" / "kanonflow-flink.jar", jar)
