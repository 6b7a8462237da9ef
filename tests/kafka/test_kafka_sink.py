"""Releases in a topic of a real broker: once, whole or not at all, whoever else writes and whatever dies."""

import contextlib
import io
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import pyarrow as pa
import pytest
from apache_beam.metrics import MetricsFilter

from deploy.kafka.broker import Broker
from kanonflow.pipelines.kafka.address import kafka_sink_address
from kanonflow.pipelines.kafka.release_topic import (
    BUCKETS,
    KafkaSinkError,
    Patience,
    ReleaseTopic,
    bucket_of,
    slots_topic,
)
from kanonflow.pipelines.kafka.sink import WriteReleasesToKafka
from kanonflow.schemas.avro_schema import release_avro_schema
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_file import parse_policy
from kanonflow.transforms.files.create_if_absent import Outcome
from kanonflow.transforms.rows.elements import RejectedRows, Release, to_ipc
from tests.kafka.topics import Topics, wait_for
from tests.pass_through import exact_boxes
from tests.pipelines.kafka.registry_stub import stub_registry

pytestmark = pytest.mark.cluster

# Two releases of one bucket.
ONE = "ab12"
OTHER = next(f"cd{n}" for n in range(1000) if bucket_of(f"cd{n}") == bucket_of(ONE))


@pytest.fixture(scope="module")
def bound() -> BoundPolicy:
    fields = {
        "age": {"role": "quasi", "type": "numeric", "as": "int"},
        "job": {"role": "quasi", "type": "categorical"},
        "amount": {"role": "sensitive", "as": "decimal(9,2)"},
    }
    policy = parse_policy({"version": 1, "k": 2, "fields": fields}, "test", "test")
    return bind(policy, pa.schema([(name, pa.string()) for name in fields]), text=True, source="test")


def _release(bound: BoundPolicy, ages: list[int | None], release_id: str = ONE) -> Release:
    rows = pa.table(
        {
            "age": pa.array(ages, pa.int32()),
            "job": pa.array(["nurse"] * len(ages)),
            "amount": pa.array(["1.50"] * len(ages)).cast(pa.decimal128(9, 2)),
        }
    )
    return Release(release_id, None, None, to_ipc(exact_boxes(rows, bound, release_id)))


@dataclass
class Sunk:
    """What the sink handed on: ids, reasons of the rejected rows, and the pipeline's counters."""

    released: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)


def _note(line: str, path: str) -> None:
    with open(path, "a") as file:
        file.write(f"{line}\n")


