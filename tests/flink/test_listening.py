"""A session cluster and its job: what listens, and who can read what they write."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from tests.flink.stream_runs import StreamRun, policy_text
from tests.listening import family, listeners
from tests.small_feeds import hourly

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_nothing_listens_beyond_loopback_and_nobody_else_reads(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """JobManager, TaskManagers, pool, workers, the command and its job server; checkpoints, savepoints, logs."""
    run = StreamRun(cluster, tmp_path, policy_text=policy_text())
    runs.append(run)
    run.put(hourly(3, 40, 30))
    run.start(checkpointing_ms=1_000, parallelism=2)
    run.wait_for_releases(2)
    found = listeners(family([*cluster.pids, run.pid]))
    assert len({each.pid for each in found}) >= 5, found  # both kinds of managers, pool, job server
    assert not [each for each in found if each.beyond_loopback]

    run.complete_checkpoint()
    run.stop_with_savepoint()
    assert run.wait() == 0
    assert stat.S_IMODE(cluster.state.stat().st_mode) == 0o700
    places = [
        path for name in ("checkpoints", "savepoints", "log") for path in (cluster.state / name).rglob("*")
    ]
    assert {"checkpoints", "savepoints", "log"} <= {
        path.relative_to(cluster.state).parts[0] for path in places
    }
    assert not [path for path in places if path.is_file() and path.stat().st_mode & 0o077]
