"""Kafka topics as people name them: ``kafka://host:port[,host:port]/topic?option=value&option=value``.

format=avro|registry|json   how values are written: plain Avro, Avro with the id of its schema in a registry
                            (a zero byte, four bytes of id), one JSON object a message
schema=FILE                 the Avro schema of the rows; for format=avro of a source
registry=URL                the schema registry; for format=registry
config=FILE                 further properties of the client, one a line (librdkafka's names): passwords and keys
                            stand there, never in the address; on every worker at the same path
idle=60s                    source: after that long without a row a partition no longer holds back the others
from=earliest               source: where the first read begins; the only choice, for other rows would be lost
until=end                   source: read what is there when the job begins, then end
readers=4                   source: how many read the topic side by side, each some of its partitions
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import parse_qsl, urlsplit

from kanonflow.schemas.durations import parse_duration
from kanonflow.schemas.errors import InputError

SCHEME = "kafka://"
DEFAULT_IDLE = "60s"

_BOTH = ("format", "schema", "registry", "config")
_SOURCE_ONLY = ("idle", "from", "until", "readers")
_EARLIEST = "earliest"
_OFFSETS = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*")
_READERS = re.compile(r"[1-9]\d{0,2}")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[a-zA-Z0-9._-]+):(\d{1,5})")


class ValueFormat(StrEnum):
    """How a message's value is written."""

    AVRO = "avro"
    REGISTRY = "registry"
    JSON = "json"


@dataclass(frozen=True)
class Begin:
    """Where reading begins: with the first message of this time or later, or at these offsets; else at the beginning.

    at_ms: ms since 1970 UTC. offsets: (partition, offset), of every partition.
    """

    at_ms: int | None = None
    offsets: tuple[tuple[int, int], ...] = ()

    @property
    def chosen(self) -> bool:
        """Whether it is another place than the beginning."""
        return self.at_ms is not None or bool(self.offsets)


