"""Streams from a Kafka topic to another one on a cluster: the small feeds' rows as messages, and what comes out."""

from __future__ import annotations

import collections
import copy
import datetime as dt
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fastavro
import yaml

from deploy.flink.session import SessionCluster
from kanonflow.pipelines.kafka.release_topic import slots_topic
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_source import read_policy
from kanonflow.transforms.rows.element_rows import text_schema
from tests.flink.stream_runs import StreamRun, policy_text, wait_for
from tests.kafka.topics import Topics
from tests.small_feeds import Row

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "who", "type": ["null", "string"]},
        {"name": "when", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "age", "type": ["null", "int"]},
        {"name": "job", "type": ["null", "string"]},
        {"name": "town", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "reference", "type": "string"},
        {"name": "event", "type": "string"},
    ],
}


def typed_policy(**head: Any) -> str:
    """The small feeds' policy for rows that have types of their own."""
    policy = yaml.safe_load(policy_text(**head))
    for field in policy["fields"].values():
        field.pop("as", None)
    return str(yaml.safe_dump(policy, sort_keys=False))


def avro_value(row: Row) -> bytes:
    """A row as one plain Avro record."""
    out = io.BytesIO()
    when = dt.datetime.fromisoformat(str(row["when"])) if row["when"] else None
    typed = {"when": when, "age": int(row["age"] or 0), "amount": float(row["amount"] or 0)}
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(SCHEMA)), {**row, **typed})
    return out.getvalue()


def json_value(row: Row) -> bytes:
    """A row as one JSON object."""
    return json.dumps(row).encode()


class TopicRun(StreamRun):
    """A stream between two new topics. reading, writing: options of their addresses.

    value: how a row is written as a message; release: how a message of the output is read.
    """

    def __init__(
        self,
        cluster: SessionCluster,
        folder: Path,
        topics: Topics,
        *,
        policy: str,
        reading: str,
        writing: str,
        value: Callable[[Row], bytes],
        partitions: int = 1,
    ) -> None:
        self.topics = topics
        self.rows_topic = topics.create(partitions)
        self.release_topic = topics.create(2)
        self.target = f"kafka://{topics.bootstrap}/{self.release_topic}?{writing}"
        self._value = value
        source = f"kafka://{topics.bootstrap}/{self.rows_topic}?{reading}"
        super().__init__(cluster, folder, policy_text=policy, source=source)

    def begin(self, *extra: str, checkpointing_ms: int = 1_000) -> None:
        """Submit the job, and wait until all of its steps run."""
        places = ("--output", self.target, "--restricted", str(self.output))
        self.start(*places, *extra, checkpointing_ms=checkpointing_ms)

    def send(self, rows: Sequence[Row], partition: int = 0) -> None:
        """Rows arrive."""
        self.topics.write(self.rows_topic, map(self._value, rows), partition)

    def trickle(self, rows: Sequence[Row], until_ms: int, partition: int = 0) -> None:
        """Rows arrive one by one until the solving step has reached this time, then the others."""
        left = list(rows)

        def reached() -> bool:
            self.send([left.pop(0)] if left else [], partition)
            return self.watermark() >= until_ms

        wait_for(reached, f"watermark {until_ms}")
        self.send(left, partition)

    def messages(self) -> list[dict[str, Any]]:
        """What a careful reader sees in the output topic: the rows, JSON or registry framed."""
        return [self._row(message.value or b"") for message in self.topics.committed(self.release_topic)]

    def _row(self, value: bytes) -> Any:
        if value[:1] == b"{":
            return json.loads(value)
        policy = read_policy(self.policy)
        schema = release_avro_schema(bind(policy, text_schema(policy), text=True, source="test"))
        return fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(schema), None)

    def wait_for_releases(self, count: int) -> None:
        """Wait until so many releases are visible."""

        def visible() -> bool:
            return len({message.key for message in self.topics.committed(self.release_topic)}) >= count

        wait_for(visible, f"{count} releases")

    def releases(self) -> dict[str, bytes]:
        """Every release that is visible; its marker stands in for a file."""
        written = self.topics.committed(slots_topic(self.release_topic)) if self._has_slots() else []
        markers = [message for message in written if message.key != b"run"]
        count = collections.Counter(message.key for message in markers)
        assert not [key for key, times in count.items() if times > 1]
        keys = {message.key for message in self.topics.committed(self.release_topic)}
        assert keys == set(count)
        return {(message.key or b"").decode(): message.value or b"" for message in markers}

    def released(self) -> list[str]:
        """The references of the released rows."""
        return [row["reference"] for row in self.messages()]

    def written(self) -> int:
        """How much stands in the output topic, committed or not."""
        library = self.topics.library
        places = [library.TopicPartition(self.release_topic, number) for number in range(2)]
        latest = library.admin.OffsetSpec.latest()
        asked = self.topics.admin.list_offsets(dict.fromkeys(places, latest))
        return sum(asked[place].result().offset for place in places)

    def _has_slots(self) -> bool:
        return slots_topic(self.release_topic) in self.topics.admin.list_topics(timeout=10).topics


def wait_for_end(run: StreamRun) -> None:
    """Wait until the command has ended well."""
    assert run.wait() == 0, (run.folder / "stream.log").read_text()[-2000:]
