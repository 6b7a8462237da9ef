"""Values of messages as rows: every format, every kind of poison, nothing of a value in a message."""

import copy
import datetime as dt
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kanonflow.pipelines.feeds.message_values import JsonValues, MessageRows, canonical_number
from kanonflow.pipelines.kafka.avro_values import AvroValues, RegistryValues
from kanonflow.pipelines.kafka.schema_registry import RegistryUnavailableError, SchemaRegistry
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_inputs import NO_VALUE
from tests.pipelines.kafka.registry_stub import StubRegistry, stub_registry

ROW: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "secret", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "born", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "pay", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "job", "type": {"type": "enum", "name": "Job", "symbols": ["nurse", "cook"]}},
    ],
}
RECORD: dict[str, Any] = {
    "id": "b5c9c8a6-3c3e-4c3e-8c3e-3c3e4c3e8c3e",
    "secret": "hunter2",
    "at": dt.datetime(2024, 3, 1, 8, tzinfo=dt.UTC),
    "born": dt.date(1980, 1, 1),
    "pay": Decimal("1.50"),
    "job": "nurse",
}
KEPT = ("at", "born", "pay", "job", "id")


def _avro(schema: dict[str, Any], **changes: Any) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(copy.deepcopy(schema)), RECORD | changes)
    return out.getvalue()


def _framed(number: int, value: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + value


def _told(rows: MessageRows) -> dict[int, str]:
    return {place: row.message for place, row in rows.broken}


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    """A registry that knows ROW as 1."""
    with stub_registry() as stub:
        stub.add("rows-value", ROW)
        yield stub


def test_json_becomes_text() -> None:
    """Text as it is, numbers in one way and with all digits, what is missing as null; other fields are gone."""
    values = [
        b'{"a": "x ", "b": 12345678901234567890.10, "secret": {"deep": 1}}',
        b'{"b": 1.0, "a": true}',
        b'{"b": -0.0, "a": null}',
    ]
    rows = JsonValues(("b", "a")).decode(values)
    assert rows.rows.schema == pa.schema([("b", pa.string()), ("a", pa.string())])
    assert rows.rows.to_pydict() == {"b": ["12345678901234567890.1", "1", "0"], "a": ["x ", "true", None]}
    assert rows.broken == ()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1", "1"),
        ("1.50", "1.5"),
        ("100", "100"),
        ("1e2", "100"),
        ("1.5E-3", "0.0015"),
        ("-1.0", "-1"),
        ("0e9999999999", "0"),
        ("1e400", "1e400"),
        ("1e-999999999", "1e-999999999"),
        ("1e99999999999999999999", "1e99999999999999999999"),
        ("1e-99999999999999999999", "1e-99999999999999999999"),
    ],
)
def test_numbers_are_written_in_one_way(text: str, canonical: str) -> None:
    """Whatever their exponent; huge ones stay short."""
    assert canonical_number(text) == canonical


def test_json_that_is_no_row_is_broken() -> None:
    """Each says what is wrong, the rest is read, and no message holds a value."""
    values = [
        b'{"a": "good"}',
        None,
        b"",
        b"hunter2",
        b'{"a": "hunter2"',
        b'["hunter2"]',
        b'{"a": "\xff"}',
        b'{"a": {"b": "hunter2"}}',
        b'{"a": ["hunter2"]}',
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b"[" * 100_000,
        b'{"a": "also good"}',
    ]
    rows = JsonValues(("a",)).decode(values)
    assert rows.rows.to_pydict() == {"a": ["good", "also good"]}
    assert rows.places.tolist() == [0, 12]
    told = _told(rows)
    assert sorted(told) == list(range(1, 12))
    assert "tombstone" in told[1]
    assert (told[5], told[6]) == ("the message is not a JSON object", "the message is not UTF-8 text")
    assert told[7] == told[8] == told[10] == "a: not a value of type string"
    assert {row.field for place, row in rows.broken if place in (7, 8, 10)} == {"a"}
    assert told[2] == told[3] == told[4] == told[9] == told[11] == "the message is not JSON"
    assert "hunter2" not in repr(rows.broken)


def test_attributes_that_are_no_value_break_no_json_row() -> None:
    """Each is the mark; what is wrong with other fields breaks the row, whatever the attribute is."""
    odd = [b"[1]", b'{"b": 1}', b"NaN", b'"\\ud800"', b'"\\u0000"', b'"\x1a"', b'"\xff"']
    good = [b'{"a": %s, "b": "x"}' % cell for cell in odd]
    bad = [b'{"a": %s, "b": %s}' % (one, other) for one in (*odd, b'"1"') for other in odd]
    rows = JsonValues(("a", "b"), {"a"}).decode([*good, *bad, b'{"a": NaN'])
    assert rows.rows.to_pydict() == {"a": [NO_VALUE] * 7, "b": ["x"] * 7}
    assert len(rows.broken) == len(bad) + 1


def test_attributes_that_are_no_text_break_no_avro_row() -> None:
    """Text that is not UTF-8; in another kept field it breaks the row, in one that is not kept it says nothing."""
    plain = copy.deepcopy(ROW)
    (own,) = (field for field in plain["fields"] if field["name"] == "id")
    own["type"] = "string"

    def foul(name: str) -> bytes:
        value = _avro(ROW, id="ID" * 3, secret="SECRET")
        return value.replace(RECORDED[name], b"\xff" + RECORDED[name][1:])

    attributes = AvroValues(plain, ("id", "at"), {"id"})
    rows = attributes.decode([foul("id"), foul("secret"), _avro(ROW)])
    assert rows.rows.column("id").to_pylist() == [NO_VALUE, "ID" * 3, RECORD["id"]]
    assert rows.broken == ()
    assert len(AvroValues(plain, ("id", "at")).decode([foul("id"), foul("secret")]).broken) == 2
    assert len(AvroValues(plain, ("id", "secret"), {"id"}).decode([foul("id"), foul("secret")]).broken) == 1


