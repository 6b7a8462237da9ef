"""The audit of a run that goes on: what may wait is counted, what must be out is missed."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import fastavro
import numpy as np
import pytest

from kanonflow.pipelines.audit.audit import audit
from kanonflow.pipelines.audit.judge.matching import place
from kanonflow.pipelines.audit.judge.waiting import released_part, with_waiting
from kanonflow.pipelines.audit.report import AuditReport
from kanonflow.pipelines.cli import main
from kanonflow.schemas.avro_schema import metrics_schema
from tests.pass_through import metrics_record
from tests.pipelines.audit.judge.test_candidate_graph import graph_of
from tests.pipelines.small_runs import FIRST, Run, people, ring


def verdict(run: Run, folder: Path, *, waiting: bool = True) -> AuditReport:
    """The audit of a run as written below ``folder``."""
    folder.mkdir()
    return audit(*run.write(folder), waiting=waiting)


def test_rows_that_are_not_out_yet_wait(tmp_path: Path) -> None:
    """After the first day's release the rows of the second, and the late one of the first, wait: three. The strict
    audit, which is the default, misses them."""
    run = people()
    del run.releases["day2"]
    report = verdict(run, tmp_path / "waiting")
    assert report.failures == ()
    assert (report.figures.waiting, report.figures.waiting_told) == (3, 0)
    strict = "\n".join(verdict(run, tmp_path / "strict", waiting=False).failures)
    assert "3 payloads of records are missing" in strict
    assert "not a generalization of the original: 0 of 6 released rows and 3 of 9 records" in strict


def test_the_command_asks_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--waiting`` makes the difference between the exit codes 0 and 1; the figure is in the table and the JSON."""
    run = people()
    del run.releases["day2"]
    policy, patterns, out = run.write(tmp_path)
    asked = ["verify", "--policy", str(policy), "--input", patterns[0], "--release", str(out)]
    assert main(asked) == 1
    assert main([*asked, "--waiting"]) == 0
    assert "records that wait" in capsys.readouterr().out
    assert main([*asked, "--waiting", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"]["waiting"] == 3


def test_rows_whose_time_is_over_are_missed(tmp_path: Path) -> None:
    """The second day's release is out, so the rows of the first can come in no later one (max_delay is a day)."""
    run = people()
    del run.releases["day1"]
    found = "\n".join(verdict(run, tmp_path / "run").failures)
    assert "not a generalization of the original: 0 of 3 released rows and" in found


def test_nothing_is_out_yet(tmp_path: Path) -> None:
    """A run that has released nothing has done nothing wrong."""
    for make, count in ((people, 9), (ring, 4)):
        run = make()
        run.releases = {}
        report = verdict(run, tmp_path / make.__name__)
        assert report.failures == ()
        assert report.figures.waiting == count


def test_a_finished_run_has_nobody_waiting(tmp_path: Path) -> None:
    """The looser audit of a complete run gives the figures of the strict one."""
    loose, strict = verdict(people(), tmp_path / "a"), verdict(people(), tmp_path / "b", waiting=False)
    assert loose.failures == strict.failures == ()
    assert loose.figures.waiting == 0
    assert loose.figures.fewest_rows_of_record == strict.figures.fewest_rows_of_record == 2


def test_faults_of_what_is_out_are_found(tmp_path: Path) -> None:
    """While rows wait: a box that misses a member, a payload nobody has, a thin row, rejected rows that never came."""

    def plant(name: str) -> Run:
        run = people()
        del run.releases["day2"]
        day = run.releases["day1"]
        if name == "box":
            day[0]["age"] = {"min": 60, "max": 61, "nulls": False}
        if name == "payload":
            day[0]["ref"] = "r99"
        if name == "thin":
            day[4]["age"] = {"min": 60, "max": 60, "nulls": False}
        if name == "rejected":
            run.rejected.append(("late", {"who": "g"}))
        return run

    expected = {
        "box": "rows have a box that holds no record of their windows",
        "payload": "1 released rows have a payload that the input has not",
        "thin": r"rows may belong to fewer than k = 2 individuals",
        "rejected": "1 rejected rows are not in the input",
    }
    for name, message in expected.items():
        assert message in "\n".join(verdict(plant(name), tmp_path / name).failures), name


def test_metrics_tell_how_many_the_job_keeps(tmp_path: Path) -> None:
    """The last record of each partition counts. More than are missing: rows were lost from one of both books."""
    run = people()
    del run.releases["day2"]
    run.numbers = {}
    policy, patterns, out = run.write(tmp_path)
    day = dt.timedelta(days=1)
    told = [("a", 1, 2, 5), ("a", 2, 3, 1), ("b", 1, 2, 1)]
    for number, (partition, days, release_no, waiting) in enumerate(told):
        record = metrics_record(
            f"m{number}", partition=partition, window_end=FIRST + days * day, release_no=release_no,
            rows_waiting=waiting,
        )  # fmt: skip
        path = out / f"restricted/metrics/m{number}.avro"
        path.touch(mode=0o600)
        with path.open("wb") as stream:
            fastavro.writer(stream, metrics_schema(), [record])
    report = audit(policy, patterns, out, waiting=True)
    assert report.failures == ()
    assert (report.figures.waiting, report.figures.waiting_told) == (3, 2)
    run.lines = run.lines[:7] + run.lines[-1:]
    (tmp_path / "input.csv").write_text("\n".join(run.lines) + "\n")
    short = audit(policy, patterns, out, waiting=True).failures
    assert "the metrics say that 2 rows wait, but 0 are neither released nor rejected" in short


def test_who_waits_is_one_more_group() -> None:
    """Behind all others, with the records that may wait; without it the placement is that of what is out."""
    graph = graph_of(np.array([[True, False], [False, True]]), [1, 2], [2, 2])
    whole = with_waiting(graph, np.array([True, False]), 1)
    assert (whole.indptr.tolist(), whole.columns.tolist()) == ([0, 1, 2, 3], [0, 1, 0])
    assert (whole.row_size.tolist(), whole.pairs) == ([1, 2, 1], 3)
    placement = place(whole)
    assert placement.perfect
    assert released_part(placement).row_left.tolist() == [0, 0]
