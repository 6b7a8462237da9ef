"""Topics for tests: made, written to and read, with plain clients that know nothing of kanonflow."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple

DEADLINE_SECONDS = 40.0


class Message(NamedTuple):
    """A message as it was read."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Any] | None


class Topics:
    """Clients of one cluster."""

    def __init__(self, bootstrap: str) -> None:
        import confluent_kafka.admin

        self.library: Any = confluent_kafka
        self.bootstrap = bootstrap
        self.admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._producer = self.producer()

    def __enter__(self) -> Topics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producer.flush(1)

    def create(self, partitions: int = 1, name: str | None = None, cleanup: str = "delete") -> str:
        """A new topic's name."""
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        config = {"cleanup.policy": cleanup}
        topic = self.library.admin.NewTopic(name, partitions, replication_factor=1, config=config)
        self.admin.create_topics([topic])[name].result()
        wait_for(lambda: self._partitions(name) == partitions)
        return name

    def widen(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        self.admin.create_partitions([self.library.admin.NewPartitions(topic, partitions)])[topic].result()
        wait_for(lambda: len(self._producer.list_topics(topic).topics[topic].partitions) == partitions)

    def producer(self, **settings: Any) -> Any:
        """A producer of plain messages, or what the settings say. In order also where the broker asks for one again."""
        plain = {"bootstrap.servers": self.bootstrap, "log_level": 0, "enable.idempotence": True}
        return self.library.Producer(plain | settings)

    def write(self, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
        """Write values and wait until they are there."""
        for value in values:
            self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(DEADLINE_SECONDS) == 0

    def committed(self, topic: str) -> list[Message]:
        """Everything that a careful reader sees in a topic now, partition by partition."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "tests", "log_level": 0}
        settings |= {"isolation.level": "read_committed", "auto.offset.reset": "error"}
        consumer = self.library.Consumer(settings)
        try:
            places = [
                self.library.TopicPartition(topic, number, 0) for number in range(self._partitions(topic))
            ]
            ends = {place.partition: self._end(consumer, place) for place in places}
            return self._until(consumer, [place for place in places if ends[place.partition] > 0], ends)
        finally:
            consumer.close()

    def _end(self, consumer: Any, place: Any) -> int:
        """Where a partition ends. A client that is new, on a machine with much else to do, may not know it yet."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                return int(consumer.get_watermark_offsets(place, timeout=DEADLINE_SECONDS)[1])
            except self.library.KafkaException as error:
                if error.args[0].name() != "_UNKNOWN_PARTITION" or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _until(self, consumer: Any, places: list[Any], ends: Mapping[int, int]) -> list[Message]:
        """What stands before the ends, partition by partition; all are read at the same time."""
        if not places:
            return []
        consumer.assign(places)
        found: list[Message] = []
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(at.offset < ends[at.partition] for at in consumer.position(places)):
            assert time.monotonic() < deadline, "the end of a topic was not reached"
            for message in consumer.consume(1000, 0.1):
                assert message.error() is None, message.error().name()
                told = (message.key(), message.value(), message.headers())
                found.append(Message(message.partition(), *told))
        return sorted(found, key=lambda message: message.partition)

    def _partitions(self, topic: str) -> int:
        told = self.admin.list_topics(topic, timeout=DEADLINE_SECONDS).topics[topic]
        return 0 if told.error else len(told.partitions)


def wait_for(condition: Callable[[], bool]) -> None:
    """Return when it holds; fail when it does not in time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
