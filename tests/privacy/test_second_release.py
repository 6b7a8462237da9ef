"""Releasing rows again: refused, but on the user's word; then told in the run's notes, in run.json and by verify."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.run_records.released_again import LOSS

pytestmark = pytest.mark.thorough

POLICY = """
version: 1
name: {name}
k: {k}
solver: {{evaluations_per_row: 20, threads: 1}}
fields:
  age: {{role: quasi, type: numeric, as: int}}
  job: {{role: quasi, type: categorical}}
  amount: {{role: sensitive, as: double}}
"""
Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """anonymize 30 rows into ``out``; a policy of that name and k, a secret of that letter (none: drawn)."""
    lines = [f"{20 + number % 9},job {number % 3},{number}.5" for number in range(30)]
    (tmp_path / "in.csv").write_text("\n".join(["age,job,amount", *lines]) + "\n")

    def anonymize(*flags: str, name: str = "first", k: int = 3, secret: str | None = "a") -> int:
        policy = tmp_path / f"{name}-{k}.yaml"
        policy.write_text(POLICY.format(name=name, k=k))
        if secret is not None:
            (tmp_path / secret).write_bytes(bytes(ord(secret) + place for place in range(32)))
            (tmp_path / secret).chmod(0o600)
            flags = (*flags, "--secret-file", str(tmp_path / secret))
        places = ["--input", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out")]
        return cli.main(["anonymize", "--policy", str(policy), *places, "--quiet", *flags])

    return anonymize


@pytest.fixture
def verify(tmp_path: Path) -> Callable[[str, str], int]:
    """verify a directory below ``tmp_path`` against a policy."""

    def audit(place: str, policy: str, *flags: str) -> int:
        given = ["--policy", str(tmp_path / policy), "--input", str(tmp_path / "in.csv")]
        return cli.main(["verify", *given, "--release", str(tmp_path / place), *flags])

    return audit


def record(tmp_path: Path, place: str) -> dict[str, Any]:
    """run.json of a directory."""
    return json.loads((tmp_path / place / "restricted" / "run.json").read_text())


def names(tmp_path: Path, place: str) -> set[str]:
    """The release files of a directory."""
    return {path.name for path in (tmp_path / place / "release").iterdir()}


def test_rows_are_not_released_again_unasked(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Another policy or secret over a used output: refused, with the flag that would do it."""
    assert run() == 0
    for change in ({"name": "other"}, {"secret": "b"}, {"k": 4}):
        assert run(**change) == 2
    assert "--second-release" in capsys.readouterr().err


def test_a_second_release_is_told_everywhere(
    run: Run, verify: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the run's notes, in both run.json, by both audits, which pass; the first release is untouched."""
    assert run() == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out" / "release").iterdir()}
    assert run("--second-release", name="other", k=4) == 0
    assert LOSS in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (tmp_path / "out" / "release").iterdir()} == before
    assert len(names(tmp_path, "out/second-2")) == 1
    (entry,) = record(tmp_path, "out")["second_releases"]
    assert (entry["directory"], entry["policy_name"]) == ("second-2", "other")
    assert record(tmp_path, "out/second-2")["second_release_of"] == ".."
    assert verify("out", "first-3.yaml") == 0
    assert "released again: second-2 (policy other)" in capsys.readouterr().out
    assert verify("out/second-2", "other-4.yaml", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["passed"]
    assert "second release of rows" in err


def test_the_certificates_of_both_releases_promise_nothing(
    run: Run, verify: Callable[..., int], tmp_path: Path
) -> None:
    """The first one's is taken back with its report as soon as it is no longer true, and its verdict says why."""
    out = tmp_path / "out"
    pages = [out / "certificate.html", out / "restricted/report.html"]
    assert run() == 0
    assert verify("out", "first-3.yaml") == 0
    assert all("at most 1/3" in page.read_text() or "exactly 1/3" in page.read_text() for page in pages)
    assert run("--second-release", name="other", k=4) == 0
    assert not any(page.exists() for page in pages)
    assert json.loads((out / "verdict.json").read_text())["second_release"]
    assert cli.main(["report", str(out)]) == 0
    assert verify("out/second-2", "other-4.yaml") == 0
    second = [out / "second-2/certificate.html", out / "second-2/restricted/report.html"]
    for page in (*pages, *second):
        assert "THE PROMISE IS LOST" in page.read_text()
        assert not re.search("(at most|exactly) 1/[34]", page.read_text())
    for page in (pages[0], second[0]):
        assert "The audit passed" in page.read_text()
        assert "highest risk promised" not in page.read_text()


def test_it_goes_into_the_next_directory_and_resumes_in_its_own(run: Run, tmp_path: Path) -> None:
    """Two of them, the second one resumed: byte for byte what it was; the first run resumes, too."""
    assert run() == 0
    assert run("--second-release", secret="b") == 0
    assert run("--second-release", secret=None) == 0
    (path,) = (tmp_path / "out" / "second-3" / "release").iterdir()
    data = path.read_bytes()
    assert run("--second-release", "--resume", secret=None) == 0
    assert path.read_bytes() == data
    assert not (tmp_path / "out" / "second-4").exists()
    assert run("--resume") == 0
    assert [entry["directory"] for entry in record(tmp_path, "out")["second_releases"]] == [
        "second-2",
        "second-3",
    ]
    assert (
        len({name for place in ("out", "out/second-2", "out/second-3") for name in names(tmp_path, place)})
        == 3
    )


def test_it_must_not_have_the_names_of_the_first(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same secret and policy name with another k: one id would stand for two sets of rows."""
    assert run() == 0
    assert run("--second-release", k=4) == 2
    assert "same ids with other rows" in capsys.readouterr().err
    assert not (tmp_path / "out" / "second-2").exists()


def test_it_needs_a_first_one(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """An unused output, and a place that is not on this machine."""
    assert run("--second-release") == 2
    assert "holds no release" in capsys.readouterr().err
    assert run("--second-release", "--output", "gs://bucket/out") == 2
    assert "local --output" in capsys.readouterr().err


def test_it_takes_no_cohorts_of_another_run(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same people in the same cohorts, published twice, could be linked from one release to the other."""
    assert run() == 0
    assert run("--second-release", "--continue", str(tmp_path / "out"), name="other") == 2
    assert "leave --continue out" in capsys.readouterr().err
    assert not (tmp_path / "out" / "second-2").exists()


def test_a_stream_is_never_released_a_second_time(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The flag is known and refused, with what to do instead."""
    given = ["--policy", "p.yaml", "--source", str(tmp_path), "--output", str(tmp_path / "out")]
    assert cli.main(["stream", *given, "--second-release"]) == 2
    assert "not for a stream" in capsys.readouterr().err
