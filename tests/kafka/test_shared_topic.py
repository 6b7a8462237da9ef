"""Several readers of one topic on a real broker: every row once, the time of one reader, ends that are one position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import apache_beam as beam
import fastavro
import pytest

from kanonflow.pipelines.feeds.polled_source import Chunk, ReadPolled
from kanonflow.pipelines.kafka.address import kafka_source_address
from kanonflow.pipelines.kafka.input import shared_by
from kanonflow.pipelines.kafka.progress import begins_of, decode_position, going_on, joined
from kanonflow.pipelines.kafka.source import KafkaReader, KafkaSource
from kanonflow.pipelines.runs.anonymize_files import connect, kanonymize
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.files.output_directories import make_output_directories
from kanonflow.transforms.reader_shares import WHOLE, Share, shares
from tests.flink.topic_runs import json_value
from tests.kafka.person_rows import MINUTE_MS, NOON_MS, Clock, Rows, ids, json_row, read_all, source_of
from tests.kafka.topics import Topics, wait_for
from tests.small_feeds import SECRET, bound_feed, feed_policy, hourly

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many reads find nothing here, and each would wait for something."""
    monkeypatch.setattr("kanonflow.pipelines.kafka.source.CONSUME_SECONDS", 0.02)


@dataclass
class Readers:
    """Readers that are read in turn, with what each has given. positions: where they begin."""

    source: KafkaSource
    shares: Sequence[Share]
    positions: Sequence[bytes] = ()
    opened: list[KafkaReader] = field(default_factory=list)
    rows: list[Rows] = field(default_factory=list)

    def __enter__(self) -> Readers:
        for index, share in enumerate(self.shares):
            self.opened.append(self.source.of_share(share).open())
            at = self.positions[index] if self.positions else b""
            self.rows.append(Rows(last=Chunk((), at, None, True)))
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self.opened:
            reader.close()

    def read(self, most: int = 1000) -> None:
        for reader, rows in zip(self.opened, self.rows, strict=True):
            if not rows.last.done:
                rows.add(reader.read(rows.last.position, most))

    def until(self, count: int) -> None:
        """Read until so many rows have come, and nothing more is there."""

        def enough() -> bool:
            self.read()
            return len(self.who) >= count and not any(rows.last.more for rows in self.rows)

        wait_for(enough)

    def to_the_end(self) -> bytes:
        """Read until all have ended: the one position that is."""

        def ended() -> bool:
            self.read(300)
            return all(rows.last.done for rows in self.rows)

        wait_for(ended)
        whole = b""
        for at in self.at:
            whole = joined(whole, at)
        return whole

    @property
    def who(self) -> list[str]:
        return [who for rows in self.rows for who in rows.who]

    @property
    def at(self) -> list[bytes]:
        return [rows.last.position for rows in self.rows]

    @property
    def time(self) -> int | None:
        """How far the step is: as far as the least of its readers; None: one says nothing yet."""
        times = [rows.last.latest_ms for rows in self.rows]
        return min((time for time in times if time is not None), default=None) if None not in times else None


