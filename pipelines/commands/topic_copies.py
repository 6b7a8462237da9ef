"""Topics copied into files, so that an audit, which reads files only, can read them.

JSON is decoded as a stream decodes it; tests hold that against a second reader (tests/twin_messages.py). Avro is
decoded by fastavro, value by value.
"""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date, datetime
from datetime import time as clock
from decimal import Decimal, InvalidOperation
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

from kanonflow.pipelines.audit.files.header import sync_marker
from kanonflow.pipelines.feeds.message_values import JsonValues
from kanonflow.pipelines.kafka.address import KafkaAddress, ValueFormat
from kanonflow.pipelines.kafka.avro_values import usable_schema
from kanonflow.pipelines.kafka.beginning import beginning
from kanonflow.pipelines.kafka.client import ASK_SECONDS, connect, kafka_library, of_the_group, partitions_of
from kanonflow.pipelines.kafka.input import registry_of
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_inputs import NO_VALUE

SILENT_SECONDS = 30.0
"""After so long without an answer a copy is given up."""

_ID = re.compile(rb"[A-Za-z0-9_-]{1,200}")
_FRAME = 5
_AT_ONCE = 4_096


class CopiedRows(NamedTuple):
    """path: the file.     broken: messages that are no rows, which the file does not show."""

    path: Path
    broken: int


class Message(NamedTuple):
    """A committed message."""

    key: bytes | None
    value: bytes | None


def copy_rows(
    address: KafkaAddress,
    avro: str | None,
    columns: Sequence[str],
    kept: frozenset[str],
    folder: Path,
    attributes: frozenset[str] = frozenset(),
    span: Span | None = None,
) -> CopiedRows:
    """The rows of a topic as a file in ``folder``: CSV for JSON values, else Avro.

    avro: the Avro schema of the rows, as JSON; None for JSON values. columns: the file's, for JSON; of those that are
    not in ``kept`` the cells stay empty. attributes: of those a cell that is no value does not break its row
    (schemas/text_inputs.py). span: what of the topic; None: all of it.
    Raises InputError: that part of the topic cannot be read.
    """
    if avro is None:
        return _copy_json_rows(address, columns, kept, folder / "rows.csv", attributes, span)
    decode = _avro_decoder(address, json.loads(avro), kept, attributes)
    broken = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal broken
        for message in committed_messages(address, span):
            row = None if message.value is None else decode(message.value)
            if row is None:
                broken += 1
            else:
                yield row

    path = folder / "rows.avro"
    with path.open("wb") as stream:
        fastavro.writer(stream, usable_schema(json.loads(avro)), rows())
    return CopiedRows(path, broken)


