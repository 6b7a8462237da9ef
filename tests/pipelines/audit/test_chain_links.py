"""What one run of a chain left is what the next one began with: link by link, on folders of a few files."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanonflow.pipelines.audit import chain as judged
from kanonflow.pipelines.audit.chain import ChainedRun
from kanonflow.pipelines.audit.read.chain_record import ChainRecord
from kanonflow.pipelines.audit.read.findings import Findings

FIRST, SECOND = ChainRecord(0, True, "e1", False), ChainRecord(1, True, "e1", True)


def run_of(
    folder: Path, record: ChainRecord, *, left: bytes | None = None, came: bytes | None = None
) -> ChainedRun:
    """A run with what is left, and what came, of one partition."""
    (folder / "restricted/carried").mkdir(parents=True)
    (folder / "restricted/cohorts/p").mkdir(parents=True)
    (folder / "release").mkdir()
    if left is not None:
        (folder / "restricted/carried/p.state").write_bytes(left)
    if came is not None:
        (folder / "restricted/cohorts/p" / judged.CAME).write_bytes(came)
    return ChainedRun(folder.name, folder, record)


def linked(before: ChainedRun, after: ChainedRun) -> list[str]:
    """What is found of two runs, one after the other."""
    findings = Findings()
    judged._judge_link(before, after, findings)
    return [message.split(": ")[1] for message in findings.messages()]


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (FIRST, SECOND, None),
        (ChainRecord(None, False, "e1", False), ChainRecord(1, True, "e1", True), None),
        (FIRST, ChainRecord(None, True, "e1", True), None),
        (FIRST, ChainRecord(2, True, "e1", True), "places in the chain that do not follow each other (0, 2)"),
        (FIRST, ChainRecord(0, True, "e1", True), "places in the chain that do not follow each other (0, 0)"),
        (FIRST, ChainRecord(1, True, "e2", True), "another epoch"),
        (FIRST, ChainRecord(1, True, "e1", False), "it continues no run"),
    ],
)
def test_records_follow_each_other(
    one: ChainRecord, other: ChainRecord, message: str | None, tmp_path: Path
) -> None:
    """By place, epoch, and that it continues one."""
    found = linked(run_of(tmp_path / "a", one), run_of(tmp_path / "b", other))
    assert found == ([] if message is None else [message])


@pytest.mark.parametrize(
    ("left", "came", "fine"),
    [(b"x", b"x", True), (None, None, True), (b"x", b"y", False), (b"x", None, False), (None, b"x", False)],
)
def test_what_was_left_came(left: bytes | None, came: bytes | None, fine: bool, tmp_path: Path) -> None:
    """Byte for byte, of every partition of either."""
    found = linked(run_of(tmp_path / "a", FIRST, left=left), run_of(tmp_path / "b", SECOND, came=came))
    assert found == (
        [] if fine else ["what 1 partitions began with is not what was left (0 rows more or fewer)"]
    )


@pytest.mark.parametrize(
    ("here", "there", "says", "fine"),
    [
        (("a", "b"), ("a", "b"), 2, True),
        (("a", "b"), ("a", "b", "c"), 2, True),
        ((), ("c",), 0, True),
        (("a", "b"), ("a",), 1, False),
        (("a", "b"), ("a", "x", "c"), 2, False),
        (("a", "b"), ("a", "b", "c"), 1, False),
        (("a",), (), 0, False),
    ],
)
def test_cohorts_go_on(
    here: tuple[str, ...],
    there: tuple[str, ...],
    says: int,
    fine: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first segments are those that were left, by their chains, and the run says how many these were."""
    before, after = run_of(tmp_path / "a", FIRST), run_of(tmp_path / "b", SECOND)
    chains = {before.folder: {"p": here} if here else {}, after.folder: {"p": there} if there else {}}
    monkeypatch.setattr(judged, "segment_chains", chains.__getitem__)
    if says:
        (after.folder / "restricted/cohorts/p" / judged.CONTINUED).write_text(f'{{"segments": {says}}}')
    assert linked(before, after) == (
        [] if fine else ["the cohorts of 1 partitions are not those that were left"]
    )


def test_an_id_of_two_runs_is_shared(tmp_path: Path) -> None:
    """And one of a single run is not."""
    runs = [run_of(tmp_path / "a", FIRST), run_of(tmp_path / "b", SECOND)]
    for run, names in zip(runs, (("r1", "r2"), ("r2", "r3")), strict=True):
        for name in names:
            (run.folder / "release" / f"{name}.avro").touch()
    assert judged._shared_releases(runs) == ["r2"]
