"""A run that loses its input fails at its end, and what it has done stays: with the anonymizer itself."""

from __future__ import annotations

from pathlib import Path

import fastavro
import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.runs import anonymize_files
from kanonflow.pipelines.runs.first_look import Measured
from tests.pipelines.test_mistakes import POLICY, RUN, VERIFY, rows

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def no_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run says before it begins is test_mistakes_in_data.py's; here it is too late for that."""
    monkeypatch.setattr(anonymize_files, "refuse_misfits", lambda *_: {})
    monkeypatch.setattr(anonymize_files, "measure_payload", lambda *_: Measured(""))


def records(folder: Path) -> list[dict[str, object]]:
    """All records of the Avro files in a folder."""
    found: list[dict[str, object]] = []
    for path in sorted(folder.glob("*.avro")):
        with path.open("rb") as stream:
            found += [record for record in fastavro.reader(stream) if isinstance(record, dict)]
    return found


def test_nothing_released_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A quarter of the times are German: exit 3; the others are out, the audit passes, every rejected row is kept."""
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(POLICY)
    Path("in.csv").write_text(rows(80, 20, when="01.03.2024 10:00"))
    assert cli.main(RUN.split()) == 3
    err = capsys.readouterr().err
    assert "20 of 80 rows read (25.0%) were rejected because they do not fit" in err
    assert "bad_value in when: 20 rows (25.0%); expected a time as YYYY-MM-DD HH:MM:SS" in err
    released, rejected = records(Path("out/release")), records(Path("out/restricted/rejected"))
    assert (len(released), len(rejected)) == (60, 20)
    assert {(each["reason"], each["field"]) for each in rejected} == {("bad_value", "when")}
    assert cli.main(VERIFY.split()) == 0
    # Another limit is the same run: it says how a run ends, and nothing of what is released.
    Path("p.yaml").write_text(POLICY + "max_rejected: 0.3\n")
    assert cli.main([*RUN.split(), "--resume"]) == 0
    assert len(records(Path("out/release"))) == 60


def test_who_all_wait_for_others_are_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cohorts that last, and one person: rows in, none out, and the reason."""
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(POLICY.replace("cohort: window", "cohort: lasting\nmax_delay: 2d"))
    Path("in.csv").write_text(rows(10, 10, who="p1"))
    assert cli.main(RUN.split()) == 3
    err = capsys.readouterr().err
    assert "none of the 10 rows read was released: awaits_intake 10 (too few people" in err
    assert cli.main(VERIFY.split()) == 1
    assert "nothing was released, so there is nothing to audit" in capsys.readouterr().out
