"""Where a reader begins on a real broker, what it makes of an end, and a feed that is gone."""

from __future__ import annotations

import json
import time

import pytest

from kanonflow.pipelines.commands.topic_copies import Span, committed_messages
from kanonflow.pipelines.feeds.polled_source import FeedGoneError
from kanonflow.pipelines.kafka import source as kafka_source
from kanonflow.pipelines.kafka.address import kafka_source_address
from kanonflow.pipelines.kafka.progress import going_on
from kanonflow.schemas.errors import InputError
from tests.kafka.person_rows import ids, json_row, read_all, source_of
from tests.kafka.topics import Topics

pytestmark = pytest.mark.cluster


def read_on(reader: kafka_source.KafkaReader, at: bytes) -> None:
    """Read for some time, or until it is refused."""
    until = time.monotonic() + 120  # a busy broker is asked again
    while time.monotonic() < until:
        at = reader.read(at, 100).position


def two_partitions(topics: Topics) -> str:
    """Rows 0 to 9 in the first partition, 10 to 19 in the second."""
    topic = topics.create(partitions=2)
    for partition in (0, 1):
        numbers = range(10 * partition, 10 * partition + 10)
        topics.write(topic, [json_row(each) for each in numbers], partition)
    return topic


def test_offsets_say_where_reading_begins(topics: Topics) -> None:
    """Of every partition, or the reader refuses; an offset that is not there is refused, too."""
    topic = two_partitions(topics)
    rows, _ = read_all(source_of(topics, topic, "format=json&until=end&from=0:7,1:10"))
    assert sorted(rows.who) == ids(range(7, 10))
    for begin, said in (("0:7", "no offset of partition 1"), ("0:7,1:11", "has offsets 0 to 10")):
        reader = source_of(topics, topic, f"format=json&from={begin}").open()
        with pytest.raises(InputError, match=said):
            reader.read(b"", 100)
        reader.close()


def test_a_time_says_where_reading_begins(topics: Topics) -> None:
    """The first message of that time or later; a partition without one begins at its end, and what comes is read."""
    topic = topics.create(partitions=2)
    producer = topics.producer()
    for number in range(6):
        producer.produce(topic, json_row(number), partition=0, timestamp=1_000_000 * (number + 1))
    producer.produce(topic, json_row(6), partition=1, timestamp=1_000_000)
    producer.flush()
    rows, _ = read_all(source_of(topics, topic, "format=json&until=end&from=1970-01-01T01:06:40Z"))
    assert sorted(rows.who) == ids(range(3, 6))


def test_another_reader_goes_on_behind_the_end_of_one(topics: Topics) -> None:
    """What the first one read is not read again, what came since is; the copies of an audit are cut there, too."""
    topic = two_partitions(topics)
    first, _ = read_all(source_of(topics, topic, "format=json&until=end"))
    topics.write(topic, [json_row(each) for each in range(20, 25)], 1)
    begins = going_on(first.last.position)
    second, _ = read_all(source_of(topics, topic, "format=json&until=end"), begins)
    assert sorted(first.who) == ids(range(20))
    assert sorted(second.who) == ids(range(20, 25))
    address = kafka_source_address(f"kafka://{topics.bootstrap}/{topic}?format=json")

    def copied(span: Span) -> list[str]:
        return sorted(
            json.loads(message.value or b"")["who"] for message in committed_messages(address, span)
        )

    assert copied(Span({}, {0: 10, 1: 10})) == sorted(first.who)
    assert copied(Span({0: 10, 1: 10})) == sorted(second.who)


def test_a_topic_that_is_gone_is_told_once_it_is_sure(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not an error of a broker that has just started: only after it has said so for a while."""
    monkeypatch.setattr(kafka_source, "GONE_SECONDS", 3.0)
    topic = two_partitions(topics)
    reader = source_of(topics, topic, "format=json").open()
    at = b""
    for _ in range(5):
        at = reader.read(at, 100).position
    topics.admin.delete_topics([topic])[topic].result()
    with pytest.raises(FeedGoneError, match="does not exist any more"):
        read_on(reader, at)
    reader.close()


def test_deleted_rows_are_passed_over_only_when_somebody_says_where(topics: Topics) -> None:
    """A position that the broker does not keep: refused, with what to do; with from= the kept partition goes on where
    it was, the other one where that says."""
    topic = two_partitions(topics)
    source = source_of(topics, topic, "format=json")
    reader = source.open()
    at = b""
    while not at or sum(each.next for each in kafka_source.decode_position(at).partitions.values()) < 20:
        at = reader.read(at, 100).position
    reader.close()
    topics.write(topic, [json_row(each) for each in range(20, 30)], 0)
    topics.write(topic, [json_row(each) for each in range(30, 35)], 1)
    place = topics.library.TopicPartition(topic, 0, 15)
    next(iter(topics.admin.delete_records([place]).values())).result()
    reader = source.open()
    with pytest.raises(FeedGoneError, match=r"from=TIME.*never start anew"):
        read_on(reader, at)
    reader.close()
    rows, _ = read_all(source_of(topics, topic, "format=json&until=end&from=0:17,1:0"), at)
    assert sorted(rows.who) == ids([*range(27, 30), *range(30, 35)])
