"""Dates, times, decimals and UUIDs read as a file holds them are those that the decoder makes objects of."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.feeds.columnar_files import avro_file_schema, read_avro
from kanonflow.schemas.errors import InputError

UTC = datetime.UTC
TYPES: dict[str, Any] = {
    "day": {"type": "int", "logicalType": "date"},
    "millis": {"type": "long", "logicalType": "timestamp-millis"},
    "micros": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-millis"},
    "amount": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2},
    "large": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4},
    "clock": {"type": "int", "logicalType": "time-millis"},
    "fine_clock": {"type": "long", "logicalType": "time-micros"},
    "id": {"type": "string", "logicalType": "uuid"},
}
SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            field
            for name, kind in TYPES.items()
            for field in ({"name": name, "type": kind}, {"name": f"{name}_or_none", "type": ["null", kind]})
        ],
    }
)
DAYS = st.dates()
TIMES = st.datetimes(
    datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000), timezones=st.just(UTC)
)
VALUES = {
    "day": DAYS,
    "millis": TIMES.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    "micros": TIMES,
    "local": TIMES.map(lambda time: time.replace(microsecond=0, tzinfo=None)),
    "amount": st.integers(-(10**18) + 1, 10**18 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    "clock": st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
    "fine_clock": st.times(),
    "id": st.uuids(),
    "large": st.integers(-(10**26), 10**26).map(lambda parts: Decimal(parts).scaleb(-4)),
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {**VALUES, **{f"{name}_or_none": st.none() | values for name, values in VALUES.items()}}
    ),
    min_size=1,
    max_size=8,
)


def written(path: Path, rows: list[dict[str, Any]], schema: Any = SCHEMA) -> Path:
    """The rows as an Avro file."""
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, rows)
    return path


@settings(derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS)
def test_the_columns_are_those_of_the_decoders_objects(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    """Also at the ends of the calendar and of 18 digits, below zero, and beside nulls."""
    path = written(tmp_path_factory.mktemp("avro") / "rows.avro", rows)
    schema = avro_file_schema(str(path))
    with path.open("rb") as stream:
        decoded = list(fastavro.reader(stream))
    expected = pa.Table.from_arrays(
        [pa.array([row[field.name] for row in decoded], field.type) for field in schema], schema=schema
    )
    found = pa.Table.from_batches(read_avro(str(path), schema.names))
    found.validate(full=True)
    assert found.equals(expected)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("day", -719_163),
        ("day", 2_932_897),
        ("millis", -62_135_596_800_001),
        ("millis", 253_402_300_800_000),
        ("micros", -62_135_596_800_000_001),
        ("micros", 253_402_300_800_000_000),
        ("clock", 86_400_000),
        ("fine_clock", 86_400_000_000),
        ("id", "1234"),
        ("amount", (10**18).to_bytes(8, "big", signed=True)),
        ("amount", (-(10**18)).to_bytes(8, "big", signed=True)),
        ("amount", (1 << 63).to_bytes(9, "big", signed=True)),
    ],
)
def test_what_the_decoder_refuses_is_refused(tmp_path: Path, name: str, number: int | bytes | str) -> None:
    """No date of the years 1 to 9999, more digits than the type has: the decoder or Arrow stopped at these too."""
    logical = {"type": "record", "name": "Row", "fields": [{"name": name, "type": TYPES[name]}]}
    bare = {"type": "record", "name": "Row", "fields": [{"name": name, "type": TYPES[name]["type"]}]}
    data = written(tmp_path / "bare.avro", [{name: number}], fastavro.parse_schema(bare)).read_bytes()
    header = written(tmp_path / "header.avro", [], fastavro.parse_schema(logical)).read_bytes()
    # Blocks end with the marker of their own header.
    path = tmp_path / "rows.avro"
    bare_header = written(tmp_path / "empty.avro", [], fastavro.parse_schema(bare)).read_bytes()
    path.write_bytes(header + data[len(bare_header) : -16] + header[-16:])
    schema = avro_file_schema(str(path))
    with path.open("rb") as stream, pytest.raises((OverflowError, ValueError, pa.ArrowInvalid)):
        pa.array([row[name] for row in fastavro.reader(stream)], schema.field(name).type)
    with pytest.raises(InputError, match=name):
        list(read_avro(str(path), [name]))
