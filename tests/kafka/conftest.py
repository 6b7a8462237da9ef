"""One real broker for all tests here, started when the first of them asks for it.

Java, Maven and the client library must be there in CI, where a skip is a failure (tests/conftest.py).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from deploy.kafka.broker import Broker, missing_programs
from tests.kafka.topics import Topics


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker. A test that stops it starts it again."""
    missing = missing_programs()
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} on the path")
    if importlib.util.find_spec("confluent_kafka") is None:
        pytest.skip("confluent-kafka is not installed")
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
