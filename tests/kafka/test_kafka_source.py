"""Reading topics of a real broker: all formats, restarts, poison, ends, and a broker that goes away."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.kafka.broker import Broker
from kanonflow.pipelines.feeds.polled_source import Chunk
from kanonflow.pipelines.kafka.progress import decode_position
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.rows.elements import from_ipc
from kanonflow.transforms.rows.row_places import places_of
from tests.kafka.person_rows import (
    NOON_MS,
    SCHEMA,
    Clock,
    Rows,
    avro_row,
    ids,
    json_row,
    read_all,
    read_until,
    source_of,
)
from tests.kafka.topics import Topics
from tests.pipelines.kafka.registry_stub import stub_registry

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("how", ["json", "avro", "registry"])
def test_rows_come_back_in_every_format(topics: Topics, tmp_path: Path, how: str) -> None:
    """All rows of all partitions once, only the policy's columns, and then the end."""
    topic = topics.create(partitions=2)
    (tmp_path / "row.avsc").write_text(json.dumps(SCHEMA))
    with stub_registry() as registry:
        number = registry.add(f"{topic}-value", SCHEMA)
        frame = b"\0" + number.to_bytes(4, "big")
        write: Callable[[int], bytes] = {
            "json": json_row,
            "avro": avro_row,
            "registry": lambda each: frame + avro_row(each),
        }[how]
        options = {"avro": f"&schema={tmp_path}/row.avsc", "registry": f"&registry={registry.url}"}.get(
            how, ""
        )
        topics.write(topic, [write(each) for each in range(60)])
        topics.write(topic, [write(each) for each in range(60, 100)], partition=1)
        rows, _ = read_all(source_of(topics, topic, f"format={how}&until=end{options}"))
    assert sorted(rows.who) == ids(range(100))
    assert rows.columns == {"who", "at", "age", "amount"}
    assert (rows.broken, rows.last.latest_ms) == ([], NOON_MS)


def test_every_checkpoint_leads_to_the_same_rows(topics: Topics) -> None:
    """A reader that starts at the position after any chunk gives exactly what was still missing then."""
    topic = topics.create(partitions=2)
    for partition in (0, 1):
        numbers = range(partition * 500, partition * 500 + 500)
        topics.write(topic, [json_row(each, each % 60) for each in numbers], partition)
    source = source_of(topics, topic, "format=json&until=end")
    whole, states = read_all(source, most=300)
    assert sorted(whole.who) == ids(range(1000))
    middle = [state for state in states if 0 < len(state.who) < 1000]
    assert len(middle) >= 2
    for state in middle:
        rest, _ = read_all(source, state.last.position)
        assert sorted(state.who + rest.who) == sorted(whole.who)
    reader = source.open()
    # The same reader goes back too.
    again = Rows(last=Chunk((), middle[0].last.position, None, True))
    read_until(reader, Rows(), lambda rows: rows.last.done)
    read_until(reader, again, lambda rows: rows.last.done)
    reader.close()
    assert sorted(middle[0].who + again.who) == sorted(whole.who)


def _passed(position: bytes) -> int:
    """How many messages lie before the position."""
    return sum(partition.next for partition in decode_position(position).partitions.values())


