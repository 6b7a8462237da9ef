"""Does the audit find that what is out leaves too few people to who knows more, by whose the rows are alone?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kanonflow.transforms.protections import lasting
from kanonflow.transforms.protections.intake import Entered
from kanonflow.transforms.protections.known_otherwise import GoesOut, going_out
from kanonflow.transforms.release.due import Due
from kanonflow.transforms.release.stages import Before
from kanonflow.transforms.roster.known_left import KnownLeft
from tests.pipelines.audit.lasting_runs import POLICY, LastingRun, lines, make_run

CLAUSES = {
    "2 windows with rows, 1 other person's rows": "{known_people: 1, known_windows: {count: 2, drop: true}}",
    "1 row by its window and note": "{known_purchases: {count: 1, of: [note], drop: true}}",
}


def policy(clause: str) -> str:
    return POLICY.replace("cohort_size: 4", f"cohort_size: 8\nagainst: {clause}")


def all_go_out(due: Due, entered: Entered, before: Before) -> GoesOut:
    """The rule switched off."""
    return GoesOut(np.ones(entered.rows.num_rows, dtype=np.bool_), going_out(due, entered, before).after)


@pytest.mark.parametrize("reader", CLAUSES)
@pytest.mark.parametrize("waiting", [False, True])
def test_what_was_dropped_for_a_reader_passes_and_what_was_not_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, *, waiting: bool
) -> None:
    """Also of a run that goes on; rows that were rejected for good are in the books."""
    stop = 5 if waiting else None
    good = make_run(tmp_path / "good", lines(), policy=policy(CLAUSES[reader]), stop_after=stop)
    report = good.judged(waiting=waiting)
    assert report.passed, report.failures
    assert report.figures.left_to == reader
    assert any(reader in line for line in report.checked)
    assert "known_otherwise" in " ".join(
        p.read_bytes().decode("latin-1") for p in (good.out / "restricted/rejected").glob("**/*.avro")
    )
    monkeypatch.setattr(lasting, "going_out", all_go_out)
    bad = make_run(tmp_path / "bad", lines(), policy=policy(CLAUSES[reader]), stop_after=stop)
    (failure,) = bad.judged(waiting=waiting).failures
    assert f"with which who knows {reader} is left with fewer than" in failure
    assert bad.judged(waiting=waiting, secret=False).figures.left_to is None


MEASURED = "{known_windows: {count: 2}}"


@pytest.mark.thorough
@pytest.mark.parametrize("late", [False, True])
def test_whom_a_measured_clause_leaves_is_counted_again_and_a_wrong_metric_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    """What metrics tell is the audit's count, and where rows came late no less than it."""

    def made(name: str) -> LastingRun:
        comes_late = (lambda line: line.endswith("s1")) if late else (lambda line: False)
        return make_run(tmp_path / name, lines(), policy=policy(MEASURED), late=comes_late)

    report = made("good").judged()
    assert report.passed, report.failures
    below, people = report.figures.left_below, report.figures.left_counted
    assert below is not None
    assert people is not None
    assert 0 < below < people <= 48
    honest = KnownLeft.count.fget  # type: ignore[attr-defined]
    for more in () if late else (-1, 1):
        forged = property(lambda left, more=more: honest(left)._replace(below=honest(left).below + more))
        monkeypatch.setattr(KnownLeft, "count", forged)
        (failure,) = made(f"forged {more}").judged().failures
        assert f"tell that {below + more} of {people} people" in failure
        assert f"it is {below} of {people}" in failure
