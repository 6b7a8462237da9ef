"""Which event time a topic has reached: silent partitions, clocks that are wrong, and what a batch is stamped with."""

import pytest

from kanonflow.pipelines.kafka.source import KafkaReader
from tests.kafka.person_rows import (
    MINUTE_MS,
    NOON_MS,
    Clock,
    Rows,
    json_row,
    read_all,
    read_until,
    source_of,
)
from tests.kafka.topics import Topics

pytestmark = pytest.mark.cluster


def test_a_batch_has_its_oldest_time(topics: Topics) -> None:
    """What it is stamped with; a row whose time cannot be read has none, and the rest counts."""
    topic = topics.create()
    topics.write(topic, [json_row(0, 5), b'{"who": "p1", "at": "soon"}', json_row(2, 3), json_row(3, 9)])
    rows, states = read_all(source_of(topics, topic, "format=json&until=end"))
    oldest = [oldest for state in states for oldest, _ in state.last.batches]
    assert min(time for time in oldest if time is not None) == NOON_MS + 3 * MINUTE_MS
    assert (len(rows.who), rows.last.latest_ms) == (4, NOON_MS + 9 * MINUTE_MS)


def test_a_silent_partition_holds_time_back_only_for_a_while(topics: Topics) -> None:
    """One partition that stops and one that never began: time waits, then goes on without them, and never goes
    back; when all are silent it stands still."""
    clock = Clock()
    topic = topics.create(partitions=3)
    reader = source_of(topics, topic, "format=json&idle=60s", clock).open()
    rows = Rows()
    topics.write(topic, [json_row(0, 10)], partition=0)
    topics.write(topic, [json_row(1, 2)], partition=1)
    read_until(reader, rows, lambda rows: len(rows.who) == 2 and not rows.last.more)
    assert rows.last.latest_ms is None  # the third has given nothing yet
    clock.now += 59
    topics.write(topic, [json_row(2, 20)], partition=0)
    read_until(reader, rows, lambda rows: len(rows.who) == 3 and not rows.last.more)
    assert rows.last.latest_ms is None
    clock.now += 1
    read_until(reader, rows, lambda rows: rows.last.latest_ms is not None)
    assert rows.last.latest_ms == NOON_MS + 20 * MINUTE_MS
    clock.now += 3600
    read_until(reader, rows, lambda rows: not rows.last.more)
    assert rows.last.latest_ms == NOON_MS + 20 * MINUTE_MS
    topics.write(topic, [json_row(3, 4)], partition=1)
    read_until(reader, rows, lambda rows: len(rows.who) == 4 and not rows.last.more)
    assert rows.last.latest_ms == NOON_MS + 20 * MINUTE_MS
    topics.write(topic, [json_row(4, 30)], partition=0)
    read_until(reader, rows, lambda rows: len(rows.who) == 5 and not rows.last.more)
    assert rows.last.latest_ms == NOON_MS + 20 * MINUTE_MS  # the second is back, and far behind
    reader.close()
    reader = source_of(topics, topic, "format=json&idle=60s", clock).open()
    chunk = reader.read(rows.last.position, 10)
    assert chunk.latest_ms == NOON_MS + 20 * MINUTE_MS
    reader.close()


def test_silence_is_confirmed_by_the_broker(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage what is known of a partition's end is old: rows that wait there still hold time back."""
    clock = Clock()
    topic = topics.create(partitions=2)
    reader = source_of(topics, topic, "format=json&idle=60s", clock).open()
    topics.write(topic, [json_row(0)])
    topics.write(topic, [json_row(1)], partition=1)
    rows = read_until(reader, Rows(), lambda rows: len(rows.who) == 2)
    monkeypatch.setattr(KafkaReader, "_known_end", lambda self, place: 1)
    waiting = [topics.library.TopicPartition(topic, 1)]
    reader._consumer.pause(waiting)
    clock.now += 600
    topics.write(topic, [json_row(2, 1)], partition=1)
    topics.write(topic, [json_row(3, 20)], partition=0)
    read_until(reader, rows, lambda rows: len(rows.who) == 3)
    assert rows.last.latest_ms == NOON_MS
    reader._consumer.resume(waiting)
    read_until(reader, rows, lambda rows: len(rows.who) == 4)
    assert rows.last.latest_ms == NOON_MS + MINUTE_MS
    reader.close()


def test_a_wrong_clock_does_not_move_time(topics: Topics) -> None:
    """One row of the year 2090 closes nobody's window; up to a day ahead is believed, as in directories."""
    clock = Clock()
    topic = topics.create()
    day = 24 * 60
    topics.write(topic, [json_row(0), json_row(1, 66 * 365 * day), json_row(2, day), json_row(3, 2 * day)])
    rows, _ = read_all(source_of(topics, topic, "format=json&until=end", clock))
    assert len(rows.who) == 4
    assert rows.last.latest_ms == NOON_MS + day * MINUTE_MS


def test_a_partition_with_a_wrong_clock_is_a_silent_one(topics: Topics) -> None:
    """Whatever it says about time is not believed, so after the idle time the others go on without it."""
    clock = Clock()
    topic = topics.create(partitions=2)
    reader = source_of(topics, topic, "format=json&idle=60s", clock).open()
    topics.write(topic, [json_row(0, 60 * 24 * 365)], partition=1)
    topics.write(topic, [json_row(1, 5)], partition=0)
    rows = read_until(reader, Rows(), lambda rows: len(rows.who) == 2 and not rows.last.more)
    assert rows.last.latest_ms is None
    clock.now += 60
    topics.write(topic, [json_row(2, 60 * 24 * 365)], partition=1)
    topics.write(topic, [json_row(3, 6)], partition=0)
    read_until(reader, rows, lambda rows: len(rows.who) == 4 and rows.last.latest_ms is not None)
    assert rows.last.latest_ms == NOON_MS + 6 * MINUTE_MS
    reader.close()
