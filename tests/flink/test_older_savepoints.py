"""A stream that goes on from an older savepoint: refused by name, or judged release by release."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from kanonflow.transforms.lineage.published_slots import refusal_file
from tests.flink.stream_runs import ALIVE, StreamRun, policy_text, records, wait_for
from tests.small_feeds import hourly, row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
HOURS = 6
FEED = hourly(HOURS, 40, 30)


def test_an_older_savepoint_is_refused_and_rewinding_publishes_nothing_twice(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """Exit code 3 with what to do, nothing published, no job left, also of a detached one; with --rewind no row is in
    two releases, and metrics tell of those that are there."""
    run = StreamRun(cluster, tmp_path, policy_text=policy_text(max_delay="2h", cohort="window"))
    runs.append(run)
    run.put([each for each in FEED if str(each["when"])[11:13] < "02"])
    run.start(checkpointing_ms=1_000)
    run.wait_for_releases(1)
    older = run.stop_with_savepoint()
    assert run.wait() == 0

    run.start("--resume", f"--savepoint_path={older}", checkpointing_ms=1_000)
    for hour in range(2, HOURS):
        run.put([each for each in FEED if str(each["when"])[11:13] == f"{hour:02d}"])
        run.wait_for_releases(hour)
        # Late for its own hour now; on time when everything is there from the beginning.
        run.put([row(9000 + 10 * hour + who, 50 + who, hour - 0.5) for who in range(4)])
    run.stop_with_savepoint()
    assert run.wait() == 0
    before = run.releases()
    assert len(before) >= HOURS - 2

    run.start("--resume", f"--savepoint_path={older}", checkpointing_ms=1_000, awaited=False)
    assert run.wait() == 3
    told = (tmp_path / "stream.log").read_text()
    assert "older than what it has published" in told
    assert "--rewind" in told
    assert run.releases() == before
    job = run.job()
    assert job is None or job["state"] not in ALIVE

    run.start("--resume", "--detach", f"--savepoint_path={older}", checkpointing_ms=1_000, awaited=False)
    assert run.wait() == 0
    wait_for(lambda: (run.job() or {}).get("state") == "CANCELED", "the end of the detached job")
    told = run.cluster.get(f"/jobs/{run.job_id()}/exceptions?maxExceptions=20")
    assert "older than what it has published" in json.dumps(told)
    assert "older" in Path(refusal_file(str(run.output))).read_text()
    assert run.releases() == before

    run.start("--resume", "--rewind", f"--savepoint_path={older}", checkpointing_ms=1_000)
    (run.feed / "_END").touch()
    assert run.wait() in (0, 3)
    assert before.items() <= run.releases().items()
    twice = [name for name, count in collections.Counter(run.released()).items() if count > 1]
    assert twice == []
    withheld = [reason for _, reason in run.rejected() if reason == "release_conflict"]
    assert withheld, "the older state must come to other releases, or this shows nothing"
    assert list((run.output / "restricted" / "parked").iterdir())
    told = records(run.output / "restricted" / "metrics")
    assert {f"{each['release_id']}.avro" for each in told if each["released"]} == set(run.releases())
    rows = [each["rows_rejected"].get("release_conflict", 0) for each in told]
    assert sum(rows) == len(withheld)