def test_going_back_passes_nothing_over(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Back and forth on one reader that waits for nothing: no position runs ahead of the rows."""
    monkeypatch.setattr("kanonflow.pipelines.kafka.source.CONSUME_SECONDS", 0.0)
    topic = topics.create(partitions=2)
    for partition in (0, 1):
        topics.write(topic, [json_row(each) for each in range(500)], partition)
    reader = source_of(topics, topic).open()
    start = read_until(reader, Rows(), lambda rows: rows.last.position != b"", most=1).last.position
    for _ in range(15):
        rows = Rows(last=Chunk((), start, None, True))
        read_until(reader, rows, lambda rows: len(rows.who) > 0, most=50)
        assert _passed(rows.last.position) - _passed(start) == len(rows.who)
    reader.close()


def test_poison_is_rejected_with_its_place(topics: Topics) -> None:
    """Messages that are no rows are counted, those around them are read."""
    topic = topics.create()
    topics.write(
        topic, [json_row(0), b"hunter2", None, json_row(1), b'{"who": {"name": "hunter2"}}', json_row(2)]
    )
    source = source_of(topics, topic, "format=json&until=end")
    rows, _ = read_all(source)
    assert rows.who == ["p0", "p1", "p2"]
    assert rows.broken == [f"{topic}/0/{offset}" for offset in (1, 2, 4)]
    reader = source.open()
    first, second = (read_until(reader, Rows(), lambda rows: bool(rows.who)).last for _ in range(2))
    reader.close()
    assert [batch.name for _, batch in first.batches] == [f"kafka-{topic}-0-0"]
    assert first.batches == second.batches
    (broken,) = (batch.broken for _, batch in first.batches)
    # The message as it came is there for whoever may read rejected rows, and nothing else says what was in it.
    assert [record["raw"] for record in broken] == ["hunter2", None, '{"who": {"name": "hunter2"}}']
    assert "hunter2" not in repr([record | {"raw": None} for record in broken])


def test_a_row_has_the_same_place_however_the_topic_is_polled(topics: Topics) -> None:
    """Its offset, whatever batches reads cut; broken ones as well, each a part by itself."""
    topic = topics.create(partitions=2)
    for partition in (0, 1):
        values = [b"no row" if each % 9 == 4 else json_row(each) for each in range(50)]
        topics.write(topic, values, partition)
    seen = []
    for most in (3, 1000):
        reader = source_of(topics, topic, "format=json&until=end").open()
        chunk, places, batches = Chunk((), b"", None, more=True), {}, 0
        while not chunk.done:
            chunk = reader.read(chunk.position, most)
            for _, batch in chunk.batches:
                rows = from_ipc(batch.ipc)
                own = places_of(batch, rows.num_rows)
                who = enumerate(rows.column("who").to_pylist())
                places |= {own.of(at): name for at, name in who}
                places |= {record["part"]: record["source"] for record in batch.broken}
                batches += 1
        reader.close()
        seen.append((places, batches))
    (few, many), (all_at_once, together) = seen
    assert many > together
    assert few == all_at_once
    assert few == {
        f"{topic}/{partition}/{each}": f"{topic}/{partition}/{each}" if each % 9 == 4 else f"p{each}"
        for partition in (0, 1)
        for each in range(50)
    }


def test_the_end_is_where_it_was_at_the_beginning(topics: Topics) -> None:
    """until=end: later rows are not read, also after a restart; rows of aborted transactions never; the end is
    reached although ends of transactions stand there, and a partition is empty."""
    topic = topics.create(partitions=2)
    topics.write(topic, [json_row(0)])
    writer = topics.producer(**{"transactional.id": f"tests-{topic}"})
    writer.init_transactions(30)
    for number, end in ((1, writer.commit_transaction), (2, writer.abort_transaction)):
        writer.begin_transaction()
        writer.produce(topic, json_row(number), partition=0)
        writer.flush(30)
        end(30)
    source = source_of(topics, topic, "format=json&until=end")
    reader = source.open()
    rows = Rows()
    read_until(reader, rows, lambda rows: rows.last.position != b"", most=1)
    reader.close()
    topics.write(topic, [json_row(3)])
    rest, _ = read_all(source, rows.last.position)
    assert sorted(rows.who + rest.who) == ids([0, 1])
    assert sorted(read_all(source)[0].who) == ids([0, 1, 3])


def test_a_stream_that_goes_on_ends_where_the_topic_ends_then(topics: Topics) -> None:
    """until=end for a position without an end: each partition ends where it is now, a new one too, and stays there."""
    topic = topics.create()
    topics.write(topic, [json_row(each) for each in range(3)])
    reader = source_of(topics, topic).open()
    rows = read_until(reader, Rows(), lambda rows: len(rows.who) == 3)
    reader.close()
    topics.write(topic, [json_row(3)])
    topics.widen(topic, 2)
    topics.write(topic, [json_row(4)], partition=1)
    reader = source_of(topics, topic, "format=json&until=end").open()
    rows.add(reader.read(rows.last.position, 1))
    reader.close()
    topics.write(topic, [json_row(5)])
    # What goes on from there needs no until=end.
    for options in ("format=json&until=end", "format=json"):
        rest, _ = read_all(source_of(topics, topic, options), rows.last.position)
        assert sorted(rows.who + rest.who) == ids(range(5))


def test_a_running_stream_ends_when_it_is_asked_to(topics: Topics) -> None:
    """With the rows that are there then, none that comes later; asked again, it stays with its end."""
    topic = topics.create(partitions=2)
    topics.write(topic, [json_row(each) for each in range(3)])
    reader = source_of(topics, topic).open()
    rows = read_until(reader, Rows(), lambda rows: len(rows.who) == 3)
    topics.write(topic, [json_row(3)], partition=1)
    ending = reader.ending(rows.last.position)
    topics.write(topic, [json_row(4)])
    assert reader.ending(ending) == ending
    rows.last = rows.last._replace(position=ending)
    read_until(reader, rows, lambda rows: rows.last.done)
    reader.close()
    assert sorted(rows.who) == ids(range(4))


def test_an_open_transaction_is_not_seen(topics: Topics) -> None:
    """Nor anything behind it, until it is committed."""
    topic = topics.create()
    writer = topics.producer(**{"transactional.id": f"tests-{topic}"})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(topic, json_row(0))
    writer.flush(30)
    topics.write(topic, [json_row(1)])
    reader = source_of(topics, topic).open()
    rows = Rows()
    for _ in range(3):
        rows.add(reader.read(rows.last.position, 100))
    assert rows.who == []
    writer.commit_transaction(30)
    read_until(reader, rows, lambda rows: len(rows.who) == 2)
    reader.close()
    assert rows.who == ["p0", "p1"]


def test_rows_that_are_gone_are_an_error(topics: Topics) -> None:
    """Retention passed the position: nothing is skipped, and asking again says the same."""
    topic = topics.create()
    source = source_of(topics, topic)
    reader = source.open()
    start = read_until(reader, Rows(), lambda rows: rows.last.position != b"").last.position
    reader.close()
    topics.write(topic, [json_row(each) for each in range(5)])
    place = topics.library.TopicPartition(topic, 0, 3)
    next(iter(topics.admin.delete_records([place]).values())).result()
    reader = source.open()
    rows = Rows(last=Chunk((), start, None, True))
    for _ in range(2):
        with pytest.raises(InputError, match="partition 0: the broker does not keep what comes next"):
            read_until(reader, rows, lambda rows: bool(rows.who))
    reader.close()
    assert rows.who == []


def test_a_topic_that_does_not_exist_is_refused(topics: Topics) -> None:
    """At the first read."""
    reader = source_of(topics, "no-such-topic").open()
    with pytest.raises(InputError, match="there is no such topic; create it first"):
        read_until(reader, Rows(), lambda rows: rows.last.position != b"")
    reader.close()


def test_new_partitions_are_found(topics: Topics) -> None:
    """Their rows are read from the first on."""
    clock = Clock()
    topic = topics.create()
    topics.write(topic, [json_row(0)])
    reader = source_of(topics, topic, "format=json", clock).open()
    rows = read_until(reader, Rows(), lambda rows: len(rows.who) == 1)
    topics.widen(topic, 2)
    topics.write(topic, [json_row(1)], partition=1)
    clock.now += 61
    read_until(reader, rows, lambda rows: len(rows.who) == 2)
    reader.close()
    assert rows.who == ["p0", "p1"]


def test_a_registry_that_is_away_costs_no_row(topics: Topics) -> None:
    """Nothing is rejected; reading goes on when it is back."""
    topic = topics.create()
    with stub_registry() as registry:
        number = registry.add(f"{topic}-value", SCHEMA)
        source = source_of(topics, topic, f"format=registry&registry={registry.url}")
        topics.write(topic, [b"\0" + number.to_bytes(4, "big") + avro_row(each) for each in range(5)])
        registry.failing = 503
        before = len(registry.asked)
        reader = source.open()
        rows = read_until(reader, Rows(), lambda rows: len(registry.asked) > before + 1)
        assert (rows.who, rows.broken) == ([], [])
        registry.failing = None
        read_until(reader, rows, lambda rows: len(rows.who) == 5)
        reader.close()
    assert rows.broken == []


def test_a_broker_that_dies_is_waited_for(topics: Topics, broker: Broker) -> None:
    """Killed in the middle: the reader gives nothing, raises nothing, time stands still, and no row is missing."""
    topic = topics.create(partitions=2)
    topics.write(topic, [json_row(each) for each in range(1000)])
    topics.write(topic, [json_row(each) for each in range(1000, 2000)], partition=1)
    clock = Clock()
    reader = source_of(topics, topic, "format=json&idle=60s", clock).open()
    rows = read_until(reader, Rows(), lambda rows: len(rows.who) >= 300, most=300)
    broker.kill()
    try:
        clock.now += 600
        for _ in range(8):
            rows.add(reader.read(rows.last.position, 300))
    finally:
        broker.start()
    topics.write(topic, [json_row(2000, 5)])
    read_until(reader, rows, lambda rows: len(rows.who) >= 2001)
    reader.close()
    assert sorted(rows.who) == ids(range(2001))
    assert rows.last.latest_ms == NOON_MS
