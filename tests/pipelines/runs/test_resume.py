"""A run that is killed half-way and run again: the same releases, none twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.commands.demo_feed import FeedShape, write_feed
from kanonflow.schemas.release_format import RELEASE_FORMATS
from tests.pipelines.audit.good_runs import read

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
k: 3
window: 1d
max_delay: 1d
out_of_orderness: 10m
solver: {evaluations_per_row: 20, threads: 1}
fields:
  transaction_id: {role: insensitive, accept_risk: numbers of a test}
  booked_at: {role: time}
  customer: {role: individual}
  birth_date: {role: quasi, type: date, domain: [1920-01-01, 2020-12-31], outside: code}
  gender: {role: quasi, type: categorical, domain: [female, male, other]}
  amount: {role: sensitive, as: "decimal(12,2)"}
others: drop
"""
SHAPE = FeedShape(rows=3000, days=30, seed=3)
PATIENCE = 120


def arguments(folder: Path, output: str) -> list[str]:
    """The command over the feed of a folder."""
    paths = {"policy": "p.yaml", "input": "transactions.csv", "secret-file": "secret", "output": output}
    flags = [part for flag, name in paths.items() for part in (f"--{flag}", str(folder / name))]
    return ["anonymize", *flags, "--quiet"]


def files(folder: Path) -> dict[str, bytes]:
    """Everything that a run published or rejected; metrics hold times, so of them only the names."""
    found = {}
    for kind in ("release", "restricted/rejected", "restricted/metrics"):
        for path in (folder / kind).iterdir():
            data = b"" if kind.endswith("metrics") else path.read_bytes()
            # Each run is an epoch of its own.
            found[f"{kind}/{path.name}"] = re.sub(rb'"epoch": ?"[0-9a-f]{16}"', b"", data)
    return found


def kill_after_releases(folder: Path, count: int, *flags: str) -> int:
    """Begin a run and kill it when ``count`` releases are there; how many there are then."""
    command = [sys.executable, "-m", "kanonflow.pipelines.cli", *arguments(folder, "killed"), *flags]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    release = folder / "killed" / "release"
    began = time.monotonic()
    try:
        while process.poll() is None and time.monotonic() - began < PATIENCE:
            if release.exists() and len(list(release.glob("[!.]*"))) >= count:
                break
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err.decode()
    return len(list(release.glob("[!.]*")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A feed of 30 days, a policy and a secret."""
    write_feed(SHAPE, tmp_path)
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "secret").write_bytes(bytes(range(100, 140)))
    (tmp_path / "secret").chmod(0o600)
    return tmp_path


@pytest.mark.parametrize("release_format", RELEASE_FORMATS)
def test_a_killed_run_that_resumes_is_the_run_that_was_not_killed(
    folder: Path, release_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Same files with the same bytes, none twice, no row twice; what was there is left as it was. In the other format
    it does not go on."""
    flags = ("--release-format", release_format)
    assert cli.main([*arguments(folder, "undisturbed"), *flags]) == cli.DONE
    expected = files(folder / "undisturbed")
    there = kill_after_releases(folder, 3, *flags)
    before = {path: os.stat(path).st_mtime_ns for path in (folder / "killed/release").glob("[!.]*")}
    assert 3 <= there < sum(name.startswith("release/") for name in expected)
    (other,) = set(RELEASE_FORMATS) - {release_format}
    capsys.readouterr()
    assert cli.main([*arguments(folder, "killed"), "--resume", "--release-format", other]) == 2
    assert f"its releases are {release_format} files" in capsys.readouterr().err
    assert cli.main([*arguments(folder, "killed"), "--resume", *flags]) == cli.DONE
    assert files(folder / "killed") == expected
    assert before == {path: os.stat(path).st_mtime_ns for path in before}
    published = []
    for path in (folder / "killed/release").iterdir():
        assert path.suffix == f".{release_format}"
        published += [row["transaction_id"] for row in read(path)[1]]
    assert len(published) == len(set(published)) > 2000
