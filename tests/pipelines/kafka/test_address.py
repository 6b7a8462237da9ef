"""Addresses of topics: what they say, and everything that is wrong with one at once."""

from pathlib import Path

import pytest

from kanonflow.pipelines.kafka.address import (
    AddressError,
    Begin,
    KafkaAddress,
    ValueFormat,
    is_kafka_address,
    kafka_sink_address,
    kafka_source_address,
)


def test_an_address_says_where_and_how(tmp_path: Path) -> None:
    """Servers, topic and every option; what is left out has its default."""
    for name in ("rows.avsc", "client.properties"):
        (tmp_path / name).write_text("{}")
    text = (
        f"kafka://a:9092,[::1]:9093/in.rows_1?format=registry&registry=http://r:8081/&idle=5m&from=earliest"
        f"&until=end&readers=4&schema={tmp_path}/rows.avsc&config={tmp_path}/client.properties"
    )
    assert kafka_source_address(text) == KafkaAddress(
        "a:9092,[::1]:9093",
        "in.rows_1",
        ValueFormat.REGISTRY,
        schema=f"{tmp_path}/rows.avsc",
        registry="http://r:8081",
        config=f"{tmp_path}/client.properties",
        idle_ms=300_000,
        until_end=True,
        readers=4,
    )
    plain = kafka_source_address("kafka://a:9092/in?format=json")
    assert (plain.idle_ms, plain.until_end, plain.registry, plain.readers) == (60_000, False, None, None)
    assert kafka_sink_address("kafka://a:1/out?format=avro").value_format is ValueFormat.AVRO
    assert is_kafka_address("kafka://x")
    assert not is_kafka_address("gs://kafka")


def test_every_mistake_is_told_at_once() -> None:
    """One error, one line a mistake, exit code 2."""
    with pytest.raises(AddressError) as caught:
        kafka_source_address(
            "kafka://a,b:0/?fromat=json&idle=0s&idle=soon&from=latest&until=3&config=/no/file"
        )
    mistakes = "\n".join(caught.value.mistakes)
    for part in (
        "a: a server is",
        "b:0: a server",
        "no topic",
        "fromat: unknown",
        "idle: given 2",
        "idle: not a",
    ):
        assert part in mistakes
    for part in ("from: only", "until: only", "format: missing", "config: there is no file /no/file"):
        assert part in mistakes
    assert (len(caught.value.mistakes), caught.value.exit_code) == (10, 2)
    assert str(caught.value).startswith("kafka://...: 10 mistakes in the address\n  - ")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("kafka://a:1/t?format=xml", "format: xml is none of avro, registry, json"),
        ("kafka://a:1/t?format=avro", "schema: missing"),
        ("kafka://a:1/t?format=registry", "registry: missing"),
        ("kafka://a:1/t?format=registry&registry=r:8081", "registry: not an address"),
        ("kafka://a:1/t?format=json&registry=http://r", "registry: goes with format=registry"),
        ("kafka://a:1/..?format=json", "the topic's name"),
        ("kafka://a:1/t%20?format=json", "the topic's name"),
        ("kafka://a:1/t?format=json&from=2026-03-01T00:00:00", "from: only"),
        ("kafka://a:1/t?format=json&from=0:1,0:2", "from: only"),
        ("kafka://a:1/t?format=json&from=12", "from: only"),
        ("kafka://a:1/t?format=json&readers=0", "readers: a number from 1 to 999"),
        ("kafka://a:1/t?format=json&readers=all", "readers: a number from 1 to 999"),
        ("kafka://a:70000/t?format=json", "a:70000: a server is host:port"),
    ],
)
def test_a_mistake_names_its_option(text: str, mistake: str) -> None:
    """One by one."""
    with pytest.raises(AddressError) as caught:
        kafka_source_address(text)
    assert len(caught.value.mistakes) == 1
    assert caught.value.mistakes[0].startswith(mistake)


@pytest.mark.parametrize(
    "text",
    [
        "kafka://me:hunter2@a:9092/t?format=json",
        "kafka://a:9092/t@hunter2?format=json",
        "kafka://a:1/t?format=registry&registry=http://me:hunter2@r:8081",
    ],
)
def test_passwords_are_refused_and_not_repeated(text: str) -> None:
    """An address ends up in logs and shell histories."""
    with pytest.raises(AddressError) as caught:
        kafka_source_address(text)
    assert "config=FILE" in str(caught.value)
    assert "hunter2" not in str(caught.value) + repr(caught.value)


def test_a_sink_takes_no_options_of_a_source(tmp_path: Path) -> None:
    """Releases bring their schema, and there is nothing to wait for."""
    (tmp_path / "a.avsc").write_text("{}")
    with pytest.raises(AddressError) as caught:
        kafka_sink_address(f"kafka://a:1/t?format=avro&idle=5s&schema={tmp_path}/a.avsc")
    assert [mistake.split(":")[0] for mistake in caught.value.mistakes] == ["idle", "schema"]


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("earliest", Begin()),
        ("2026-03-01T00:00:00Z", Begin(at_ms=1_772_323_200_000)),
        ("2026-03-01T02:00:00+02:00", Begin(at_ms=1_772_323_200_000)),
        ("2026-03-01T02:00:00%2B02:00", Begin(at_ms=1_772_323_200_000)),
        ("0:12,1:7", Begin(offsets=((0, 12), (1, 7)))),
    ],
)
def test_where_reading_begins(text: str, begin: Begin) -> None:
    """At the beginning, at a time with its zone, or at an offset of each partition."""
    address = kafka_source_address(f"kafka://a:1/t?format=json&from={text}")
    assert address.begin == begin
    assert address.begin.chosen == (text != "earliest")
