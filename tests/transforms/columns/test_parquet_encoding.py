"""The Parquet file of a release: what other tools read of it, that equal rows are equal bytes, and what is in it."""

import json
import math
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kanonflow.schemas.avro_schema import release_arrow_schema, release_avro_schema
from kanonflow.schemas.release_format import SCHEMA_KEY
from kanonflow.transforms.columns import parquet_encoding
from kanonflow.transforms.columns.avro_encoding import EncodingError, avro_file
from kanonflow.transforms.columns.parquet_encoding import parquet_file, same_releases
from kanonflow.transforms.rows.elements import from_ipc, to_ipc
from tests.made_releases import Made, made

EPOCH = 7


def _written(release: Made) -> bytes:
    return parquet_file(release.released, release_avro_schema(release.bound, EPOCH))


def _read(data: bytes) -> pa.Table:
    return pq.ParquetFile(BytesIO(data)).read()


@pytest.mark.parametrize("nulls", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("head", [{"lasting": True}, {"windows": False}, {}])
def test_every_value_of_every_type_comes_back(nulls: float, head: dict[str, bool]) -> None:
    """With nulls in no, some and all cells of every kind of field; the types are the release's, nullability as well."""
    release = made(5, 60, nulls=nulls, **head)
    table = _read(_written(release))
    assert table.to_pylist() == release.released.to_pylist()
    expected = release_arrow_schema(release.bound)
    for found, field in zip(table.schema, expected, strict=True):
        assert (found.name, found.nullable, found.type) == (field.name, field.nullable, field.type)
        if pa.types.is_struct(field.type):
            assert [part.nullable for part in found.type] == [part.nullable for part in field.type]
    assert table.column("age").type.field("nulls").nullable is False


def test_minus_zero_stays_minus_zero() -> None:
    """Its sign is part of the value that the matching record vouches for."""
    release = made(2, 12)
    place = release.released.schema.get_field_index("score")
    scores = pa.array([0.0, -0.0] * 6)
    rows = release.released.set_column(place, release.released.schema.field(place), scores)
    found = _read(parquet_file(rows, release_avro_schema(release.bound))).column("score").to_pylist()
    assert [math.copysign(1, value) for value in found] == [1.0, -1.0] * 6


def test_equal_rows_are_equal_bytes() -> None:
    """However they were cut into chunks, carried between workers, or dressed with metadata."""
    release = made(1, 200, lasting=True)
    expected = _written(release)
    rows = release.released
    cut = pa.concat_tables([rows.slice(0, 7), rows.slice(7, 100), rows.slice(107)])
    dressed = rows.replace_schema_metadata({"pandas": "of somebody"}).cast(
        pa.schema([field.with_metadata({"PARQUET:field_id": "7"}) for field in rows.schema])
    )
    for same in (cut, from_ipc(to_ipc(rows.combine_chunks())), dressed, _read(expected)):
        assert _written(release._replace(released=same)) == expected


def test_a_file_holds_rows_and_schema_and_nothing_else() -> None:
    """One key of metadata, pyarrow's name, no statistics of values, no index, one group of rows."""
    release = made(1, 200, lasting=True)
    metadata = pq.ParquetFile(BytesIO(_written(release))).metadata
    schema = release_avro_schema(release.bound, EPOCH)
    assert {key: json.loads(value) for key, value in metadata.metadata.items()} == {
        SCHEMA_KEY.encode(): schema
    }
    assert schema["kanonflow"]["epoch"] == "0000000000000007"
    assert metadata.created_by == f"parquet-cpp-arrow version {pa.__version__}"
    assert (metadata.num_rows, metadata.num_row_groups) == (200, 1)
    group = metadata.row_group(0)
    assert not group.sorting_columns
    for place in range(group.num_columns):
        column = group.column(place)
        assert not column.is_stats_set
        assert (column.has_column_index, column.has_offset_index) == (False, False)
        assert (column.compression, column.file_path, column.metadata) == ("GZIP", "", None)


def test_rows_fall_into_groups_of_a_fixed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a large release can be read in parts."""
    monkeypatch.setattr(parquet_encoding, "ROWS_PER_GROUP", 64)
    release = made(1, 200)
    metadata = pq.ParquetFile(BytesIO(_written(release))).metadata
    assert [metadata.row_group(place).num_rows for place in range(4)] == [64, 64, 64, 8]


def test_the_same_release_in_any_spelling() -> None:
    """Of another compression, and as Avro; not with a row less, two rows exchanged, another epoch, or damaged."""
    release = made(3, 40, lasting=True)
    schema, rows = release_avro_schema(release.bound, EPOCH), release.released
    data, avro, out = _written(release), avro_file(rows, schema, bytes(16)), BytesIO()
    with pq.ParquetWriter(out, rows.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({SCHEMA_KEY: json.dumps(schema)})
    for one, other in ((data, data), (data, out.getvalue()), (data, avro), (avro, data), (avro, avro)):
        assert same_releases(one, other)
    exchanged = rows.take(pa.array([1, 0, *range(2, 40)]))
    others = [
        parquet_file(rows.slice(1), schema),
        parquet_file(exchanged, schema),
        parquet_file(rows, release_avro_schema(release.bound, 8)),
        avro_file(rows.slice(1), schema, bytes(16)),
        data[:-1],
        b"",
        b"PAR1",
    ]
    for other in others:
        assert not same_releases(data, other)
        assert not same_releases(other, data)
        assert not same_releases(avro, other)


def _renamed(rows: pa.Table) -> pa.Table:
    return rows.rename_columns([*rows.column_names[:-1], "other"])


def _retyped(rows: pa.Table) -> pa.Table:
    place = rows.schema.get_field_index("count")
    return rows.set_column(place, "count", rows.column("count").cast(pa.int32()))


def _null_id(rows: pa.Table) -> pa.Table:
    ids = pa.array([None] * rows.num_rows, pa.string())
    return pa.table([ids, *rows.columns[1:]], schema=rows.schema)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_renamed, "not those of the schema: other, uid"),
        (_retyped, "not those of the schema: count"),
        (lambda rows: rows.select(rows.column_names[::-1]), "another order"),
        (lambda rows: rows.drop_columns(["note"]), "not those of the schema: note"),
        (_null_id, "do not fit their Parquet types"),
    ],
)
def test_other_columns_are_refused(change: Any, told: str) -> None:
    """By field, without a value."""
    release = made(1, 12)
    with pytest.raises(EncodingError, match=told):
        parquet_file(change(release.released), release_avro_schema(release.bound))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A release with nulls in every kind of field."""
    path = tmp_path / "r.parquet"
    path.write_bytes(_written(made(1, 60, lasting=True)))
    return path


def _expected() -> list[dict[str, Any]]:
    return made(1, 60, lasting=True).released.to_pylist()


def test_polars_reads_it(file: Path) -> None:
    """Structs, lists and scalars are those that were released."""
    frame = polars.read_parquet(file)
    assert frame.to_dicts() == _expected()
    assert frame.schema["gender"] == polars.List(polars.String)
    young = frame.filter(polars.col("age").struct.field("max") <= 20).height
    assert young == sum((row["age"]["max"] or 99) <= 20 for row in _expected())


def test_duckdb_reads_it_without_a_network(file: Path) -> None:
    """Nested fields in SQL; every type has one of DuckDB's own."""
    asked = f"""select age.min, age.max, gender, amount, "at", moment, raw from '{file}'"""
    found = duckdb.sql(asked).fetchall()
    names = ("gender", "amount", "at", "moment", "raw")
    expected = [(row["age"]["min"], row["age"]["max"], *(row[name] for name in names)) for row in _expected()]
    assert found == expected
    told = duckdb.sql(f"describe from '{file}'").fetchall()
    kinds = {name: kind.replace('"', "") for name, kind, *_ in told}
    assert kinds["age"] == "STRUCT(min INTEGER, max INTEGER, nulls BOOLEAN)"
    assert kinds["income"] == "STRUCT(min DECIMAL(9,2), max DECIMAL(9,2), nulls BOOLEAN)"
    assert (kinds["gender"], kinds["at"], kinds["moment"]) == (
        "VARCHAR[]",
        "TIME",
        "TIMESTAMP WITH TIME ZONE",
    )


def test_pandas_reads_it(file: Path) -> None:
    """With Arrow's types, in which nested cells and missing whole numbers stay what they are."""
    frame = pandas.read_parquet(file, dtype_backend="pyarrow")
    assert pa.Table.from_pandas(frame, preserve_index=False).to_pylist() == _expected()


def test_a_column_is_read_without_the_others(file: Path) -> None:
    """Of a range one end; what is read of Avro is whole rows."""
    ends = polars.scan_parquet(file).select(polars.col("born").struct.field("max")).collect()
    assert ends["max"].to_list() == [row["born"]["max"] for row in _expected()]
    (column,) = pq.ParquetFile(file).read(columns=["born.max"]).columns
    assert column.combine_chunks().flatten()[0].to_pylist() == ends["max"].to_list()
