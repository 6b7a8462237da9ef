"""The column-wise Avro writer against fastavro's, and what it refuses."""

import datetime as dt
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.transforms.columns import avro_encoding
from kanonflow.transforms.columns.avro_encoding import (
    EncodingError,
    avro_file,
    encode_rows,
    same_records,
    varint,
)
from tests import naive

MARKER = bytes(range(16))
RANGE = {
    "type": "record",
    "name": "lat_range",
    "fields": [
        {"name": "min", "type": ["null", "double"]},
        {"name": "max", "type": ["null", "double"]},
        {"name": "nulls", "type": "boolean"},
    ],
}
FIELDS: dict[str, tuple[Any, pa.DataType, st.SearchStrategy]] = {
    "flag": ("boolean", pa.bool_(), st.booleans()),
    "small": ("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "large": ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "single": (["null", "float"], pa.float32(), st.none() | st.floats(width=32, allow_nan=False)),
    "double": (["double", "null"], pa.float64(), st.none() | st.floats(allow_nan=False)),
    "text": (["null", "string"], pa.string(), st.none() | st.text(max_size=5)),
    "raw": (["null", "bytes"], pa.binary(), st.none() | st.binary(max_size=5)),
    "day": (
        ["null", {"type": "int", "logicalType": "date"}],
        pa.date32(),
        st.none() | st.dates(),
    ),
    "instant": (
        ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        pa.timestamp("ms", "UTC"),
        st.none() | st.integers(-(2**40), 2**42).map(lambda ms: dt.datetime.fromtimestamp(ms / 1000, dt.UTC)),
    ),
    "money": (
        ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
        pa.decimal128(9, 2),
        st.none() | st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    ),
    "suit": (
        {"type": "enum", "name": "Suit", "symbols": ["hearts", "spades"]},
        pa.string(),
        st.sampled_from(["hearts", "spades"]),
    ),
    "box": (
        RANGE,
        pa.struct([("min", pa.float64()), ("max", pa.float64()), ("nulls", pa.bool_())]),
        st.fixed_dictionaries(
            {
                "min": st.none() | st.floats(allow_nan=False),
                "max": st.none() | st.floats(allow_nan=False),
                "nulls": st.booleans(),
            }
        ),
    ),
    "other_box": (
        ["null", "lat_range"],
        pa.struct([("min", pa.float64()), ("max", pa.float64()), ("nulls", pa.bool_())]),
        st.none() | st.just({"min": 0.5, "max": None, "nulls": True}),
    ),
    "values": (
        {"type": "array", "items": ["null", "string"]},
        pa.list_(pa.string()),
        st.lists(st.none() | st.text(max_size=3), max_size=4),
    ),
}
SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": name, "type": avro} for name, (avro, _, _) in FIELDS.items()],
}
ROWS = st.lists(st.fixed_dictionaries({name: values for name, (_, _, values) in FIELDS.items()}), max_size=20)


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {name: pa.array([row[name] for row in rows], kind) for name, (_, kind, _) in FIELDS.items()}
    )


@settings(derandomize=True, max_examples=60)
@given(rows=ROWS)
def test_encodes_every_type_like_the_row_by_row_writer(rows: list[dict[str, Any]]) -> None:
    """Each row has exactly the bytes that fastavro writes for it, for every type a release can hold."""
    assert encode_rows(_table(rows), SCHEMA) == naive.avro_rows(_table(rows).to_pylist(), SCHEMA)


@settings(derandomize=True, max_examples=20)
@given(rows=ROWS, begin=st.integers(0, 5))
def test_slices_and_chunks_encode_like_a_fresh_table(rows: list[dict[str, Any]], begin: int) -> None:
    """Offsets of a slice and borders of chunks do not show."""
    table = pa.concat_tables([_table(rows).slice(begin), _table(rows)])
    assert encode_rows(table, SCHEMA) == encode_rows(_table(rows[begin:] + rows), SCHEMA)


@settings(derandomize=True, max_examples=40)
@given(rows=ROWS, times=st.lists(st.integers(1, 3), min_size=20, max_size=20))
def test_rows_that_repeat_encode_like_each_alone(rows: list[dict[str, Any]], times: list[int]) -> None:
    """Equal cells that follow each other are encoded once, and stand there as often as they did."""
    repeated = [row for row, count in zip(rows, times, strict=False) for _ in range(count)]
    assert encode_rows(_table(repeated), SCHEMA) == naive.avro_rows(_table(repeated).to_pylist(), SCHEMA)