def copy_releases(address: KafkaAddress, schema: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """The releases of a topic as files ``folder``/ID.avro; what is wrong with messages that are no rows of one.

    schema: of the releases. Behind the id of a registry's schema, rows are written with that one.
    Raises InputError: the topic cannot be read from its beginning to its end.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    schemas: dict[str, Mapping[str, Any]] = {}
    strangers = damaged = 0
    read = _release_reader(address, schema)
    usable = usable_schema(schema)
    for message in committed_messages(address):
        if message.key is None or _ID.fullmatch(message.key) is None:
            strangers += 1
            continue
        record = None if message.value is None else read(message.value)
        if record is None:
            damaged += 1
            continue
        release = message.key.decode()
        schemas.setdefault(release, record[1])
        rows.setdefault(release, []).append(record[0])
    mixed = 0
    for release, its_rows in rows.items():
        try:
            with (folder / f"{release}.avro").open("wb") as stream:
                its_own = schemas[release]
                # What follows from the policy is written as files of releases have it; all else stays to be found.
                written = schema if its_own in (schema, usable) else usable_schema(its_own)
                fastavro.writer(
                    stream,
                    written,
                    its_rows,
                    codec="deflate",
                    sync_marker=sync_marker(release),
                    strict=True,
                )
        except (ValueError, TypeError, KeyError, AttributeError):
            (folder / f"{release}.avro").unlink()
            mixed += 1
    return tuple(_told(strangers, damaged, mixed))


def _told(strangers: int, damaged: int, mixed: int) -> Iterator[str]:
    if strangers:
        yield f"the topic holds {strangers} messages whose key is no release's id"
    if damaged:
        yield f"the topic holds {damaged} messages that are no rows of a release under this policy"
    if mixed:
        yield f"the topic holds {mixed} releases whose rows do not have the fields and types of the policy"


class Span(NamedTuple):
    """Of each partition, by its number, the offset that a stream began at and the one that it ended at (exclusive).

    A partition that ``begins`` does not name was read from its beginning. ends: empty: the topic is read to its end.
    """

    begins: Mapping[int, int] = {}
    ends: Mapping[int, int] = {}


def committed_messages(address: KafkaAddress, span: Span | None = None) -> Iterator[Message]:
    """Every committed message of a topic up to where it ends now, or of a part of it, partition by partition.

    An address that says where to begin (``from=``) counts where ``span`` does not.
    Raises InputError: no such topic, no access, no answer; or the broker does not keep its beginning any more, so
    that nobody can tell what stood there.
    """
    span = span or Span()
    library = kafka_library()
    settings = {
        "group.id": "kanonflow-verify",  # asked for by the library; nothing is committed to it
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "error_cb": _ignore,
    }
    consumer = connect(library.Consumer, address, settings)
    try:
        for number in partitions_of(consumer, address):
            place = library.TopicPartition(address.topic, number, 0)
            first, end = consumer.get_watermark_offsets(place, timeout=ASK_SECONDS * 10)
            begin = span.begins.get(number, 0)
            if not span.begins and address.begin.chosen:
                begin = beginning(consumer, library, address, address.begin, number)
            end = span.ends.get(number, 0) if span.ends else end
            if begin >= end:
                continue
            if first > begin:
                raise InputError(
                    f"{address}: partition {number} begins at offset {first}; what stood before it, from {begin}, is"
                    " deleted, and an audit needs all of it"
                )
            place.offset = begin
            yield from _partition(consumer, place, end, address)
    except library.KafkaException as error:
        raise InputError(f"{address}: cannot be read ({error.args[0].name()})") from None
    finally:
        consumer.close()


def _partition(consumer: Any, place: Any, end: int, address: KafkaAddress) -> Iterator[Message]:
    consumer.assign([place])
    heard = time.monotonic()
    while (
        consumer.position([place])[0].offset < end
    ):  # behind ends of transactions as well, which are no messages
        for message in consumer.consume(10_000, 0.1):
            heard = time.monotonic()
            error = message.error()
            if error is not None:
                if of_the_group(error):
                    continue
                raise InputError(f"{address}: cannot be read ({error.name()})")
            if message.offset() < end:
                yield Message(message.key(), message.value())
        if time.monotonic() - heard > SILENT_SECONDS:
            raise InputError(f"{address}: no answer for {SILENT_SECONDS:.0f} s")


def _copy_json_rows(
    address: KafkaAddress,
    columns: Sequence[str],
    kept: frozenset[str],
    path: Path,
    attributes: frozenset[str] = frozenset(),
    span: Span | None = None,
) -> CopiedRows:
    broken = 0
    decoder = JsonValues([name for name in columns if name in kept], attributes)
    messages = iter(committed_messages(address, span))
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        while values := [message.value for message in islice(messages, _AT_ONCE)]:
            decoded = decoder.decode(values)
            broken += len(decoded.broken)
            for row in decoded.rows.to_pylist():
                writer.writerow([row.get(name) or "" for name in columns])
    return CopiedRows(path, broken)


def _refuse(constant: str) -> str:
    raise ValueError("NaN and Infinity are not JSON")


def _avro_decoder(
    address: KafkaAddress,
    schema: Mapping[str, Any],
    kept: Collection[str] = (),
    attributes: Collection[str] = (),
) -> Callable[[bytes], dict[str, Any] | None]:
    """What reads a value as a row of the schema; None: it is none."""
    reader = usable_schema(schema)
    errors = "surrogateescape" if attributes else "strict"

    def judged(row: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if row is None else _with_marks(row, kept, attributes)

    if address.value_format is ValueFormat.AVRO:
        return lambda value: judged(_record(value, reader, None, errors))
    writers = _registered(address)

    def framed(value: bytes) -> dict[str, Any] | None:
        writer = writers(value)
        return None if writer is None else judged(_record(value[_FRAME:], writer, reader, errors))

    return framed


def _with_marks(
    row: dict[str, Any], kept: Collection[str], attributes: Collection[str]
) -> dict[str, Any] | None:
    """The row with NO_VALUE for texts that are not UTF-8; None where a kept one is no attribute.

    What is not kept says nothing: an audit does not read it.
    """
    if not attributes:
        return row
    marked = {name: _marked(value) for name, value in row.items()}
    others = set(kept) - set(attributes)
    # NaN is not itself.
    foul = any(isinstance(row.get(name), str) and marked[name] != row[name] for name in others)
    return None if foul else marked


def _marked(value: Any) -> Any:
    if isinstance(value, str):
        return NO_VALUE if re.search("[\ud800-\udfff]", value) else value
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return {_marked(key): _marked(item) for key, item in value.items()} if isinstance(value, dict) else value


def _registered(address: KafkaAddress) -> Callable[[bytes], dict[str, Any] | None]:
    """What finds the schema that a framed value was written with; None: no frame, or not known."""
    registry = registry_of(address)
    schemas: dict[int, dict[str, Any] | None] = {}

    def writer(value: bytes) -> dict[str, Any] | None:
        if len(value) < _FRAME or value[0] != 0:
            return None
        number = int.from_bytes(value[1:_FRAME], "big")
        if number not in schemas:
            schema = registry.schema(number)
            schemas[number] = None if isinstance(schema, str) else usable_schema(schema)
        return schemas[number]

    return writer


def _record(
    value: bytes, writer: dict[str, Any], reader: dict[str, Any] | None, unicode_errors: str = "strict"
) -> dict[str, Any] | None:
    stream = io.BytesIO(value)
    try:
        record = fastavro.schemaless_reader(stream, writer, reader, handle_unicode_errors=unicode_errors)
    except Exception:  # whatever the decoder trips over, the value is no such record
        return None
    return record if isinstance(record, dict) and stream.tell() == len(value) else None


def _release_reader(
    address: KafkaAddress, schema: Mapping[str, Any]
) -> Callable[[bytes], tuple[dict[str, Any], Mapping[str, Any]] | None]:
    """What reads a value as a row of a release, and the schema that it was written with."""
    if address.value_format is ValueFormat.REGISTRY:
        writers = _registered(address)

        def framed(value: bytes) -> tuple[dict[str, Any], Mapping[str, Any]] | None:
            writer = writers(value)
            row = None if writer is None else _record(value[_FRAME:], writer, None)
            return None if row is None or writer is None else (row, writer)

        return framed
    if address.value_format is ValueFormat.AVRO:
        plain = usable_schema(schema)

        def unframed(value: bytes) -> tuple[dict[str, Any], Mapping[str, Any]] | None:
            row = _record(value, plain, None)
            return None if row is None else (row, schema)

        return unframed

    def from_json(value: bytes) -> tuple[dict[str, Any], Mapping[str, Any]] | None:
        try:
            row = json.loads(value.decode(), parse_constant=_refuse)
            return _typed(row, schema), schema
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, InvalidOperation):
            return None

    return from_json


def _typed(value: Any, kind: Any) -> Any:
    """A JSON value as fastavro wants it for an Avro type. Raises ValueError and its like: it is none."""
    if isinstance(kind, list):
        if value is None and "null" in kind:
            return None
        (kind,) = (branch for branch in kind if branch != "null")
    if isinstance(kind, str):
        return bytes.fromhex(value) if kind == "bytes" else value
    match kind.get("logicalType", kind["type"]):
        case "record":
            types = {field["name"]: field["type"] for field in kind["fields"]}
            if set(value) != set(types):
                raise ValueError("other fields")
            return {name: _typed(value[name], its) for name, its in types.items()}
        case "array":
            return [_typed(item, kind["items"]) for item in value]
        case str(logical) if logical in _READERS:
            return _READERS[logical](value)
    return _typed(value, kind["type"])


_READERS: Mapping[str, Callable[[str], Any]] = {
    "date": date.fromisoformat,
    "time-micros": clock.fromisoformat,
    "timestamp-millis": datetime.fromisoformat,
    "timestamp-micros": datetime.fromisoformat,
    "decimal": Decimal,
}


def _ignore(error: Any) -> None:
    """Errors of connections: the client tries again by itself."""
