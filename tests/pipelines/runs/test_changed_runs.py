"""A run that resumes where something is not what it was: refused by name, or stopped at the first difference."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.commands.demo_feed import FeedShape, write_feed
from kanonflow.pipelines.runs import anonymize_files
from kanonflow.solvers.problem.budget import Budget
from kanonflow.transforms.protections import afresh
from tests.pipelines.runs.test_resume import POLICY, arguments, files
from tests.privacy.test_retries import Failure, after_the_solve

pytestmark = pytest.mark.thorough


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small feed of six days, a policy and a secret."""
    write_feed(FeedShape(rows=600, days=6, seed=3), tmp_path)
    (tmp_path / "p.yaml").write_text(POLICY + "cohort: window\n")
    (tmp_path / "secret").write_bytes(bytes(range(100, 140)))
    (tmp_path / "secret").chmod(0o600)
    return tmp_path


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A run that fails at its fourth release; what it left."""
    with monkeypatch.context() as patch:
        after_the_solve(Failure(4), patch)
        assert cli.main(arguments(folder, "out")) == cli.RUN_FAILED
    return releases(folder)


def releases(folder: Path) -> dict[str, bytes]:
    """What is published."""
    return {name: data for name, data in files(folder / "out").items() if name.startswith("release/")}


def change(path: Path) -> None:
    """Another digit in the middle: same name, same size."""
    text = path.read_text()
    at = next(place for place in range(len(text) // 2, len(text)) if text[place].isdigit())
    path.write_text(text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :])


def test_a_changed_input_of_the_same_name_and_size_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the file's name, before anything is read; put back, the run goes on."""
    before = interrupted(folder, monkeypatch)
    path = folder / "transactions.csv"
    text = path.read_text()
    change(path)
    assert os.path.getsize(path) == len(text.encode())
    assert cli.main([*arguments(folder, "out"), "--resume"]) == cli.BAD_ARGUMENTS
    assert "the input transactions.csv has other content" in capsys.readouterr().err
    assert releases(folder) == before
    path.write_text(text)
    assert cli.main([*arguments(folder, "out"), "--resume"]) == cli.DONE
    assert before.items() < releases(folder).items()


def test_a_resumed_run_that_comes_to_another_release_stops(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if a package searched otherwise: exit code 3 at the first difference, with the release's name; nothing more is
    published, though later windows have no release yet."""
    before = interrupted(folder, monkeypatch)
    assert len(before) == 3
    with monkeypatch.context() as patch:
        patch.setattr(afresh, "Budget", lambda *_: Budget(0.0))
        assert cli.main([*arguments(folder, "out"), "--resume"]) == cli.RUN_FAILED
    told = capsys.readouterr().err
    assert "is published, and this run comes to something else" in told
    assert any(name.removeprefix("release/").removesuffix(".avro") in told for name in before)
    assert releases(folder) == before
    assert cli.main([*arguments(folder, "out"), "--resume"]) == cli.DONE
    assert before.items() < releases(folder).items()


def test_a_deadline_without_its_record_is_not_guessed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody removed what the releases were published from: the run stops, and says why."""
    flags = [*arguments(folder, "out"), "--deadline-ms", "60000"]
    with monkeypatch.context() as patch:
        after_the_solve(Failure(4), patch)
        assert cli.main(flags) == cli.RUN_FAILED
    before = releases(folder)
    records = sorted((folder / "out" / "restricted" / "solutions").iterdir())
    assert len(records) == len(before) == 3
    kept = {path: path.read_bytes() for path in records}
    for path in records:
        path.unlink()
    capsys.readouterr()
    assert cli.main([*flags, "--resume"]) == cli.RUN_FAILED
    assert "made under --deadline-ms" in capsys.readouterr().err
    first, second, *_ = kept
    first.write_bytes(kept[second])
    assert cli.main([*flags, "--resume"]) == cli.RUN_FAILED
    assert releases(folder) == before
    for path, data in kept.items():
        path.write_bytes(data)
    assert cli.main([*flags, "--resume"]) == cli.DONE


def test_an_input_that_changes_while_it_is_read_fails_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which rows were released nobody can say: exit code 3, with the file's name."""
    run = anonymize_files.run_to_end

    def changing(*positional: Any) -> dict[str, int]:
        counters = run(*positional)
        change(folder / "transactions.csv")
        return counters

    monkeypatch.setattr(anonymize_files, "run_to_end", changing)
    assert cli.main(arguments(folder, "out")) == cli.RUN_FAILED
    assert "transactions.csv changed while the run read it" in capsys.readouterr().err


def test_what_a_run_writes_down_is_its_owners(folder: Path) -> None:
    """Slots, solutions and run.json: nobody else may read them."""
    assert cli.main([*arguments(folder, "out"), "--deadline-ms", "60000"]) == cli.DONE
    restricted = folder / "out" / "restricted"
    for place in ("slots", "solutions"):
        below = [restricted / place, *(restricted / place).rglob("*")]
        assert {path.stat().st_mode & 0o077 for path in below} == {0}
        assert any(path.is_file() for path in below)
    assert set(json.loads((restricted / "run.json").read_text())["versions"]) == {"numpy", "numba", "pyarrow"}
