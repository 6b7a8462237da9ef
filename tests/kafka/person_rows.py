"""Rows of people in a topic: their policy, their schema, ways to write them, and readers that read until enough."""

import copy
import datetime as dt
import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro

from kanonflow.pipelines.feeds.polled_source import Chunk
from kanonflow.pipelines.kafka.address import kafka_source_address
from kanonflow.pipelines.kafka.input import kafka_input
from kanonflow.pipelines.kafka.source import KafkaReader, KafkaSource
from kanonflow.schemas.bound_policy import bind
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.rows.elements import from_ipc
from tests.kafka.topics import Topics, wait_for

POLICY = {
    "version": 1,
    "k": 2,
    "window": "1d",
    "max_delay": "1d",
    "fields": {
        "who": {"role": "individual"},
        "at": {"role": "time"},
        "age": {"role": "quasi", "type": "numeric", "as": "int"},
        "amount": {"role": "sensitive", "as": "decimal(9,2)"},
        "secret": {"role": "identifier"},
    },
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "who", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "age", "type": ["null", "int"]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "secret", "type": "string"},
    ],
}
NOON = dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
NOON_MS = int(NOON.timestamp()) * 1000
MINUTE_MS = 60_000


@dataclass
class Clock:
    """A wall clock that stands still until it is moved."""

    now: float = NOON.timestamp() + 3600

    def __call__(self) -> float:
        return self.now


@dataclass
class Rows:
    """What was read so far: ids, places of broken messages, and the last chunk."""

    who: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    columns: set[str] = field(default_factory=set)
    last: Chunk = field(default_factory=lambda: Chunk((), b"", None, True))

    def add(self, chunk: Chunk) -> None:
        """One more chunk."""
        self.last = chunk
        for _, batch in chunk.batches:
            rows = from_ipc(batch.ipc)
            self.who += rows.column("who").to_pylist()
            self.columns |= set(rows.column_names)
            self.broken += [record["source"] for record in batch.broken]


def record(number: int, minute: int = 0) -> dict[str, Any]:
    return {
        "who": f"p{number}",
        "at": NOON + dt.timedelta(minutes=minute),
        "age": number % 90,
        "amount": Decimal(number) / 100,
        "secret": "hunter2",
    }


def json_row(number: int, minute: int = 0) -> bytes:
    return json.dumps(record(number, minute), default=str).encode()


def avro_row(number: int) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(SCHEMA)), record(number))
    return out.getvalue()


def source_of(topics: Topics, topic: str, options: str = "format=json", clock: Any = None) -> KafkaSource:
    address = kafka_source_address(f"kafka://{topics.bootstrap}/{topic}?{options}")
    policy = parse_policy(POLICY, "test", "test")
    known = kafka_input(address, policy)
    bound = bind(policy, known.schema.columns, text=known.schema.text, source="test")
    source = pickle.loads(pickle.dumps(KafkaSource(address, bound, known.avro)))
    return replace(source, clock=clock or Clock())


def read_until(reader: KafkaReader, rows: Rows, enough: Callable[[Rows], bool], most: int = 1000) -> Rows:
    def read() -> bool:
        rows.add(reader.read(rows.last.position, most))
        return enough(rows)

    wait_for(read)
    return rows


def read_all(source: KafkaSource, position: bytes = b"", most: int = 1000) -> tuple[Rows, list[Rows]]:
    """Everything up to the end, and the state after each chunk."""
    reader = source.open()
    rows, states = Rows(last=Chunk((), position, None, True)), []

    def done(state: Rows) -> bool:
        states.append(copy.deepcopy(state))
        return state.last.done

    try:
        return read_until(reader, rows, done, most), states
    finally:
        reader.close()


def ids(numbers: Sequence[int]) -> list[str]:
    return sorted(f"p{number}" for number in numbers)
