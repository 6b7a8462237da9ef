"""What commands make of a report: anonymize writes it and never fails by it, verify adds its verdict."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kanonflow.pipelines import cli
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.report import after_audit, after_run
from kanonflow.pipelines.run_records.foreign_files import foreign_files
from kanonflow.pipelines.runs import anonymize_files
from kanonflow.schemas.errors import InputError
from tests.page_reading import read_page
from tests.pass_through import PassThrough
from tests.pipelines.small_runs import people

POLICY = """\
version: 1
name: small
k: 3
max_rejected: 1
fields:
  age: {role: quasi, type: numeric, as: int, domain: [0, 120]}
  amount: {role: sensitive, accept_risk: a test}
"""
CSV = "age,amount\n30,1\n31,2\n32,3\nold,4\n"

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """``kanonflow anonymize`` of three rows into tmp_path/out, with a stand-in for what solves."""
    monkeypatch.setattr(anonymize_files, "kanonymize", lambda bound, secret, **_: PassThrough(bound))
    (tmp_path / "p.yaml").write_text(POLICY)
    (tmp_path / "in.csv").write_text(CSV)

    def anonymize(*more: str) -> int:
        files = {"policy": "p.yaml", "input": "in.csv", "output": "out"}
        flags = [part for flag, name in files.items() for part in (f"--{flag}", str(tmp_path / name))]
        return cli.main(["anonymize", *flags, *more])

    return anonymize


def test_anonymize_writes_both_pages(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says where; the report is its owner's; a run that resumes finds nothing strange in them."""
    assert run() == 0
    assert "restricted/report.html" in capsys.readouterr().out
    out = tmp_path / "out"
    inside = out / "restricted/report.html"
    assert stat.S_IMODE(inside.stat().st_mode) == 0o600
    assert stat.S_IMODE((out / "restricted/summary.json").stat().st_mode) == 0o600
    page = read_page(inside.read_text())
    ledger = page.tables["ledger"].records()
    assert ledger["rows read"] == ["4", "100.00%"]
    assert ledger["rejected: bad_value"] == ["1", "25.00%"]
    assert page.tables["accepted"].rows == [["amount", "a test"]]
    assert page.tables["settings"].records()["k"] == ["3"]
    assert "Not audited yet" in read_page((out / "certificate.html").read_text()).text
    (out / "verdict.json").write_text("{}")
    assert foreign_files(str(out)) == ()
    assert run("--resume") == 0
    assert "also holds" not in capsys.readouterr().err


def test_json_stays_json_and_quiet_stays_quiet(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pages are there all the same."""
    assert run("--json", "--quiet") == 0
    told, noise = capsys.readouterr()
    assert json.loads(told)["rows_read"] == 4
    assert "report" not in noise
    assert (tmp_path / "out/certificate.html").exists()


def test_without_the_extra_one_line_says_how_to_get_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run is as good as with it; the command itself ends with 2."""
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert run() == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "report" in line)
    assert "pip install 'kanonflow[report]'" in line
    assert not (tmp_path / "out/certificate.html").exists()
    assert cli.main(["report", str(tmp_path / "out")]) == 2
    assert "jinja2: pip install" in capsys.readouterr().err
    monkeypatch.undo()
    assert cli.main(["report", str(tmp_path / "out")]) == 0


