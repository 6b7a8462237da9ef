"""``kanonflow forget``: frozen values go, places and boxes stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from kanonflow.pipelines.cli import main
from tests.nightly import as_another_run
from tests.pipelines.runs.test_continue import POLICY, anonymize, published, write_feed

pytestmark = pytest.mark.thorough


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A run over one night."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "secret").write_bytes(bytes(range(7, 47)))
    (tmp_path / "other").write_bytes(bytes(range(9, 49)))
    for name in ("secret", "other"):
        (tmp_path / name).chmod(0o600)
    write_feed(tmp_path / "in", 2)
    assert anonymize(tmp_path, "00.csv", tmp_path / "out") == 0
    return tmp_path


def people(output: Path) -> list[dict[str, Any]]:
    """Everybody in the cohorts, in the order of files."""
    found: list[dict[str, Any]] = []
    for path in sorted((output / "restricted" / "cohorts").glob("*/*.people.avro")):
        with path.open("rb") as file:
            found += list(fastavro.reader(file))  # type: ignore[arg-type]
    return found


def boxes(output: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(output.glob("restricted/cohorts/*/*.boxes.avro"))]


def forget(place: Path, *names: str, secret: str = "secret") -> int:
    (place / "names").write_text("".join(f"{name}\n" for name in names))
    told = ["--individual-file", str(place / "names"), "--secret-file", str(place / secret)]
    return main(["forget", str(place / "out"), *told])


def test_the_values_go_and_the_place_stays(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of those named, once and again; of nobody else. No name is shown, and no file is left behind."""
    before, corners = people(place / "out"), boxes(place / "out")
    capsys.readouterr()
    for _ in range(2):
        assert forget(place, "p3", "p4", "nobody", "p3") == 0
        shown = capsys.readouterr()
        assert shown.out == "2 people forgotten, 1 not found\n"
        after = people(place / "out")
        gone = [each for each in after if each["forgotten"]]
        assert len(gone) == 2
        assert all(each[name] is None for each in gone for name in ("age", "job", "height"))
        places = [[(each["person"], each["cohort"]) for each in listed] for listed in (before, after)]
        assert places[0] == places[1]
        assert [
            one for one, two in zip(before, after, strict=True) if one != two and not two["forgotten"]
        ] == []
        assert boxes(place / "out") == corners
    files = list((place / "out" / "restricted" / "cohorts").rglob("*"))
    assert not [path for path in files if path.name.endswith(".tmp")]
    assert {path.stat().st_mode & 0o777 for path in files if path.is_file()} == {0o600}


def test_who_is_forgotten_is_still_known_to_a_run_that_continues(place: Path) -> None:
    """The boxes of the next night are what they would have been, and a retry of the first finds its segment."""
    untouched = as_another_run(place / "out", place / "untouched")
    assert anonymize(place, "01.csv", place / "before", "--continue", str(untouched)) == 0
    assert forget(place, "p3", "p4") == 0
    assert anonymize(place, "00.csv", place / "out", "--resume") == 0
    assert anonymize(place, "01.csv", place / "after", "--continue", str(place / "out")) == 0
    assert published(place / "before") == published(place / "after")
    assert sum(each["forgotten"] for each in people(place / "out")) == 2


def test_another_secret_would_find_nobody_and_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As is a directory without cohorts, and a file that is not there."""
    assert forget(place, "p3", secret="other") == 2
    assert "not the run's" in capsys.readouterr().err
    assert main(["forget", str(place / "in"), "--individual-file", str(place / "names")]) == 2
    secret = ["--secret-file", str(place / "secret")]
    assert main(["forget", str(place / "out"), "--individual-file", str(place / "none"), *secret]) == 2
    assert json.loads((place / "out" / "restricted" / "run.json").read_text())["epoch"]
    assert not any(each["forgotten"] for each in people(place / "out"))
