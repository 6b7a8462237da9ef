"""One Flink cluster, and one Kafka broker, for all tests here, started when the first of them asks for it.

All tests here are marked ``cluster``: ``make flink-test`` runs them, ``make test`` does not.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.flink.session import SessionCluster
from deploy.kafka.broker import Broker, missing_programs
from tests.flink.stream_runs import StreamRun, free_cluster
from tests.kafka.topics import Topics


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionCluster]:
    """A cluster of two TaskManagers. A test that kills one starts it again."""
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} on the path")
    with SessionCluster(tmp_path_factory.mktemp("flink"), task_managers=2, slots=2) as running:
        yield running


@pytest.fixture
def cluster(session: SessionCluster) -> Iterator[SessionCluster]:
    """The cluster without any job, before and after."""
    free_cluster(session)
    yield session
    free_cluster(session)


@pytest.fixture
def runs(cluster: SessionCluster, tmp_path: Path) -> Iterator[list[StreamRun]]:
    """Streams that a test began; whatever of them still runs is stopped."""
    begun: list[StreamRun] = []
    yield begun
    for run in begun:
        run.kill()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker. A test that stops it starts it again."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} on the path")
    running = Broker(tmp_path_factory.mktemp("broker"))
    try:
        running.start()
        yield running
    finally:
        running.kill()  # nobody needs its data: an end in order would take seconds


@pytest.fixture
def topics(broker: Broker) -> Iterator[Topics]:
    """Makes topics that no other test has, and writes to them."""
    with Topics(broker.bootstrap) as made:
        yield made