class AddressError(InputError):
    """An address that cannot be used: every mistake of it at once. ``mistakes``: each names an option."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__(self.mistakes)

    def __str__(self) -> str:
        count = len(self.mistakes)
        head = f"{SCHEME}...: {count} mistake{'' if count == 1 else 's'} in the address"
        return "\n".join([head, *(f"  - {mistake}" for mistake in self.mistakes)])


@dataclass(frozen=True)
class KafkaAddress:
    """A topic and how to read or write it.

    bootstrap: host:port[,host:port].     value_format: see there.     schema, config: files; registry: a URL.
    idle_ms: after how long without a row a partition no longer holds back the others.
    until_end: end where the topic ended when the first read began. begin: where the first read begins.
    readers: how many share the topic; None: as many as fit (``shared_by``).
    """

    bootstrap: str
    topic: str
    value_format: ValueFormat
    schema: str | None = None
    registry: str | None = None
    config: str | None = None
    idle_ms: int = 60_000
    until_end: bool = False
    begin: Begin = Begin()
    readers: int | None = None

    def __str__(self) -> str:
        return f"{SCHEME}{self.bootstrap}/{self.topic}"


def is_kafka_address(text: str) -> bool:
    """Whether text is meant as the address of a topic."""
    return text.lower().startswith(SCHEME)


def kafka_source_address(text: str) -> KafkaAddress:
    """The topic that rows are read from. Raises AddressError, which never repeats a password."""
    return _parse(text, (*_BOTH, *_SOURCE_ONLY), source=True)


def kafka_sink_address(text: str) -> KafkaAddress:
    """The topic that releases are written to. Raises AddressError, which never repeats a password."""
    return _parse(text, _BOTH, source=False)


def _parse(text: str, known: tuple[str, ...], *, source: bool) -> KafkaAddress:
    place, _, query = text[len(SCHEME) :].partition("?")
    bootstrap, _, topic = place.partition("/")
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    mistakes = [
        *_place_mistakes(bootstrap, topic),
        *_name_mistakes([name for name, _ in pairs], known),
        *_format_mistakes(options, source=source),
        *_file_mistakes(options),
        *(_reading_mistakes(options) if source else ()),
    ]
    if mistakes:
        raise AddressError(mistakes)
    return KafkaAddress(
        bootstrap=bootstrap,
        topic=topic,
        value_format=ValueFormat(options["format"]),
        schema=options.get("schema"),
        registry=options["registry"].rstrip("/") if "registry" in options else None,
        config=options.get("config"),
        idle_ms=parse_duration(options.get("idle", DEFAULT_IDLE)) or 0,
        until_end=options.get("until") == "end",
        begin=_begin(options.get("from", _EARLIEST)) or Begin(),
        readers=int(options["readers"]) if "readers" in options else None,
    )


def _place_mistakes(bootstrap: str, topic: str) -> Iterator[str]:
    if "@" in bootstrap or "@" in topic:
        yield "user names and passwords do not belong into an address; give them with config=FILE"
    else:
        for server in bootstrap.split(","):
            match = _HOST.fullmatch(server)
            if match is None or not 0 < int(match[2]) < 65536:
                yield f"{server or 'no server'}: a server is host:port, as in {SCHEME}localhost:9092/topic"
    if not topic:
        yield f"no topic; it stands after the servers, as in {SCHEME}localhost:9092/topic"
    elif "@" not in topic and (_TOPIC.fullmatch(topic) is None or topic in (".", "..")):
        yield "the topic's name may have letters, digits, dots, underscores and dashes, at most 249"


def _name_mistakes(names: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    for name, count in Counter(names).items():
        if name in _SOURCE_ONLY and name not in known:
            yield f"{name}: is for a topic that is read, not for one that is written"
        elif name not in known:
            yield f"{name}: unknown option; there are {', '.join(known)}"
        elif count > 1:
            yield f"{name}: given {count} times"


def _format_mistakes(options: dict[str, str], *, source: bool) -> Iterator[str]:
    chosen = options.get("format")
    if chosen is None:
        yield f"format: missing; one of {', '.join(ValueFormat)}"
    elif chosen not in tuple(ValueFormat):
        yield f"format: {chosen} is none of {', '.join(ValueFormat)}"
    if "registry" in options:
        yield from _registry_mistakes(options["registry"])
        if chosen in (ValueFormat.AVRO, ValueFormat.JSON):
            yield f"registry: goes with format=registry, not with format={chosen}"
    elif chosen == ValueFormat.REGISTRY:
        yield "registry: missing; format=registry needs the schema registry's address"
    if "schema" not in options:
        if source and chosen == ValueFormat.AVRO:
            yield "schema: missing; format=avro needs the file with the rows' Avro schema"
    elif not source:
        yield "schema: is for a topic that is read; releases bring their own schema"
    elif chosen == ValueFormat.JSON:
        yield "schema: JSON has none here; the policy's fields are read as text"


def _registry_mistakes(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if "@" in url:
        yield (
            "registry: user names and passwords do not belong into an address;"
            " give schema.registry.basic.auth.user.info with config=FILE"
        )
    elif not usable:
        yield "registry: not an address like http://host:8081"


def _begin(text: str) -> Begin | None:
    """None: it is none."""
    if text == _EARLIEST:
        return Begin()
    if _OFFSETS.fullmatch(text):
        pairs = [
            (int(number), int(offset)) for number, offset in (each.split(":") for each in text.split(","))
        ]
        return Begin(offsets=tuple(pairs)) if len({number for number, _ in pairs}) == len(pairs) else None
    try:
        # A plus sign in an address means a space.
        at = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        return None
    return None if at.tzinfo is None else Begin(at_ms=int(at.timestamp() * 1000))


def _file_mistakes(options: dict[str, str]) -> Iterator[str]:
    for name in ("schema", "config"):
        if name in options and not os.path.isfile(options[name]):
            yield f"{name}: there is no file {options[name] or 'without a name'}"


def _reading_mistakes(options: dict[str, str]) -> Iterator[str]:
    if not parse_duration(options.get("idle", DEFAULT_IDLE)):
        yield "idle: not a duration above 0, like 60s or 5m"
    if _begin(options.get("from", _EARLIEST)) is None:
        yield (
            "from: only earliest, a time with its zone (from=2026-03-01T00:00:00Z), or an offset of every partition"
            " (from=0:1200,1:900)"
        )
    if options.get("until", "end") != "end":
        yield "until: only end; leave it out to read on for ever"
    if _READERS.fullmatch(options.get("readers", "1")) is None:
        yield "readers: a number from 1 to 999, at most the partitions that the topic has"