RECORDED = {"id": b"IDIDID", "secret": b"SECRET"}


def test_plain_avro_becomes_typed_columns() -> None:
    """The types of Avro files; identifiers are not among the columns."""
    rows = AvroValues(ROW, KEPT).decode([_avro(ROW), _avro(ROW, born=None, job="cook")])
    assert rows.rows.schema.types == [
        pa.timestamp("ms", tz="UTC"),
        pa.date32(),
        pa.decimal128(9, 2),
        pa.string(),
        pa.uuid(),
    ]
    assert rows.rows.to_pylist()[0] == {name: RECORD[name] for name in KEPT} | {"id": uuid.UUID(RECORD["id"])}
    assert rows.rows.column("born").to_pylist() == [dt.date(1980, 1, 1), None]


def test_avro_that_is_no_row_is_broken() -> None:
    """Cut off, too long, of another schema, beyond the calendar or the type: reported, not raised."""
    good = _avro(ROW)
    plain = copy.deepcopy(ROW)
    plain["fields"][2]["type"] = "long"
    plain["fields"][4]["type"] = "bytes"
    values = [
        good[:-3],
        good + b"\0",
        b"",
        None,
        b"hunter2",
        _avro(plain, at=2**62, pay=b"\1"),
        _avro(plain, at=0, pay=b"\x7f" * 9),
        good,
    ]
    rows = AvroValues(ROW, KEPT).decode(values)
    assert rows.places.tolist() == [7]
    told = _told(rows)
    assert sorted(told) == list(range(7))
    assert told[0] == told[1] == told[2] == "the message is not a record of the rows' schema"
    assert told[6] == "pay: not a value of type decimal128(9, 2)"
    assert "hunter2" not in repr(rows.broken)


def test_a_schema_that_cannot_be_read_is_refused() -> None:
    """Before anything runs."""
    with pytest.raises(InputError, match="not a record"):
        AvroValues({"type": "string"}, ())
    with pytest.raises(InputError):
        AvroValues({"type": "record", "name": "R", "fields": [{"name": "a", "type": "no such"}]}, ("a",))


def test_registry_frames_name_the_schema_of_each_message(registry: StubRegistry) -> None:
    """Older and newer records are resolved to the schema of the rows; each id is asked for once."""
    older, newer = copy.deepcopy(ROW), copy.deepcopy(ROW)
    del older["fields"][3]
    newer["fields"].append({"name": "extra", "type": "string", "default": ""})
    reader = copy.deepcopy(ROW)
    reader["fields"][3]["default"] = None
    numbers = [registry.add("rows-value", schema) for schema in (older, newer)]
    client = SchemaRegistry(registry.url, tries=1)
    values = [
        _framed(1, _avro(ROW)),
        _framed(numbers[0], _avro(older)),
        _framed(numbers[1], _avro(newer, extra="x")),
    ]
    rows = RegistryValues(reader, KEPT, client).decode(values * 3)
    assert rows.broken == ()
    assert rows.rows.column("born").to_pylist() == [dt.date(1980, 1, 1), None, dt.date(1980, 1, 1)] * 3
    assert len(registry.asked) == 3


def test_frames_that_lead_nowhere_are_broken(registry: StubRegistry) -> None:
    """No frame, an unknown id, a schema that cannot be resolved or is not Avro."""
    other = copy.deepcopy(ROW)
    other["fields"][2]["type"] = "string"
    number = registry.add("rows-value", other)
    proto = registry.add("rows-value", ROW, schemaType="PROTOBUF")
    client = SchemaRegistry(registry.url, tries=1)
    values = [
        _avro(ROW),
        b"\0\0",
        _framed(77, _avro(ROW)),
        _framed(77, b"hunter2"),
        _framed(number, _avro(other, at="noon")),
        _framed(proto, b""),
        None,
        _framed(1, _avro(ROW)),
    ]
    rows = RegistryValues(ROW, KEPT, client).decode(values)
    assert rows.places.tolist() == [7]
    told = _told(rows)
    assert told[0] == told[1] == "the message does not begin with the id of a schema"
    assert told[2] == told[3] == "its schema, id 77: the schema registry does not know it"
    assert told[4] == f"its schema, id {number}: cannot be read as the schema of the rows"
    assert told[5] == f"its schema, id {proto}: it is not an Avro schema"
    assert registry.asked.count("/schemas/ids/77") == 1


def test_a_registry_that_does_not_answer_rejects_nothing(registry: StubRegistry) -> None:
    """The rows are good; they are read when it is back."""
    values = RegistryValues(ROW, KEPT, SchemaRegistry(registry.url, tries=1))
    registry.failing = 503
    with pytest.raises(RegistryUnavailableError):
        values.decode([_framed(1, _avro(ROW))])
    registry.failing = None
    assert values.decode([_framed(1, _avro(ROW))]).rows.num_rows == 1


def test_no_values_are_no_rows() -> None:
    """An empty batch still has its columns."""
    assert JsonValues(("a",)).decode([]).rows.schema.names == ["a"]
    assert AvroValues(ROW, KEPT).decode([None]).rows.num_rows == 0


def test_text_of_json_numbers_survives_a_round_trip() -> None:
    """No digit is lost on the way through text."""
    numbers = ["0.1", "123456789.123456789", "-7", "1e-7"]
    rows = JsonValues(("n",)).decode([json.dumps({"n": 0}).replace("0", text).encode() for text in numbers])
    assert [Decimal(text) for text in rows.rows.column("n").to_pylist()] == list(map(Decimal, numbers))