def test_what_neighbours_share_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that stands before the last nested field, by runs of rows that are equal in it; the schema, once a header."""
    schema: dict[str, Any] = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}]}
    schema["fields"].append({"name": "set", "type": {"type": "array", "items": "string"}})
    schema["fields"].append({"name": "word", "type": "string"})
    rows = [{"n": place // 4, "set": ["a", "b"][: place // 6], "word": str(place)} for place in range(12)]
    types = {"n": pa.int64(), "set": pa.list_(pa.string()), "word": pa.string()}
    table = pa.Table.from_pylist(rows, schema=pa.schema(types))
    sizes: list[int] = []
    encode = avro_encoding._encode
    monkeypatch.setattr(
        avro_encoding, "_encode", lambda array, *rest: sizes.append(len(array)) or encode(array, *rest)
    )
    assert encode_rows(table, schema) == naive.avro_rows(rows, schema)
    # Runs begin at 0, 4, 6 and 8; between them stand the items of the sets.
    assert sizes == [4, 4, 2, 12]
    avro_file(table, schema, MARKER)
    monkeypatch.setattr(avro_encoding.fastavro, "writer", None)
    again = avro_file(table, schema, bytes(16))
    assert again[:3] + again[-16:] == b"Obj" + bytes(16)


@settings(derandomize=True, max_examples=60)
@given(unscaled=st.lists(st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-70_000, 70_000), max_size=30))
def test_decimals_of_any_size(unscaled: list[int]) -> None:
    """As few bytes as hold the number and its sign, up to all 16."""
    avro = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
    schema = {"type": "record", "name": "Row", "fields": [{"name": "x", "type": avro}]}
    table = pa.table({"x": pa.array([Decimal(each) for each in unscaled], pa.decimal128(38, 0))})
    expected = [
        (sized := each.to_bytes((each if each >= 0 else ~each).bit_length() // 8 + 1, "big", signed=True))
        and varint(len(sized)) + sized
        for each in unscaled
    ]
    assert encode_rows(table, schema) == expected


def test_a_second_reader_opens_the_file(tmp_path: Any) -> None:
    """polars, which has its own Avro reader, and fastavro read what was written, over several blocks."""
    import polars

    table = pa.table({"n": pa.array(range(10_000)), "word": pa.array(["a", None] * 5_000)})
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "n", "type": "long"}, {"name": "word", "type": ["null", "string"]}],
    }
    path = tmp_path / "rows.avro"
    path.write_bytes(avro_file(table, schema, MARKER))
    assert polars.read_avro(path).rows() == [(row["n"], row["word"]) for row in table.to_pylist()]
    assert list(fastavro.reader(path.open("rb"))) == table.to_pylist()


def test_equal_rows_give_equal_bytes_and_other_compression_the_same_records() -> None:
    """Files are functions of rows, schema and marker; compressed otherwise they still count as the same."""
    schema = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "long"}]}
    table = pa.table({"n": pa.array(range(5_000))})
    data = avro_file(table, schema, MARKER)
    assert data == avro_file(table, schema, MARKER)
    out = BytesIO()
    fastavro.writer(out, schema, table.to_pylist(), codec="null", sync_marker=MARKER)
    assert same_records(data, out.getvalue())
    assert not same_records(data, avro_file(table.slice(1), schema, MARKER))
    assert not same_records(data[:-1], data)


@pytest.mark.parametrize("value", [0, -1, 63, 64, -65, 2**63 - 1, -(2**63)])
def test_varint_is_avros_long(value: int) -> None:
    """varint writes what fastavro writes for a long."""
    out = BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    assert varint(value) == out.getvalue()


@pytest.mark.parametrize(
    ("column", "avro", "message"),
    [
        (pa.array([1, None]), "long", "field x: a null, but the schema has no null for it"),
        (pa.array(["a"]), "long", "field x: string does not fit Avro type long"),
        (pa.array([1]), "string", "field x: int64 does not fit Avro type string"),
        (pa.array([1]), ["null", "long", "string"], "field x: only unions of null and one other type"),
        (pa.array(["secret"]), {"type": "enum", "name": "E", "symbols": ["a"]}, "field x: 1 values are no"),
    ],
)
def test_what_does_not_fit_is_refused_without_a_value(column: pa.Array, avro: Any, message: str) -> None:
    """A column that cannot be written is an error that names the field, and no value."""
    schema = {"type": "record", "name": "Row", "fields": [{"name": "x", "type": avro}]}
    with pytest.raises(EncodingError) as error:
        encode_rows(pa.table({"x": column}), schema)
    assert message in str(error.value)
    assert "secret" not in str(error.value)
