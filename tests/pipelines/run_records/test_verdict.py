"""A verdict is told of the files that were judged, and of no others."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kanonflow.pipelines.audit.report import AuditFigures, AuditReport
from kanonflow.pipelines.report.told_verdict import DIGEST_COMMAND
from kanonflow.pipelines.run_records.verdict import (
    Verdict,
    VerdictError,
    judged_again,
    judged_files,
    keep_verdict,
    read_report,
    read_verdict,
    stands,
    verdict_of,
)
from kanonflow.schemas.policy_file import parse_policy

POLICY = {"version": 1, "k": 3, "name": "mine", "fields": {"age": {"role": "quasi", "type": "numeric"}}}
SECRET_WORDS = "a failure that names restricted things"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A directory as runs leave it."""
    root = tmp_path / "out"
    files = ("release/b.avro", "release/a.avro", "metrics/a.avro", "restricted/metrics/a.avro")
    for name in (*files, "restricted/rejected/r.avro", "restricted/beam.log"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


def keep(out: Path, failures: tuple[str, ...] = ()) -> Verdict:
    """As verify does."""
    judged = judged_files(out)
    report = AuditReport(failures, AuditFigures(k=3, releases=2, rows=7, records=12345))
    flags = {"waiting": False, "matching_records": True, "secret": False}
    policy = parse_policy(POLICY, "", "p")
    verdict = verdict_of(report, policy, judged, version="9.9", now_ms=1_700_000_000_999, **flags)
    keep_verdict(out, verdict, report, judged)
    return verdict


def test_a_verdict_is_read_as_it_was_kept(out: Path) -> None:
    """All of it; the report of the audit stays inside, where only its owner reads it."""
    verdict = keep(out, (SECRET_WORDS,))
    assert read_verdict(out) == verdict
    assert (verdict.passed, verdict.judged_at) == (False, "2023-11-14T22:13:20+00:00")
    assert stands(verdict, judged_files(out))
    report = read_report(out, judged_files(out))
    assert report is not None
    assert report["failures"] == [SECRET_WORDS]
    assert stat.S_IMODE((out / "restricted/verdict.json").stat().st_mode) == 0o600
    public = (out / "verdict.json").read_text()
    assert SECRET_WORDS not in public
    assert "12345" not in public
    assert json.loads(public).keys() == set(Verdict.__dataclass_fields__)
    assert not [name for name in os.listdir(out) if name.endswith(".tmp")]


def test_without_a_verdict_no_file_is_read_for_it(out: Path) -> None:
    """A run's end does not wait for digests of what it wrote."""
    assert judged_again(out) is None
    assert not stands(None, judged_files(out))
    verdict = keep(out)
    assert judged_again(out) == judged_files(out)
    assert not stands(verdict, None)


def _change(out: Path) -> None:
    (out / "release/a.avro").write_bytes(b"release/A.avro")


def _add(out: Path) -> None:
    (out / "release/c.avro").write_bytes(b"")


def _take(out: Path) -> None:
    (out / "metrics/a.avro").unlink()


def _swap(out: Path) -> None:
    one, other = out / "release/a.avro", out / "release/b.avro"
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _hide(out: Path) -> None:
    (out / "release/.hidden").write_bytes(b"")


def _link(out: Path) -> None:
    (out / "release/a.avro").rename(out / "elsewhere")
    (out / "release/a.avro").symlink_to(out / "elsewhere")


def _deep(out: Path) -> None:
    (out / "release/more").mkdir()
    (out / "release/more/x.avro").write_bytes(b"")


def _pipe(out: Path) -> None:
    os.mkfifo(out / "release/pipe")


def _socket(out: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(out / "release/socket"))


def _strange_link(out: Path) -> None:
    os.symlink(b"\xff", os.fsencode(out / "release/x"))


def _strange_name(out: Path) -> None:
    Path(os.fsdecode(os.fsencode(out / "release") + b"/\xff")).write_bytes(b"")


@pytest.mark.parametrize(
    "tamper",
    [_change, _add, _take, _swap, _hide, _link, _deep, _pipe, _socket, _strange_link, _strange_name],
)
def test_what_was_tampered_with_is_not_certified(tamper: Callable[[Path], None], out: Path) -> None:
    """The public files; the report inside is not told of others either."""
    verdict = keep(out)
    tamper(out)
    assert not stands(verdict, judged_files(out))
    assert read_report(out, judged_files(out)) is None


def test_restricted_files_count_for_the_report_only(out: Path) -> None:
    """Who has the releases cannot see them; what a run writes beside them to no one's judgement counts for nothing."""
    verdict = keep(out)
    (out / "restricted/beam.log").write_bytes(b"more")
    (out / "certificate.html").write_bytes(b"page")
    assert read_report(out, judged_files(out)) is not None
    (out / "restricted/rejected/r.avro").write_bytes(b"others")
    assert stands(verdict, judged_files(out))
    assert read_report(out, judged_files(out)) is None


def test_a_restricted_file_that_fails_leaves_no_other_public_verdict(out: Path) -> None:
    """What others are told is of the audit that was last, whatever becomes of the report inside."""
    keep(out)
    (out / "restricted/.verdict.json.tmp").mkdir()
    with pytest.raises(VerdictError, match="cannot be kept"):
        keep(out, (SECRET_WORDS,))
    told = read_verdict(out)
    assert told is not None
    assert not told.passed


@pytest.mark.parametrize("metrics", [True, False])
def test_anybody_can_work_the_digest_out(metrics: bool, out: Path) -> None:
    """With tools of a system, as the certificate says; in the order of bytes, whatever the locale."""
    for name in ("Z.avro", "ä.avro", "a-b.avro", "a b.avro"):
        (out / "release" / name).write_bytes(name.encode())
    command = DIGEST_COMMAND.replace("xargs", "xargs -d '\\n'")
    if not metrics:
        shutil.rmtree(out / "metrics")
        command = command.replace("release metrics", "release")
    ran = subprocess.run(["sh", "-c", command], cwd=out, capture_output=True, text=True, check=True)
    assert ran.stdout.split()[0] == judged_files(out).digest


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"\xff", b'{"passed": true}', b'{"passed": "yes"}'],
)
def test_a_damaged_verdict_is_none(content: bytes, out: Path) -> None:
    """Nor is one whose members have other types, which a page would print."""
    keep(out)
    (out / "verdict.json").write_bytes(content)
    assert read_verdict(out) is None
    whole = vars(keep(out))
    for name, value in (("k", "<b>3</b>"), ("k", True), ("digest", None), ("cohort", 3), ("passed", 1)):
        (out / "verdict.json").write_text(json.dumps(whole | {name: value}))
        assert read_verdict(out) is None, name


def test_files_that_changed_meanwhile_have_no_verdict(out: Path) -> None:
    """A stream goes on while it is audited: what was read is not known."""
    verdict, before = keep(out), judged_files(out)
    (out / "verdict.json").unlink()
    _add(out)
    report = AuditReport((), AuditFigures(k=3))
    with pytest.raises(VerdictError, match="changed while"):
        keep_verdict(out, verdict, report, before)
    assert not (out / "verdict.json").exists()


def test_a_directory_that_cannot_be_written_to_is_told(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name and reason."""

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(VerdictError, match="Permission denied"):
        keep(out)
