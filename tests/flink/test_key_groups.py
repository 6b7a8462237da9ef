"""A partition is solved by the worker that the key groups say: what keys of shards are dealt by."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from kanonflow.transforms.secret.seeds import Secret, partition_key
from kanonflow.transforms.shards.key_groups import key_group, worker_of
from tests.flink.stream_runs import StreamRun, policy_text
from tests.small_feeds import row

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
WORKERS = 4
TOWNS = [f"town {number}" for number in range(6)]


def test_keys_come_to_the_workers_that_their_groups_say(
    cluster: SessionCluster, runs: list[StreamRun], tmp_path: Path
) -> None:
    """Each of 6 partitions has twice as many windows as the one before: what a worker was sent says whose they were."""
    run = StreamRun(
        cluster, tmp_path, policy_text=policy_text(partition_by=["town"], cohort="window", max_delay="300h")
    )
    runs.append(run)
    places = [(town, hour) for town, name in enumerate(TOWNS) for hour in range(2**town)]
    run.put(
        [
            row(3 * number + each, each, hour + 0.5, town=TOWNS[town])
            for number, (town, hour) in enumerate(places)
            for each in range(3)
        ]
    )
    run.start(parallelism=WORKERS)
    run.end()
    expected: list[set[int]] = [set() for _ in range(WORKERS)]
    for town, name in enumerate(TOWNS):
        key = partition_key(Secret.from_file(run.secret), [name])
        expected[worker_of(key_group(key), WORKERS)].add(town)
    vertex = run.cluster.get(f"/jobs/{run.job_id()}/vertices/{run.solve_vertex()}")
    batches = [int(subtask["metrics"]["read-records"]) for subtask in vertex["subtasks"]]
    assert sum(batches) == len(places)
    assert [{town for town in range(len(TOWNS)) if sent >> town & 1} for sent in batches] == expected
    assert all(len(towns) < len(TOWNS) for towns in expected)