def test_readers_give_together_what_one_gives(topics: Topics) -> None:
    """Of a recorded topic of five partitions, for as many readers, fewer, and more: each row once, by the reader of its
    partition, in its order; they end where one reader ends."""
    topic = topics.create(partitions=5)
    for partition in range(5):
        numbers = range(partition * 100, partition * 100 + 100)
        topics.write(topic, [json_row(each, each % 60) for each in numbers], partition)
    source = source_of(topics, topic, "format=json&until=end")
    alone, _ = read_all(source)
    for count in (2, 5, 7):
        with Readers(source, list(shares(count))) as readers:
            end = readers.to_the_end()
        assert sorted(readers.who) == sorted(alone.who)
        assert going_on(end) == going_on(alone.last.position)
        for share, rows in zip(readers.shares, readers.rows, strict=True):
            owned = {number for number in range(5) if share.owns(number)}
            assert set(decode_position(rows.last.position).partitions) == owned
            for number in owned:
                order = [who for who in alone.who if int(who[1:]) // 100 == number]
                assert [who for who in rows.who if int(who[1:]) // 100 == number] == order


def test_windows_are_those_of_one_reader(topics: Topics, tmp_path: Path) -> None:
    """The whole job over a recorded topic, its end and the file of it: every window has the same rows."""
    topic = topics.create(partitions=3)
    rows = hourly(4, 60, 40)
    for partition in range(3):
        topics.write(topic, map(json_value, rows[partition::3]), partition)
    policy = feed_policy(max_delay="1h")
    address = kafka_source_address(f"kafka://{topics.bootstrap}/{topic}?format=json&until=end")
    windows, ends = [], []
    for readers in (1, 2, 3):
        output = tmp_path / str(readers)
        make_output_directories(str(output), policy)
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            connect(
                pipeline,
                ReadPolled(KafkaSource(address, bound_feed(policy)), 0, readers=readers),
                kanonymize(bound_feed(policy), SECRET, watermark_waits=True),
                bound_feed(policy),
                str(output),
                streaming=True,
            )
        ends.append(going_on((output / "restricted" / "ended").read_bytes()))
        released = {}
        for path in (output / "release").glob("*.avro"):
            with path.open("rb") as file:
                references = sorted(
                    str(each["reference"]) for each in fastavro.reader(file) if isinstance(each, dict)
                )
            released[path.name] = references
        windows.append(released)
    assert len(windows[0]) >= 4
    assert windows[0] == windows[1] == windows[2]
    assert ends[0] == ends[1] == ends[2]


SCRIPT: list[tuple[int, dict[int, int]]] = [
    (0, {0: 0, 1: 2, 2: 1}),
    *((10, {0: minute}) for minute in range(3, 8)),  # two are silent
    (10, {0: 12, 1: 60 * 24 * 365}),  # one row of a wrong clock is no word
    *((10, {}) for _ in range(4)),  # all are silent
    *((10, {2: minute}) for minute in range(10, 13)),  # another speaks, far behind
    *((10, {0: minute, 2: minute}) for minute in range(20, 24)),
    *((10, {0: minute}) for minute in range(24, 29)),  # of those that spoke, one is silent
    (10, {0: 30, 1: 30, 2: 30}),
]
"""Seconds that pass, and then of partitions the minute of a row that each gives."""


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_time_is_that_of_one_reader(topics: Topics, count: int) -> None:
    """Silent partitions, all of them silent, wrong clocks, one that comes back late, a reader without a partition:
    never ahead of one reader of all, behind it by a look at most, and where it is at the end."""
    topic = topics.create(partitions=3)
    clock = Clock()
    source = source_of(topics, topic, "format=json&idle=20s", clock)
    number, behind = 0, list[bool]()
    with Readers(source, [WHOLE]) as alone, Readers(source, list(shares(count))) as readers:
        before: int | None = None
        for seconds, said in SCRIPT:
            clock.now += seconds
            for partition, minute in said.items():
                topics.write(topic, [json_row(number, minute)], partition)
                number += 1
            alone.until(number)
            readers.until(number)
            readers.read()
            assert alone.time is not None or readers.time is None
            assert readers.time is None or readers.time <= (alone.time or 0)
            assert before is None or (readers.time is not None and readers.time >= before)
            before = readers.time
            behind.append(readers.time != alone.time)
        assert (alone.time, readers.time) == (NOON_MS + 30 * MINUTE_MS,) * 2
    # Of each silence the first look says only where the others are; who fell silent is forgotten.
    assert not any(behind[-3:]), behind
    assert sum(behind) <= 4, behind


def test_a_claim_stays_in_the_position(topics: Topics) -> None:
    """A reader whose partition never gave a row is as far as the others are; after a restart as well, at once."""
    topic = topics.create(partitions=2)
    clock = Clock()
    source = source_of(topics, topic, "format=json&idle=30s", clock)
    with Readers(source, list(shares(2))) as readers:
        for number in range(8):
            topics.write(topic, [json_row(number, number)], 0)
            readers.until(number + 1)
            clock.now += 10
        claims = [rows.last.latest_ms for rows in readers.rows]
        at = readers.at
    assert claims[1] is not None
    assert NOON_MS + 5 * MINUTE_MS <= claims[1] <= NOON_MS + 7 * MINUTE_MS
    with Readers(source, list(shares(2)), at) as again:
        again.read()
        assert [rows.last.latest_ms for rows in again.rows] == claims


def test_a_look_sees_what_a_careful_reader_sees(topics: Topics) -> None:
    """Rows behind ends of transactions at the tip, no row of a transaction that is open, none that was aborted."""
    topic = topics.create(partitions=2)
    clock = Clock()
    writer = topics.producer(**{"transactional.id": f"tests-{topic}"})
    writer.init_transactions(30)
    with Readers(source_of(topics, topic, "format=json&idle=10s", clock), [Share(1, 2)]) as readers:

        def claims() -> int | None:
            clock.now += 6
            readers.read()
            return readers.rows[0].last.latest_ms

        readers.read()
        clock.now += 10
        assert claims() is None
        writer.begin_transaction()
        writer.produce(topic, json_row(0, 7), partition=0)
        writer.flush(30)
        assert claims() is None
        writer.abort_transaction(30)
        assert claims() is None
        for minute in (3, 4):
            writer.begin_transaction()
            writer.produce(topic, json_row(1, minute), partition=0)
            writer.commit_transaction(30)
        wait_for(lambda: claims() == NOON_MS + 4 * MINUTE_MS)


def test_other_readers_go_on_in_the_midst(topics: Topics) -> None:
    """A checkpoint of three readers leads to the same rows by the same three; no other set takes a position, so no
    partition has two readers; behind ends there may be another set."""
    topic = topics.create(partitions=4)
    for partition in range(4):
        numbers = range(partition * 100, partition * 100 + 100)
        topics.write(topic, [json_row(each) for each in numbers], partition)
    source = source_of(topics, topic)
    three = list(shares(3))
    with Readers(source, three) as readers:
        wait_for(lambda: readers.read(20) or bool(readers.who))
        assert len(readers.who) < 400
        before, at = readers.who, readers.at
    for share in (WHOLE, Share(0, 2), Share(1, 3)):
        reader = source.of_share(share).open()
        with pytest.raises(InputError, match="is that of another one"):
            reader.read(at[0], 10)
        reader.close()
    with pytest.raises(InputError, match="of the 3 readers that the topic had, 1 wrote down"):
        going_on(at[0])
    topics.write(topic, [json_row(400)], 0)
    ending = source_of(topics, topic, "format=json&until=end")
    with Readers(ending, three, at) as rest:
        end = rest.to_the_end()
    assert sorted(before + rest.who) == ids(range(401))

    topics.write(topic, [json_row(each) for each in range(401, 410)], 3)
    begins = going_on(end)
    two = list(shares(2))
    with Readers(ending, two, [begins_of(begins, share) for share in two]) as behind:
        behind.to_the_end()
    assert sorted(behind.who) == ids(range(401, 410))


def test_every_reader_ends_when_it_is_asked_to(topics: Topics) -> None:
    """Also one that has no partition; what comes later is not read, also after a restart without ``until=end``."""
    topic = topics.create(partitions=2)
    topics.write(topic, [json_row(each) for each in range(3)])
    three = list(shares(3))
    with Readers(source_of(topics, topic), three) as readers:
        readers.until(3)
        assert not any(rows.last.done for rows in readers.rows)
        topics.write(topic, [json_row(3)], 1)
        ending = [reader.ending(at) for reader, at in zip(readers.opened, readers.at, strict=True)]
        topics.write(topic, [json_row(4)], 1)
        assert [reader.ending(at) for reader, at in zip(readers.opened, ending, strict=True)] == ending
    with Readers(source_of(topics, topic), three, ending) as rest:
        rest.to_the_end()
    assert sorted(readers.who + rest.who) == ids(range(4))


def test_a_new_partition_has_one_reader(topics: Topics) -> None:
    """The one whose number fits; the others see its rows as those of another reader."""
    clock = Clock()
    topic = topics.create()
    topics.write(topic, [json_row(0)])
    with Readers(source_of(topics, topic, "format=json", clock), list(shares(2))) as readers:
        readers.until(1)
        topics.widen(topic, 4)
        for partition in (1, 2, 3):
            topics.write(topic, [json_row(partition)], partition)
        clock.now += 61
        readers.until(4)
        readers.read()
    assert [sorted(rows.who) for rows in readers.rows] == [["p0", "p2"], ["p1", "p3"]]


def test_how_many_readers_share_a_topic(topics: Topics) -> None:
    """As many as there are parallel instances with a partition; what the address says; never more than partitions."""
    topic = topics.create(partitions=3)

    def readers(options: str, parallelism: int) -> int:
        return shared_by(source_of(topics, topic, f"format=json{options}").address, parallelism)

    assert [readers("", parallelism) for parallelism in (1, 2, 16)] == [1, 2, 3]
    assert readers("&readers=1", 16) == 1
    assert readers("&readers=3", 1) == 3
    with pytest.raises(InputError, match="readers=4: the topic has 3 partitions"):
        readers("&readers=4", 1)
