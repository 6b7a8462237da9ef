"""A stream without an end is ended in order: a directory by ``kanonflow stop``, a topic by ``until=end``.

``kanonflow stop`` of a topic, after all that can happen to it, is in test_chaos.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.cli import main
from tests.flink.stream_runs import StreamRun, accounts, policy_text, records, wait_for
from tests.flink.test_faults import passes
from tests.flink.topic_runs import TopicRun, json_value, wait_for_end
from tests.kafka.topics import Topics
from tests.small_feeds import HOUR, START, Row, hourly, row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HOURS = 6
FEED = hourly(HOURS, 60, 40)


def hours(first: int, last: int) -> list[Row]:
    """The rows of FEED from one hour to before another."""
    return [each for each in FEED if f"{first:02d}" <= str(each["when"])[11:13] < f"{last:02d}"]


def nothing_waits(run: StreamRun) -> None:
    """The last record of the partition says so."""
    last = max(records(run.output / "restricted" / "metrics"), key=lambda record: record["window_end"])
    assert last["rows_waiting"] == 0


def test_a_topic_without_end_is_stopped_after_a_resume(
    cluster: SessionCluster, runs: list[StreamRun], topics: Topics, tmp_path: Path
) -> None:
    """Resumed with until=end it ends where the topic ends then; no newer row is read, and the command returns 0."""
    run = TopicRun(
        cluster,
        tmp_path / "run",
        topics,
        policy=policy_text(max_delay="2h"),
        reading="format=json",
        writing="format=json",
        value=json_value,
        partitions=2,
    )
    runs.append(run)
    run.send(hours(0, 3)[::2], 0)
    run.send(hours(0, 3)[1::2], 1)
    run.begin(checkpointing_ms=1_000)
    run.wait_for_releases(2)
    savepoint = run.stop_with_savepoint()
    assert run.wait() == 0
    run.send(hours(3, HOURS)[::2], 0)
    run.send(hours(3, HOURS)[1::2], 1)
    run.source += "&until=end"
    run.begin("--resume", f"--savepoint_path={savepoint}", checkpointing_ms=1_000)
    run.wait_for_releases(4)  # so the topic has been read, and its end is fixed
    run.send([row(9000 + who, who, HOURS + 0.5) for who in range(12)], 0)
    wait_for_end(run)
    newer = {f"r{9000 + who}" for who in range(12)}
    assert not newer & set(run.released())
    accounts(run, FEED)
    nothing_waits(run)


def test_a_directory_is_stopped_and_its_detached_job_goes(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """Nobody waits for a detached job: the stop itself cancels it when everything is written."""
    run = StreamRun(cluster, tmp_path, policy_text=policy_text())
    runs.append(run)
    run.put(hours(0, 3))
    run.start("--detach", checkpointing_ms=1_000, parallelism=2)
    assert run.wait() == 0
    run.wait_for_releases(2)
    run.put(hours(3, HOURS))
    run.reaches(START + (HOURS - 1) * HOUR)
    assert main(["stop", str(run.output), "--quiet"]) == 0
    job = run.job()
    assert job is not None
    assert job["state"] in ("CANCELED", "CANCELLING")
    accounts(run, FEED)
    nothing_waits(run)
    passes(run)
    assert main(["stop", str(run.output), "--quiet"]) == 0


def test_an_idle_stream_that_is_not_stopped_keeps_its_checkpoints_small(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """Twenty seconds of polls without rows leave nothing behind: Beam's own job server left 5.8 kB a poll, 70 then."""
    run = StreamRun(cluster, tmp_path, policy_text=policy_text())
    runs.append(run)
    run.put(hours(0, 2))
    run.start(checkpointing_ms=1_000)
    run.wait_for_releases(1)
    run.complete_checkpoint()
    before, completed = run.checkpoint_bytes(), run.completed()
    wait_for(lambda: run.completed() >= completed + 20, "twenty checkpoints")
    assert run.checkpoint_bytes() < before + 10_000
    run.put(hours(2, HOURS))
    run.end()
    accounts(run, FEED)
