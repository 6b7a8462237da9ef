"""What a stream's terminal tells on a cluster, and what it leaves behind: few files, a free directory, no rubbish."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.run_records.run_directory import lock_directory
from tests.flink.stream_runs import StreamRun, accounts, policy_text, wait_for
from tests.small_feeds import HOUR, START, hourly, row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HOURS = 4
FEED = hourly(HOURS, 60, 40)
# No quasi-identifier: of people in lasting cohorts those are as of entry, and a row is out whatever it says of them.
POISON = [row(9000 + number, number % 40, 0.5, amount="much") for number in range(60)]
AHEAD = [row(9100 + number, number, 40_000) for number in range(4)]


def feed(run: StreamRun, first: int, last: int) -> None:
    """Some hours of the feed, in files with a few rows that are wrong in each."""
    for hour in range(first, last):
        rows = [each for each in FEED if int(str(each["when"])[11:13]) == hour]
        for part in range(5):
            at = hour * 5 + part
            run.put([*rows[part::5], *POISON[at * 3 : at * 3 + 3]])


def test_the_terminal_tells_and_nothing_is_left(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines without a terminal; Ctrl-C leaves the job; a savepoint that is not there is refused in our words; the feed
    ends without waiting for gathered rows, which are in few files, each once; the temporary folder is as it was."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    run = StreamRun(cluster, tmp_path, policy_text=policy_text())
    runs.append(run)
    feed(run, 0, 2)
    run.put(AHEAD)
    run.start(quiet=False)
    run.reaches(START + 2 * HOUR - 60_000)
    run.wait_for_releases(1)
    wait_for(lambda: "releases with" in run.said() and "watermark 2024-03-01" in run.said(), "a line")
    run.interrupt()
    assert run.wait() == 130
    assert f"the job {run.name} goes on at http://{cluster.rest}/#/job/{run.job_id()}" in run.said()
    job = run.job()
    assert job is not None
    assert job["state"] == "RUNNING"
    savepoint = run.stop_with_savepoint()

    with pytest.raises((AssertionError, TimeoutError)):
        run.start("--resume", "--savepoint_path=file:/nowhere/savepoint-1", quiet=False)
    assert run.wait() == 3
    assert "there is no savepoint at --savepoint_path" in run.said()

    run.start("--resume", f"--savepoint_path={savepoint}", quiet=False)
    feed(run, 2, HOURS)
    run.wait_for_releases(HOURS - 1)
    began = time.monotonic()
    run.end()
    seconds = time.monotonic() - began
    reasons = accounts(run, [*FEED, *POISON, *AHEAD])
    assert (reasons["bad_value"], reasons["ahead"]) == (60, 4)
    files = list((run.output / "restricted" / "rejected").glob("*.avro"))
    print(f"{reasons.total()} rejected rows in {len(files)} files; the end took {seconds:.0f} s")
    assert len(files) <= 6
    assert list((tmp_path / "tmp").glob("*")) == []


def test_a_job_manager_that_dies_is_said(runs: list[StreamRun], tmp_path: Path) -> None:
    """Exit code 3, the checkpoint to go on from, and the lock is given back."""
    with SessionCluster(tmp_path / "flink", task_managers=1, slots=2) as cluster:
        run = StreamRun(cluster, tmp_path, policy_text=policy_text())
        runs.append(run)
        feed(run, 0, 2)
        run.start(quiet=False)
        run.wait_for_releases(1)
        wait_for(lambda: "1 releases with" in run.said(), "a line that tells of the release")
        os.kill(cluster._pids["job-manager"], signal.SIGKILL)
        began = time.monotonic()
        assert run.wait() == 3
        print(f"said after {time.monotonic() - began:.0f} s")
        assert f"the JobManager at {cluster.rest} has not answered" in run.said()
        assert "/chk-" in run.said()
        with lock_directory(str(run.output / "restricted")):
            pass
        assert (run.output / "restricted" / "run.json").exists()