@pytest.mark.parametrize(
    "error", [ValueError("somebody's 31"), InputError("somebody's 31"), OSError(28, "full")]
)
def test_a_page_that_fails_fails_no_run(
    error: Exception, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, without what the error says: it may hold values."""

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(after_run, "write_report", fail)
    assert run() == 0
    told = "".join(capsys.readouterr())
    assert f"no report was written ({type(error).__name__})" in told
    assert "somebody" not in told


def test_a_run_that_is_over_stays_so(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its table is told before its pages are made; one line says why there are none, and how to get them."""
    before: list[str] = []

    def fail(*_: Any) -> None:
        before.append(capsys.readouterr().out)
        raise KeyboardInterrupt

    monkeypatch.setattr(after_run, "write_report", fail)
    assert run() == 0
    assert "rows read" in before[0]
    told, noise = capsys.readouterr()
    assert told.startswith("no report was written: interrupted; kanonflow report ")
    assert "--resume" not in noise


def test_a_remote_output_gets_no_page() -> None:
    """Nor a line about it."""
    assert after_run.report_run("gs://bucket/out", None, {}, 0) == ""  # type: ignore[arg-type]


@pytest.fixture
def audited(tmp_path: Path) -> tuple[list[str], Path]:
    """The flags of ``verify`` on a run that passes, and its directory."""
    policy, inputs, out = people().write(tmp_path)
    for path in (out / "restricted/metrics").iterdir():
        path.unlink()
    return ["verify", "--policy", str(policy), "--input", inputs[0], "--release", str(out)], out


def test_verify_adds_its_verdict(audited: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    """To both pages; what is printed of the audit is what it was."""
    flags, out = audited
    assert cli.main([*flags, "--json"]) == 0
    told, noise = capsys.readouterr()
    assert json.loads(told)["passed"]
    assert "told by" in noise
    inside = read_page((out / "restricted/report.html").read_text())
    public = read_page((out / "certificate.html").read_text())
    for page in (inside, public):
        assert "The audit passed in" in page.text
        assert page.tables["verdict"].records()["rows read in them"] == ["9"]
    figures = json.loads(told)["figures"]
    assert inside.tables["audit"].records()["records"] == [f"{figures['records']:,}"]
    assert "audit" not in public.tables
    assert inside.tables["not_checked"].rows
    # The audit judges a directory with its verdict as it did without.
    assert cli.main(flags) == 0


def test_a_verdict_that_fails_replaces_one_that_passed(audited: tuple[list[str], Path]) -> None:
    """And a directory that was tampered with is not certified, before anybody audits it again."""
    flags, out = audited
    assert cli.main(flags) == 0
    path = out / "release/day1.avro"
    path.write_bytes((out / "release/day2.avro").read_bytes())
    assert cli.main(["report", str(out)]) == 0
    assert "Not audited as it is now" in read_page((out / "certificate.html").read_text()).text
    assert cli.main(flags) == 1
    for name in ("certificate.html", "restricted/report.html"):
        assert "The audit FAILED on" in read_page((out / name).read_text()).text
    found = json.loads((out / "restricted/verdict.json").read_text())["report"]["failures"]
    assert read_page((out / "restricted/report.html").read_text()).text.count(found[0]) == 1
    assert found[0] not in (out / "certificate.html").read_text()


def test_a_stream_that_goes_on_is_judged_so_far(audited: tuple[list[str], Path]) -> None:
    """--waiting stands in the verdict."""
    flags, out = audited
    assert cli.main([*flags, "--waiting"]) == 0
    assert "over what was released so far" in (out / "certificate.html").read_text()


@pytest.mark.parametrize("fails", ["judged_files", "keep_verdict", "write_report"])
@pytest.mark.parametrize("error", [OSError(13, "somebody"), ValueError("somebody"), KeyboardInterrupt()])
def test_the_audits_answer_stands_whatever_becomes_of_its_verdict(
    error: BaseException,
    fails: str,
    audited: tuple[list[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code and output are the audit's; one line says what is missing, without what the error says."""
    flags, out = audited

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(after_audit, fails, fail)
    if (fails, type(error)) == ("judged_files", KeyboardInterrupt):
        assert cli.main(flags) == 130, "nothing was audited yet"
        return
    assert cli.main(flags) == 0
    told, noise = capsys.readouterr()
    assert told.startswith("audit passed")
    assert "was not" in noise or "no report was written" in noise
    assert "somebody" not in noise
    assert not (out / "certificate.html").exists()


TOLD = ("verdict.json", "certificate.html", "restricted/verdict.json", "restricted/report.html")


def test_nothing_of_an_earlier_audit_stays_where_the_verdict_cannot_be_kept(
    audited: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk does the same."""
    flags, out = audited
    assert cli.main(flags) == 0
    assert all((out / name).exists() for name in TOLD)
    (out / "release/day1.avro").write_bytes((out / "release/day2.avro").read_bytes())
    (out / ".verdict.json.tmp").mkdir()
    capsys.readouterr()
    assert cli.main(flags) == 1
    assert "the verdict was not kept: the verdict cannot be kept in" in capsys.readouterr().err
    assert [name for name in TOLD if (out / name).exists()] == []


def test_nothing_of_an_earlier_audit_stays_where_one_breaks_off(audited: tuple[list[str], Path]) -> None:
    """Files that it cannot read."""
    flags, out = audited
    assert cli.main(flags) == 0
    (out / "restricted/metrics/day1.avro").write_bytes(b"Obj\x01no")
    assert cli.main(flags) == 2
    assert [name for name in TOLD if (out / name).exists()] == []


def test_nothing_of_an_earlier_audit_stays_where_files_change_meanwhile(
    audited: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stream that goes on."""
    flags, out = audited
    assert cli.main(flags) == 0

    def changing(self: AuditReport) -> str:
        (out / "release/more.avro").write_bytes(b"")
        return "told"

    monkeypatch.setattr(AuditReport, "render", changing)
    assert cli.main(flags) == 0
    assert "files changed while they were audited" in capsys.readouterr().err
    assert [name for name in TOLD if (out / name).exists()] == []


def test_where_there_are_no_releases_nothing_is_taken_away(
    audited: tuple[list[str], Path], tmp_path: Path
) -> None:
    """A directory that was given by mistake keeps what others call their certificate."""
    flags, _ = audited
    other = tmp_path / "other"
    other.mkdir()
    (other / "certificate.html").write_text("of a course")
    assert cli.main([*flags[:-1], str(other)]) == 2
    assert (other / "certificate.html").read_text() == "of a course"


def test_what_of_an_earlier_audit_cannot_be_taken_away_is_told(
    audited: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An auditor who may only read."""
    flags, _ = audited
    assert cli.main(flags) == 0

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    capsys.readouterr()
    assert cli.main(flags) == 0
    assert f"; of an earlier audit, and not of this one: {', '.join(TOLD)}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["pipe", "pipe.avro", ".avro"])
def test_a_pipe_among_the_releases_fails_the_audit_and_stops_nothing(
    name: str, audited: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody writes into it."""
    flags, out = audited
    os.mkfifo(out / "release" / name)
    assert cli.main(flags) == 1
    told, noise = capsys.readouterr()
    assert "audit FAILED" in told
    assert "the verdict is kept" in noise


def test_pages_are_not_made_of_what_could_stop_them(
    audited: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A link to a pipe waits as long as the pipe."""
    flags, out = audited
    os.mkfifo(out.parent / "pipe")
    (out / "release/x.avro").symlink_to(out.parent / "pipe")
    assert cli.main(flags) == 1
    told, noise = capsys.readouterr()
    assert "audit FAILED" in told
    assert "no report was written: 1 entries of what was judged are no files" in noise


def test_a_link_to_a_strange_name_fails_the_audit(
    audited: tuple[list[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """As it did before verdicts were kept."""
    flags, out = audited
    os.symlink(b"\xff", os.fsencode(out / "release/x"))
    assert cli.main(flags) == 1
    told, noise = capsys.readouterr()
    assert "audit FAILED" in told
    assert "the verdict is kept" in noise


def test_a_place_of_somebody_else_is_left_alone(
    audited: tuple[list[str], Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An auditor who may only read is told so, and the audit is as good."""
    flags, out = audited

    opens = os.open

    def refuse(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "Permission denied")
        return opens(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", refuse)
    assert cli.main(flags) == 0
    monkeypatch.undo()
    assert "cannot be kept" in capsys.readouterr().err
    assert not (out / "verdict.json").exists()


def test_input_wants_the_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Queries are asked of rows as the policy reads them."""
    assert cli.main(["report", str(tmp_path), "--input", "x.csv"]) == 2
    assert "--policy" in capsys.readouterr().err
