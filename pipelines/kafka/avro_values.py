"""Avro values of messages -> Arrow rows: plain records, and those framed with the id of their schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa

from kanonflow.pipelines.feeds.csv_files import BrokenRow
from kanonflow.pipelines.feeds.message_values import MessageRows, decode_records
from kanonflow.pipelines.kafka.schema_registry import SchemaRegistry
from kanonflow.schemas.avro_schema import avro_to_arrow
from kanonflow.schemas.errors import InputError

MAGIC = 0
FRAME_BYTES = 5
"""The magic byte, and the schema's id (big-endian)."""

# Others (duration...) would become Python objects that the columns of avro_to_arrow have no place for.
_LOGICAL = frozenset(
    {
        "date",
        "decimal",
        "time-millis",
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "uuid",
    }
)
_TELLING = frozenset(
    {"type", "name", "namespace", "fields", "symbols", "items", "values", "size", "precision", "scale"}
)

_Parse = Callable[[bytes], dict[str, Any] | BrokenRow]


class AvroValues:
    """One Avro record a message, without a header: all are written with the one schema.

    attributes: columns of which a text that is not UTF-8 is ``NO_VALUE``, and does not break its row. Where there are
    any, texts of the other kept columns alone break it.
    Raises InputError: the schema is not a record that can be read.
    """

    def __init__(
        self, schema: Mapping[str, Any], columns: Sequence[str], attributes: Collection[str] = ()
    ) -> None:
        self._columns = _columns_of(schema, columns)
        self._attributes = frozenset(attributes)
        self._parse = _record_parser(
            usable_schema(schema), None, 0, "the rows' schema", _unicode_errors(attributes)
        )

    def decode(self, values: Sequence[bytes | None]) -> MessageRows:
        """Rows of the values."""
        return decode_records(values, self._parse, self._columns, attributes=self._attributes)


class RegistryValues:
    """One Avro record a message, behind a zero byte and the id of its schema in a registry.

    A record that was written with another schema than ``schema`` is resolved to it as the Avro specification says;
    one that cannot be, or whose id the registry does not know, is a broken row. attributes: as of ``AvroValues``.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        columns: Sequence[str],
        registry: SchemaRegistry,
        attributes: Collection[str] = (),
    ) -> None:
        self._columns = _columns_of(schema, columns)
        self._attributes = frozenset(attributes)
        self._reader = schema
        self._registry = registry
        self._parsers: dict[int, _Parse] = {}

    def decode(self, values: Sequence[bytes | None]) -> MessageRows:
        """Rows of the values. Raises RegistryUnavailableError: a schema cannot be asked for just now."""
        return decode_records(values, self._parse, self._columns, attributes=self._attributes)

    def _parse(self, value: bytes) -> dict[str, Any] | BrokenRow:
        if len(value) < FRAME_BYTES or value[0] != MAGIC:
            return BrokenRow(None, "the message does not begin with the id of a schema")
        schema_id = int.from_bytes(value[1:FRAME_BYTES], "big")
        parser = self._parsers.get(schema_id)
        if parser is None:
            parser = self._parsers[schema_id] = self._parser(schema_id)
        return parser(value)

    def _parser(self, schema_id: int) -> _Parse:
        name = f"its schema, id {schema_id}"
        writer = self._registry.schema(schema_id)
        if isinstance(writer, str):
            return _always(f"{name}: {writer}")
        reader = None if _telling(writer) == _telling(self._reader) else usable_schema(self._reader)
        try:
            errors = _unicode_errors(self._attributes)
            return _record_parser(usable_schema(writer), reader, FRAME_BYTES, name, errors)
        except InputError:
            return _always(f"{name}: it is not valid")


def usable_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as fastavro wants it, without logical types that Arrow columns are not made for.

    Raises InputError: it is not a valid schema.
    """
    try:
        parsed = fastavro.parse_schema(_plain(schema), _force=True)
    except Exception as error:  # whatever the parser trips over, the schema is not one
        raise InputError(f"not a valid Avro schema ({type(error).__name__})") from None
    assert isinstance(parsed, dict)
    return parsed


def _unicode_errors(attributes: Collection[str]) -> str:
    """What becomes of bytes that are not UTF-8 where a text is meant: half surrogates, which no column takes."""
    return "surrogateescape" if attributes else "strict"


def _record_parser(
    writer: dict[str, Any], reader: dict[str, Any] | None, skip: int, name: str, unicode_errors: str
) -> _Parse:
    unresolved = BrokenRow(None, f"{name}: cannot be read as the schema of the rows")
    damaged = BrokenRow(None, f"the message is not a record of {name}")

    def parse(value: bytes) -> dict[str, Any] | BrokenRow:
        stream = BytesIO(value)
        stream.seek(skip)
        try:
            record = fastavro.schemaless_reader(stream, writer, reader, handle_unicode_errors=unicode_errors)
        except fastavro.read.SchemaResolutionError:
            return unresolved
        except Exception:  # whatever the decoder trips over, the message is damaged
            return damaged
        # Bytes of another schema may well decode, but hardly ever to their end.
        if stream.tell() != len(value) or not isinstance(record, dict):
            return damaged
        return record

    return parse


def _always(message: str) -> _Parse:
    broken = BrokenRow(None, message)
    return lambda value: broken


def _columns_of(schema: Mapping[str, Any], columns: Sequence[str]) -> pa.Schema:
    full = avro_to_arrow(schema)
    return pa.schema([full.field(name) for name in columns])


def _plain(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            key: _plain(part) if key in ("type", "items", "values", "fields") else part
            for key, part in schema.items()
            if key != "logicalType" or part in _LOGICAL
        }
    return [_plain(part) for part in schema] if isinstance(schema, list) else schema


def _telling(schema: Any) -> Any:
    """What decides how records of the schema are written and read; without comments and defaults."""
    if isinstance(schema, Mapping):
        return {
            key: _telling(part)
            for key, part in schema.items()
            if key in _TELLING or (key == "logicalType" and part in _LOGICAL)
        }
    return [_telling(part) for part in schema] if isinstance(schema, list) else schema