def _noted(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _reasons(rejected: RejectedRows) -> list[str]:
    return [record["reason"] for record in rejected.records]


def _sink(topics: Topics, topic: str, bound: BoundPolicy, releases: list[Release], how: str) -> Sunk:
    address = kafka_sink_address(f"kafka://{topics.bootstrap}/{topic}?{how}")
    pipeline = beam.Pipeline(runner="FnApiRunner")
    written = (
        pipeline | beam.Create(releases, reshuffle=False) | WriteReleasesToKafka(address, bound, "a run")
    )
    with tempfile.TemporaryDirectory() as folder:
        _ = written.released | "Note ids" >> beam.Map(_note, f"{folder}/released")
        _ = written.conflicts | "Note rows" >> beam.FlatMap(_reasons) | beam.Map(_note, f"{folder}/conflicts")
        result = pipeline.run()
        result.wait_until_finish()
        sunk = Sunk(*(_noted(Path(folder, name)) for name in ("released", "conflicts")))
    counters = result.metrics().query(MetricsFilter().with_namespace("kanonflow"))["counters"]
    sunk.counters = {counter.key.metric.name: counter.result for counter in counters}
    return sunk


def _writer(topics: Topics, topic: str, **how: Any) -> ReleaseTopic:
    address = kafka_sink_address(f"kafka://{topics.bootstrap}/{topic}?format=avro")
    return ReleaseTopic(address, "a run", Patience(**how))


def _values(topics: Topics, topic: str) -> list[bytes | None]:
    return sorted(message.value or b"" for message in topics.committed(topic))


def test_a_topic_says_what_it_holds_and_nobody_can_add_to_that(topics: Topics) -> None:
    """The digest counts; a writer that had begun before is shut out when the answer was no; and one that was shut out
    since, and does not know it, looks anew."""
    topic = topics.create()
    first = _writer(topics, topic)
    assert not first.holds(ONE, "d1")
    assert first.write(ONE, "d1", [b"row"]) is Outcome.CREATED
    late = Halfway([b"a", b"b"])
    writing = threading.Thread(target=_ignoring, args=(_writer(topics, topic, seconds=0.0), late))
    writing.start()
    assert late.reached.wait(60)
    asking = _writer(topics, topic)
    assert [asking.holds(ONE, "d1"), asking.holds(ONE, "d2"), asking.holds(OTHER, "d")] == [
        True,
        False,
        False,
    ]
    late.go_on.set()
    writing.join(120)
    assert _values(topics, topic) == [b"row"]
    assert asking.write(OTHER, "d", [b"other"]) is Outcome.CREATED
    assert first.holds(OTHER, "d")


def _ignoring(writer: ReleaseTopic, values: "Halfway") -> None:
    with contextlib.suppress(KafkaSinkError):
        writer.write(OTHER, "d", values)


class Halfway(list[bytes]):
    """Values that stop after the first of them until they are let go on."""

    def __init__(self, values: list[bytes]) -> None:
        super().__init__(values)
        self.reached = threading.Event()
        self.go_on = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        for value in super().__iter__():
            yield value
            self.reached.set()
            assert self.go_on.wait(60)


@pytest.mark.parametrize("how", ["avro", "registry", "json"])
def test_a_release_is_one_message_a_row(topics: Topics, bound: BoundPolicy, how: str) -> None:
    """Key: the release's id; no headers; the values in the address's format; a registry learns the schema."""
    topic = topics.create(partitions=2)
    with stub_registry() as registry:
        options = f"format={how}" + (f"&registry={registry.url}" if how == "registry" else "")
        sunk = _sink(
            topics, topic, bound, [_release(bound, [30, None]), _release(bound, [40], "cd34")], options
        )
        registered = registry.subjects
    assert sorted(sunk.released) == ["ab12", "cd34"]
    assert sunk.counters == {"releases": 2, "rows_released": 3}
    messages = topics.committed(topic)
    assert sorted(message.key or b"" for message in messages) == [b"ab12", b"ab12", b"cd34"]
    assert not any(message.headers for message in messages)
    values = [message.value or b"" for message in messages if message.key == b"ab12"]
    if how == "json":
        rows = [json.loads(value) for value in values]
    else:
        if how == "registry":
            assert registered == {f"{topic}-value": [1]}
            assert {value[:5] for value in values} == {b"\0\0\0\0\1"}
            values = [value[5:] for value in values]
        schema = fastavro.parse_schema(release_avro_schema(bound))
        rows = [fastavro.schemaless_reader(io.BytesIO(value), schema) for value in values]
    assert [row["age"] for row in rows] == [
        {"min": 30, "max": 30, "nulls": False},
        {"min": None, "max": None, "nulls": True},
    ]
    assert (rows[0]["release_id"], rows[0]["job"], str(rows[0]["amount"])) == ("ab12", ["nurse"], "1.50")


def test_a_release_is_written_once_and_never_replaced(topics: Topics, bound: BoundPolicy) -> None:
    """The same again is there already, in whatever format; other rows are a conflict, and rejected."""
    topic = topics.create()
    first = _release(bound, [30, 31])
    _sink(topics, topic, bound, [first], "format=avro")
    before = _values(topics, topic)
    again = _sink(topics, topic, bound, [first, first], "format=json")
    assert again.released == ["ab12", "ab12"]
    assert again.counters == {"releases": 2, "rows_released": 4}
    other = _sink(topics, topic, bound, [_release(bound, [30, 32])], "format=avro")
    assert (other.released, other.counters) == ([], {"release_conflict": 1})
    assert other.conflicts == ["release_conflict"] * 2
    assert _values(topics, topic) == before
    assert len(before) == 2


def test_two_writers_take_turns(topics: Topics) -> None:
    """Each shuts the other out, learns what it wrote meanwhile, and nothing is there twice."""
    topic = topics.create()
    one, two = _writer(topics, topic), _writer(topics, topic)
    assert one.write(ONE, "d1", [b"a", b"b"]) is Outcome.CREATED
    assert two.write(OTHER, "d2", [b"c"]) is Outcome.CREATED
    assert one.write(OTHER, "d2", [b"c"]) is Outcome.SAME
    assert two.write(ONE, "d3", [b"x"]) is Outcome.DIFFERENT
    assert _values(topics, topic) == [b"a", b"b", b"c"]


def test_many_writers_at_once_write_once(topics: Topics) -> None:
    """Two processes' worth of writers, the same releases, at the same time."""
    topic = topics.create()
    ids = [ONE, OTHER, "e1", "e2"]
    writers = [_writer(topics, topic) for _ in range(2)]
    with ThreadPoolExecutor(8) as threads:
        tasks = [
            threads.submit(writer.write, each, "d", [each.encode()]) for writer in writers for each in ids
        ]
        outcomes = [task.result() for task in tasks]
    assert sorted(outcomes) == sorted([Outcome.CREATED] * 4 + [Outcome.SAME] * 4)
    assert _values(topics, topic) == sorted(each.encode() for each in ids)


def test_a_writer_that_was_given_up_cannot_commit(topics: Topics) -> None:
    """It stalls in the middle of its transaction, another writes the release, it wakes up: one copy."""
    topic = topics.create()
    rows = Halfway([b"a", b"b"])
    with ThreadPoolExecutor(1) as threads:
        stalled = threads.submit(_writer(topics, topic).write, ONE, "d", rows)
        assert rows.reached.wait(60)
        assert _writer(topics, topic).write(ONE, "d", [b"a", b"b"]) is Outcome.CREATED
        rows.go_on.set()
        assert stalled.result(60) is Outcome.SAME
    assert _values(topics, topic) == [b"a", b"b"]


def test_a_writer_that_dies_leaves_nothing(topics: Topics) -> None:
    """Killed in the middle of a transaction: its rows are never seen, and the next writer writes them once."""
    topic = topics.create()
    code = f"""
import time
from kanonflow.pipelines.kafka.address import kafka_sink_address
from kanonflow.pipelines.kafka.release_topic import ReleaseTopic

class Halfway(list):
    def __iter__(self):
        yield from super().__iter__()
        print("halfway", flush=True)
        time.sleep(600)

address = kafka_sink_address("kafka://{topics.bootstrap}/{topic}?format=avro")
ReleaseTopic(address, "a run").write("{ONE}", "d", Halfway([b"a"] * 5000))
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"halfway\n"
        place = topics.library.TopicPartition(topic, 0)
        latest = topics.library.admin.OffsetSpec.latest()
        wait_for(lambda: topics.admin.list_offsets({place: latest})[place].result().offset >= 5000)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert _values(topics, topic) == []
    assert _writer(topics, topic).write(ONE, "d", [b"a"] * 3) is Outcome.CREATED
    assert _values(topics, topic) == [b"a"] * 3


def test_a_broker_that_dies_is_waited_for(topics: Topics, broker: Broker) -> None:
    """Killed in the middle of a transaction and back again: the release is there once, and so is the next."""
    topic = topics.create()
    writer = _writer(topics, topic)
    rows = Halfway([b"a", b"b"])
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(writer.write, ONE, "d", rows)
        assert rows.reached.wait(60)
        broker.kill()
        try:
            rows.go_on.set()
        finally:
            broker.start()
        assert writing.result(120) is Outcome.CREATED
    assert writer.write(OTHER, "d", [b"c"]) is Outcome.CREATED
    assert writer.write(ONE, "d", [b"a", b"b"]) is Outcome.SAME
    assert _values(topics, topic) == [b"a", b"b", b"c"]


def test_a_release_that_cannot_be_written_in_time_says_so(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner tries again; nothing is visible, and the next writer writes it."""
    topic = topics.create()
    library = topics.library
    gone = library.KafkaException(library.KafkaError(library.KafkaError._TRANSPORT))

    def fail(*arguments: Any) -> None:
        raise gone

    times = iter(range(0, 1000, 50))
    writer = _writer(topics, topic, seconds=100, clock=lambda: float(next(times)), sleep=lambda seconds: None)
    with monkeypatch.context() as patch:
        patch.setattr("kanonflow.pipelines.kafka.release_topic._Bucket._commit", fail)
        with pytest.raises(
            KafkaSinkError, match=rf"release {ONE} could not be written in 100 s \(_TRANSPORT\)"
        ):
            writer.write(ONE, "d", [b"a"])
    assert _values(topics, topic) == []
    assert _writer(topics, topic).write(ONE, "d", [b"a"]) is Outcome.CREATED


def test_topics_that_cannot_keep_the_promise_are_refused(topics: Topics) -> None:
    """No such topic; markers that retention would delete, or whose partitions are too few; compacted rows."""
    with pytest.raises(InputError, match="there is no such topic; create it first"):
        _writer(topics, "no-such-topic").write(ONE, "d", [b"a"])
    topic = topics.create()
    topics.create(BUCKETS, slots_topic(topic))
    with pytest.raises(
        InputError, match=r"cleanup\.policy=delete and 16 partitions; it needs compact and 16"
    ):
        _writer(topics, topic).write(ONE, "d", [b"a"])
    assert _values(topics, topic) == []
    narrow = topics.create()
    topics.create(BUCKETS - 1, slots_topic(narrow), cleanup="compact")
    with pytest.raises(InputError, match=r"cleanup\.policy=compact and 15 partitions"):
        _writer(topics, narrow).write(ONE, "d", [b"a"])
    with pytest.raises(InputError, match="keeps one message a key"):
        _writer(topics, topics.create(cleanup="compact")).write(ONE, "d", [b"a"])


def test_a_row_that_is_too_large_is_an_error_at_once(topics: Topics) -> None:
    """Waiting does not make it smaller."""
    topic = topics.create()
    with pytest.raises(InputError, match=r"larger than the topic's max\.message\.bytes"):
        _writer(topics, topic).write(ONE, "d", [b"a", b"x" * 2_000_000])
    assert _values(topics, topic) == []


def test_a_large_release_is_one_transaction(topics: Topics) -> None:
    """More rows than the producer's queue holds."""
    topic = topics.create()
    many = [b"%06d" % number for number in range(150_000)]
    assert _writer(topics, topic).write(ONE, "d", many) is Outcome.CREATED
    assert len(topics.committed(topic)) == 150_000


def test_a_topic_of_another_run_is_refused(topics: Topics) -> None:
    """Another policy, secret or source may not add to it; the same run may, from another process too."""
    topic = topics.create()
    address = kafka_sink_address(f"kafka://{topics.bootstrap}/{topic}?format=avro")
    assert ReleaseTopic(address, "one").write(ONE, "d", [b"a"]) is Outcome.CREATED
    assert ReleaseTopic(address, "one").write(ONE, "d", [b"a"]) is Outcome.SAME
    with pytest.raises(InputError, match="another run"):
        ReleaseTopic(address, "two").write(ONE, "d", [b"a"])
    assert _values(topics, topic) == [b"a"]
