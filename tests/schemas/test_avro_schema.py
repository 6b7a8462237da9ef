"""Avro schemas: logical types survive, releases say what they are, and a second reader agrees."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kanonflow.schemas.avro_names import avro_name
from kanonflow.schemas.avro_schema import (
    arrow_to_avro,
    avro_to_arrow,
    metrics_schema,
    rejected_schema,
    release_arrow_schema,
    release_avro_schema,
    transaction_schema,
)
from kanonflow.schemas.bound_policy import BoundPolicy, bind
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.policy_file import parse_policy

MILLISECONDS, MICROSECONDS = pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")
CANONICAL = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("y", pa.binary()),
        ("day", pa.date32()),
        ("ms", MILLISECONDS),
        ("us", MICROSECONDS),
        ("n", pa.decimal128(12, 2)),
        pa.field("needed", pa.int64(), nullable=False),
    ]
)


def release_of(window: str | None = "1d") -> BoundPolicy:
    """A bound policy with every kind of generalized field and odd names."""
    fields = {
        "lat": {"role": "quasi", "type": "numeric", "domain": [-90, 90], "grid": 0.1},
        "pay-grade": {"role": "quasi", "type": "numeric", "outside": "code", "domain": [0, 100]},
        "born": {"role": "quasi", "type": "date"},
        "2nd": {"role": "quasi", "type": "categorical"},
        "amount": "sensitive",
        "state": "insensitive",
    }
    if window:
        fields["when"] = {"role": "time"}
    mapping = {"version": 1, "k": 3, "window": window, "partition_by": ["state"], "fields": fields}
    columns = pa.schema(
        [
            ("when", MICROSECONDS),
            ("lat", pa.float64()),
            ("pay-grade", pa.decimal128(9, 2)),
            ("born", pa.date32()),
            ("2nd", pa.string()),
            ("amount", pa.decimal128(12, 2)),
            ("state", pa.string()),
        ]
    )
    policy = parse_policy({**mapping, "others": "drop"}, "", "p")
    return bind(policy, columns, text=False, source="x")


def through_avro(schema: dict[str, Any], rows: list[dict[str, Any]]) -> tuple[dict[str, Any], list[Any]]:
    """Schema and rows as a reader of an Avro file sees them."""
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), rows)
    file.seek(0)
    reader = fastavro.reader(file)
    rows = list(reader)
    return json.loads(json.dumps(reader.writer_schema)), rows


def test_canonical_types_survive_the_way_to_avro_and_back() -> None:
    """Every canonical type, nullable or not, has an Avro type of its own."""
    schema, _ = through_avro(arrow_to_avro(CANONICAL, "row"), [])
    assert avro_to_arrow(schema) == CANONICAL


def test_avro_types_without_an_arrow_twin() -> None:
    """Enums are text, fixed is bytes, local times have no zone, uuids are such; named types are remembered."""
    color = {"type": "enum", "name": "Color", "symbols": ["red"]}
    types: dict[str, Any] = {
        "a": color,
        "b": ["null", "Color"],
        "c": {"type": "fixed", "name": "Four", "size": 4},
        "d": {
            "type": "fixed",
            "name": "Price",
            "size": 8,
            "logicalType": "decimal",
            "precision": 9,
            "scale": 2,
        },
        "e": {"type": "long", "logicalType": "local-timestamp-micros"},
        "f": {"type": "string", "logicalType": "uuid"},
        "k": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"},
        "l": "Id",
        "m": {"type": "fixed", "name": "Half", "size": 8, "logicalType": "uuid"},
        "g": {"type": "array", "items": "long"},
        "h": {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]},
        "i": {"type": "map", "values": "long"},
        "j": ["null", "int", "string"],
    }
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    arrow = avro_to_arrow({"type": "record", "name": "R", "namespace": "n", "fields": fields})
    kinds = [pa.string(), pa.string(), pa.binary(), pa.decimal128(9, 2), pa.timestamp("us")]
    assert arrow.types[:9] == [*kinds, pa.uuid(), pa.uuid(), pa.uuid(), pa.binary()]
    assert arrow.field("b").nullable
    assert not arrow.field("a").nullable
    assert [pa.types.is_nested(kind) for kind in arrow.types[9:]] == [True] * 4


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "string"}, "not a record"),
        ([], "not a record"),
        (
            {"type": "record", "name": "R", "fields": [{"type": "int"}]},
            "a field of the Avro schema has no name",
        ),
        (
            {"type": "record", "name": "R", "fields": [{"name": "a\ud800", "type": "int"}]},
            r"field a\\ud800: its name in the Avro schema holds half of a character",
        ),
        (
            {"type": "record", "name": "R", "fields": [{"name": "x", "type": "Unknown"}]},
            "field x: .*not defined",
        ),
        ({"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "array"}}]}, "field x: "),
        (
            {
                "type": "record",
                "name": "R",
                "fields": [
                    {
                        "name": "x",
                        "type": {
                            "type": "record",
                            "name": "N",
                            "fields": [{"name": "n", "type": ["null", "N"]}],
                        },
                    }
                ],
            },
            "field x: .*recursive",
        ),
    ],
)
def test_unreadable_schemas_name_the_field(schema: Any, message: str) -> None:
    """A schema that cannot be read is an input error that says where."""
    with pytest.raises(InputError, match=message):
        avro_to_arrow(schema)


def test_the_release_schema() -> None:
    """Ids and window, generalized fields in the policy's order, partition fields, payload; valid names."""
    schema = release_arrow_schema(release_of())
    names = [
        "release_id",
        "window_start",
        "window_end",
        "lat",
        "pay_grade",
        "born",
        "_2nd",
        "state",
        "amount",
    ]
    assert schema.names == names
    assert schema.field("lat").type.field("min").type == pa.float64()
    assert not schema.field("lat").type.field("nulls").nullable
    assert schema.field("_2nd").type == pa.list_(pa.string())
    assert schema.field("amount").type == pa.decimal128(12, 2)
    assert not schema.field("window_end").nullable
    assert release_arrow_schema(release_of(None)).field("window_end").nullable


