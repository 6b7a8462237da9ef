"""Cohorts that last on a cluster: machines die, jobs go on from savepoints, and the roster is the one that was."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.cli import main
from tests.flink.stream_runs import StreamRun, accounts, policy_text, records
from tests.flink.test_faults import passes, restart
from tests.small_feeds import HOUR, START, Row, hourly

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HOURS = 9
TOWNS = ("Bonn", "Kiel")
# Everybody at home: who is in two partitions is in two cohorts.
FEED = [each | {"town": TOWNS[int(str(each["who"])[1:]) % 2]} for each in hourly(HOURS, 60, 60)]
POLICY = policy_text(partition_by=["town"], max_delay="2h")
EPOCH = ("--epoch", "0123456789abcdef")
"""Else each run draws its own, and a release tells it."""


def hours(first: int, last: int) -> list[Row]:
    """The rows of FEED from one hour to before another."""
    return [each for each in FEED if first <= int(str(each["when"])[11:13]) < last]


def over_files(folder: Path) -> dict[str, bytes]:
    """The releases of a run over files, of the same rows under the same secret, by name."""
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "secret").write_bytes(bytes(range(7, 39)))
    (folder / "secret").chmod(0o600)
    with (folder / "feed.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(FEED[0]))
        writer.writeheader()
        writer.writerows(FEED)
    arguments = ["--policy", str(folder / "policy.yaml"), "--input", str(folder / "feed.csv")]
    secret = ["--secret-file", str(folder / "secret")]
    assert main(["anonymize", *arguments, *secret, *EPOCH, "--output", str(folder / "out"), "--quiet"]) == 0
    return {path.name: path.read_bytes() for path in (folder / "out" / "release").glob("*.avro")}


def test_the_roster_outlives_machines_jobs_and_secrets(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """All machines die twice, two savepoints, other parallelisms, no row lost or twice; before the secret changes,
    each release has the bytes that a run over files has; who entered stands in one chain of segments a partition."""
    expected = over_files(own_folder(tmp_path))
    run = StreamRun(cluster, tmp_path, policy_text=POLICY)
    runs.append(run)
    run.put(hours(0, 3))
    run.start(*EPOCH, checkpointing_ms=1_000, parallelism=2)
    run.reaches(START + 2 * HOUR)
    restart(cluster, run)
    run.put(hours(3, 5))
    run.wait_for_releases(4)
    state = run.stop_with_savepoint()
    assert run.wait() == 0
    run.start("--resume", f"--savepoint_path={state}", checkpointing_ms=1_000, parallelism=1)
    run.put(hours(5, 6))
    run.reaches(START + 5 * HOUR)
    restart(cluster, run)
    run.wait_for_releases(6)
    state = run.stop_with_savepoint()
    assert run.wait() == 0
    before = run.releases()
    assert before.items() <= expected.items()
    assert len(before) >= 6
    run.put(hours(6, HOURS))
    rotated = run.rotate()
    run.start("--resume", f"--savepoint_path={state}", rotated, checkpointing_ms=1_000, parallelism=2)
    run.end()
    accounts(run, FEED)
    assert run.releases().keys() == expected.keys()
    passes(run)
    told = [each for each in records(run.output / "restricted" / "metrics") if each["released"]]
    assert {each["versions"]["secret"] for each in told} == {"1", "2"}
    assert len({each["epoch"] for each in told}) == 1
    # The first intake of each partition, and at least one later one by a job that went on.
    assert sum(each["people_entered"] > 0 for each in told) >= 3
    cohorts = run.output / "restricted" / "cohorts"
    for partition in {each["partition"] for each in told}:
        mine = sorted(
            (each for each in told if each["partition"] == partition), key=lambda each: each["window_end"]
        )
        segments = sorted((cohorts / partition).glob("*.boxes.avro"))
        assert len(segments) == sum(each["people_entered"] > 0 for each in mine)
        assert all(one["people_known"] <= two["people_known"] for one, two in pairwise(mine))
        assert min(each["epoch_candidates"]["minimum"] for each in mine) >= 3
    run_and_policy = ("--policy", str(run.policy), "--release", str(run.output))
    rows_and_secrets = ("--input", str(run.feed / "*.csv"), "--secret-file", str(run.secret), rotated)
    assert main(["verify", *run_and_policy, *rows_and_secrets]) == 0


def own_folder(beside: Path) -> Path:
    """A folder of its own beside a run's."""
    folder = beside / "files"
    folder.mkdir()
    return folder
