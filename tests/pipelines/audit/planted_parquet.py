"""Faults to plant in the Parquet files of a good run: what such a file can carry beside the rows that it shows."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.pipelines.audit.good_runs import CARD, GoodRun, arrow_types, read, write, write_parquet


def _table(path: Path) -> tuple[dict[str, Any], pa.Table]:
    schema, rows = read(path)
    return schema, pa.Table.from_pylist(rows, arrow_types(schema))


def _with_types(run: GoodRun, change: Any) -> None:
    """Rewrite the first release with ``change`` applied to each of its fields."""
    schema, table = _table(run.releases[0])
    fields = pa.schema([change(field) for field in table.schema])
    write_parquet(run.releases[0], schema, table.cast(fields))


def schema_missing(run: GoodRun) -> None:
    out = BytesIO()
    pq.write_table(_table(run.releases[0])[1], out, store_schema=False)
    run.releases[0].write_bytes(out.getvalue())


def schema_of_arrow_kept(run: GoodRun) -> None:
    """The key that pyarrow writes unless it is told otherwise; it can hold metadata of every field."""
    schema, table = _table(run.releases[0])
    write_parquet(run.releases[0], schema, table, store_schema=True)


def statistics(run: GoodRun) -> None:
    schema, table = _table(run.releases[0])
    write_parquet(run.releases[0], schema, table, write_statistics=True)


def page_index(run: GoodRun) -> None:
    schema, table = _table(run.releases[0])
    write_parquet(run.releases[0], schema, table, write_statistics=True, write_page_index=True)


def number_of_a_field(run: GoodRun) -> None:
    """Four bytes of anything on each field, which no table shows."""
    _with_types(run, lambda field: field.with_metadata({"PARQUET:field_id": CARD[:8]}))


def another_writer(run: GoodRun) -> None:
    data = run.releases[0].read_bytes()
    spoiled = data.replace(b"parquet-cpp-arrow", b"parquet-" + CARD[:9].encode())
    assert spoiled != data
    run.releases[0].write_bytes(spoiled)


def value_that_no_row_has(run: GoodRun) -> None:
    """A dictionary with one value more than its column."""
    schema, table = _table(run.releases[0])
    coded = table.column("note").combine_chunks().dictionary_encode()
    wider = pa.concat_arrays([coded.dictionary, pa.array([f"{CARD}001"])])
    column = pa.DictionaryArray.from_arrays(coded.indices, wider)
    place = table.schema.get_field_index("note")
    write_parquet(run.releases[0], schema, table.set_column(place, "note", column))
    assert read(run.releases[0])[1] == table.to_pylist()


def values_in_another_order(run: GoodRun) -> None:
    """A dictionary whose values stand in another order, which could spell something."""
    schema, table = _table(run.releases[0])
    coded = table.column("note").combine_chunks().dictionary_encode()
    count = len(coded.dictionary)
    turned = pa.DictionaryArray.from_arrays(
        pa.array([count - 1 - each for each in coded.indices.to_pylist()], pa.int32()),
        coded.dictionary[::-1],
    )
    place = table.schema.get_field_index("note")
    write_parquet(run.releases[0], schema, table.set_column(place, "note", turned))
    assert read(run.releases[0])[1] == table.to_pylist()


def bytes_before_the_footer(run: GoodRun) -> None:
    data = run.releases[0].read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    run.releases[0].write_bytes(data[:end] + f"{CARD}001".encode() + data[end:])


def columns_in_another_order(run: GoodRun) -> None:
    schema, table = _table(run.releases[0])
    write_parquet(run.releases[0], schema, table.select(table.column_names[::-1]))


def column_twice(run: GoodRun) -> None:
    schema, table = _table(run.releases[0])
    write_parquet(run.releases[0], schema, table.append_column("note", table.column("ref")))


def column_never_null(run: GoodRun) -> None:
    _with_types(run, lambda field: field.with_nullable(field.nullable and field.name != "note"))


def wider_numbers(run: GoodRun) -> None:
    """Ages as whole numbers of 64 bits, all of them right."""

    def wider(field: pa.Field) -> pa.Field:
        if field.name != "age":
            return field
        ends = [pa.field(end, pa.int64()) for end in ("min", "max")]
        return field.with_type(pa.struct([*ends, field.type.field("nulls")]))

    _with_types(run, wider)


def cut_off(run: GoodRun) -> None:
    run.releases[0].write_bytes(run.releases[0].read_bytes()[:-30])


def the_same_in_avro_beside_it(run: GoodRun) -> None:
    path = run.releases[0]
    write(path.with_suffix(".avro"), *read(path))
