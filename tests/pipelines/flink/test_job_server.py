"""The job server of a stream on Flink: which one is taken, and what is said when it cannot be built."""

from __future__ import annotations

import io
import stat
from pathlib import Path

import pytest

from kanonflow.pipelines.flink import job_server as flink_job_server
from kanonflow.pipelines.flink.job_server import (
    FLINK_VERSION,
    MissingToolError,
    job_server_jar,
    submitting_jvm,
    with_job_server,
)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the path, and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def program(folder: Path, name: str, text: str = "exit 0") -> None:
    """A program that does what the shell text says."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_stream_without_flags_gets_what_is_tested(programs: Path) -> None:
    """The jar is built by Maven once, from the file of its parts and the class that is mended, and kept."""
    for name in ("java", "javac"):
        program(programs, name)
    sources = "src/main/java/org/apache/beam/sdk/fn/server/ServerFactory.java"
    made = (
        '/bin/mkdir target && echo once >> "$XDG_CACHE_HOME/calls" && echo jar > target/kanonflow-flink.jar'
    )
    program(programs, "mvn", f"test -f pom.xml && test -f {sources} && {made}")
    terminal = io.StringIO()
    flags = with_job_server("FlinkRunner", ("--flink_master=[local]",), terminal)
    assert flags[:2] == ("--flink_master=[local]", f"--flink_version={FLINK_VERSION}")
    jar = Path(flags[2].removeprefix("--flink_job_server_jar="))
    assert jar.read_text() == "jar\n"
    assert "with Maven, once" in terminal.getvalue()
    assert with_job_server("FlinkRunner", (), io.StringIO())[1] == flags[2]
    assert (jar.parents[2] / "calls").read_text() == "once\n"


@pytest.mark.parametrize(
    ("runner", "flags"),
    [
        ("FlinkRunner", ("--flink_job_server_jar=J.jar",)),
        ("FlinkRunner", ("--flink_version", "1.20")),
        ("DataflowRunner", ()),
    ],
)
def test_what_is_named_is_left_alone(programs: Path, runner: str, flags: tuple[str, ...]) -> None:
    """And nothing is built, which could not be done here."""
    assert with_job_server(runner, flags) == flags


@pytest.mark.parametrize(
    ("flags", "lean"),
    [
        (("--flink_master=host:8081",), True),
        ((), False),
        (("--flink_master=[local]",), False),
        (("--flink_master=host:8081", "--job_server_jvm_properties=-Xmx1g"), False),
        (("--flink_master=host:8081", "--job_server_jvm_property", "-Xmx1g"), False),
    ],
)
def test_a_job_server_that_only_submits_compiles_once(flags: tuple[str, ...], lean: bool) -> None:
    """One that is the cluster, or whose Java somebody has set up, is left as it is."""
    told = [each.removeprefix("--job_server_jvm_properties=") for each in submitting_jvm(flags)]
    assert ("-XX:TieredStopAtLevel=1" in told) is lean
    assert bool(told) is lean


def test_the_jar_is_not_sent_to_a_cluster_that_runs_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, which holds a digest of what it was made of. Another jar is sent, and where nobody answers."""
    jar = f"/home/somebody/{flink_job_server._jar().name}"
    asked: list[str] = []

    def told(*names: str) -> None:
        def answer(method: str, url: str) -> dict[str, list[str]]:
            asked.append(url)
            return {"classpath": [f"/elsewhere/{name}" for name in names]}

        monkeypatch.setattr("kanonflow.pipelines.flink.jobs.ask", answer)

    def is_sent(jar: str) -> bool:
        flags = ("--flink_master=host:8081", f"--flink_job_server_jar={jar}")
        return not any("cluster.has.jar=true" in each for each in submitting_jvm(flags))

    told("flink-dist.jar", Path(jar).name)
    assert not is_sent(jar)
    assert asked == ["http://host:8081/jobmanager/environment"]
    assert is_sent("/home/somebody/kanonflow-flink-0123456789abcdef.jar")
    told("flink-dist.jar")
    assert is_sent(jar)

    def silent(method: str, url: str) -> None:
        raise OSError("nobody there")

    monkeypatch.setattr("kanonflow.pipelines.flink.jobs.ask", silent)
    assert is_sent(jar)


def test_what_is_missing_is_named(programs: Path) -> None:
    """Program by program; Maven's own errors are repeated, and the way around named."""
    for name in ("java", "mvn", "javac"):
        with pytest.raises(MissingToolError, match=f"`{name}`.*or name a job server"):
            job_server_jar()
        program(programs, name, "echo '[ERROR] no such artifact'; echo chatter; exit 1")
    with pytest.raises(MissingToolError, match=r"settings\.xml") as caught:
        job_server_jar()
    assert "no such artifact" in str(caught.value)
    assert "chatter" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_classes_that_are_mended_are_not_in_the_jar_twice() -> None:
    """Beam's own ones are left out of it; the mends are for the version that the file names."""
    pom = flink_job_server.POM.read_text()
    assert "<beam.version>2.62.0</beam.version>" in pom
    for path, package in flink_job_server.MENDED.items():
        assert f"<exclude>org/apache/beam/{package}/{path.stem}*</exclude>" in pom
        text = path.read_text()
        assert f"package org.apache.beam.{package.replace('/', '.')};" in text
        assert f"class {path.stem} " in text