def test_a_release_in_avro_says_how_it_was_generalized() -> None:
    """A release survives the file, and its schema names the input's fields, types, grids and domains."""
    bound = release_of()
    schema = release_avro_schema(bound)
    row = {
        "release_id": "r",
        "window_start": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
        "window_end": dt.datetime(2020, 1, 2, tzinfo=dt.UTC),
        "lat": {"min": 40.8, "max": 41.0, "nulls": True},
        "pay_grade": {"min": Decimal("1.00"), "max": Decimal("2.00"), "nulls": False},
        "born": {"min": None, "max": None, "nulls": True},
        "_2nd": [None, "a"],
        "state": None,
        "amount": Decimal("12.50"),
    }
    table = pa.Table.from_pylist([row], release_arrow_schema(bound))
    read, rows = through_avro(schema, table.to_pylist())
    assert rows == [row]
    assert avro_to_arrow(read).names == release_arrow_schema(bound).names
    told = {field["name"]: field.get("kanonflow") for field in read["fields"]}
    assert told["lat"] == {
        "field": "lat",
        "role": "quasi",
        "type": "numeric",
        "grid": "0.1",
        "outside": "reject",
        "domain": ["-90", "90"],
    }
    assert (told["pay_grade"]["field"], told["pay_grade"]["outside"]) == ("pay-grade", "code")
    assert told["state"] == {"field": "state", "role": "insensitive"}
    assert read["kanonflow"] == {"k": 3, "protect": "row", "policy": "p"}


def test_packaged_schemas_are_valid() -> None:
    """Metrics, rejected rows and transactions load from the package and parse; every field has a doc."""
    for schema in (metrics_schema(), rejected_schema(), transaction_schema()):
        fastavro.parse_schema(json.loads(json.dumps(schema)))
        assert all(field["doc"] for field in schema["fields"])


def test_a_rejected_row_survives_the_file() -> None:
    """Missing cells are null, and so is a window that is not known."""
    row: dict[str, Any] = {
        "reason": "late",
        "field": None,
        "message": "too late",
        "window_end": None,
        "source": "a.csv",
    }
    row["part"] = "p"
    row["row"] = {"a": None, "b": "1"}
    unknown: dict[str, Any] = dict.fromkeys(("line", "raw", "header", "expected", "states"))
    assert through_avro(rejected_schema(), [row])[1] == [row | unknown | {"unread": []}]
    found = row | {"line": 1 << 40, "raw": "1,\\xff", "header": "a,b", "expected": "a number such as 12.5"}
    found |= {"unread": ["b"], "states": "3"}
    assert through_avro(rejected_schema(), [found])[1] == [found]


@pytest.mark.parametrize(
    ("name", "valid"),
    [("marital-status", "marital_status"), ("2nd", "_2nd"), ("é x", "__x"), ("ok_1", "ok_1")],
)
def test_avro_names(name: str, valid: str) -> None:
    """A name that Avro does not know becomes one that it knows; others stay."""
    assert avro_name(name) == valid
