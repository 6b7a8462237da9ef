"""Releases as Beam rows: every field with a type that Beam knows, and the values of the release."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet
import pytest
from apache_beam.coders import registry
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.flink_runner import FlinkRunner
from apache_beam.testing.util import assert_that
from apache_beam.typehints import schemas
from apache_beam.utils.timestamp import Timestamp

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.errors import PolicyError
from kanonflow.transforms.anonymize import KAnonymize
from kanonflow.transforms.rows.elements import RejectedRows, Release, to_ipc
from kanonflow.transforms.sinks.beam_rows import (
    REJECTED_ROW,
    RejectedAsRows,
    ReleasedRows,
    beam_rows,
    rejected_rows,
    row_type,
)
from kanonflow.transforms.sinks.durable_boundary import STABLE_INPUT
from tests.runners import bounded_pipeline
from tests.small_feeds import SECRET, bound_feed, feed_policy, hourly

TIME = dt.time(3, 4, 5, 678901)
DAY = dt.date(1969, 12, 31)
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("start", pa.timestamp("ms", "UTC")),
        pa.field("exact", pa.timestamp("us", "UTC")),
        pa.field(
            "age",
            pa.struct(
                [("min", pa.int32()), ("max", pa.int32()), pa.field("nulls", pa.bool_(), nullable=False)]
            ),
            nullable=False,
        ),
        pa.field("jobs", pa.list_(pa.string()), nullable=False),
        pa.field("days", pa.list_(pa.date32()), nullable=False),
        pa.field("price", pa.decimal128(8, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.time64("us")),
        pa.field("raw", pa.binary()),
        pa.field("share", pa.float32()),
        pa.field("yes", pa.bool_()),
    ]
)
FIRST: dict[str, Any] = {
    "id": "a",
    "start": dt.datetime(1969, 12, 31, 23, 59, 59, 500_000, dt.UTC),
    "exact": dt.datetime(2024, 3, 1, 0, 0, 0, 1, dt.UTC),
    "age": {"min": 1, "max": 9, "nulls": True},
    "jobs": ["cook", None],
    "days": [DAY],
    "price": Decimal("1.20"),
    "day": DAY,
    "at": TIME,
    "raw": b"\x00",
    "share": 0.5,
    "yes": True,
}
SECOND: dict[str, Any] = dict.fromkeys(FIRST) | {
    "id": "b",
    "age": {"min": None, "max": None, "nulls": True},
    "jobs": [],
    "days": [None, DAY],
}
TABLE = pa.Table.from_pylist([FIRST, SECOND], SCHEMA)
TYPED = [
    {
        **FIRST,
        "start": Timestamp(micros=-500_000),
        "exact": Timestamp(1_709_251_200, 1),
        "age": (1, 9, True),
        "at": "03:04:05.678901",
    },
    {**SECOND, "age": (None, None, True)},
]
PLAIN = [
    {
        **TYPED[0],
        "start": "1969-12-31T23:59:59.500Z",
        "exact": "2024-03-01T00:00:00.000001Z",
        "days": ["1969-12-31"],
        "price": "1.20",
        "day": "1969-12-31",
    },
    {**TYPED[1], "days": [None, "1969-12-31"]},
]


@pytest.mark.parametrize(("plain", "wanted"), [(False, TYPED), (True, PLAIN)], ids=["typed", "plain"])
@pytest.mark.parametrize("rows", [slice(0, 2), slice(1, 2), slice(0, 0)], ids=["all", "a slice", "none"])
def test_rows_hold_the_values_of_the_table(plain: bool, wanted: list[dict[str, Any]], rows: slice) -> None:
    """Nulls, sets without members, days before 1970, microseconds; also of a table that begins within another."""
    part = TABLE.slice(rows.start, rows.stop - rows.start)
    found = list(beam_rows(part, row_type(SCHEMA, plain=plain), plain=plain))
    assert [each._asdict() for each in found] == wanted[rows]
    assert all(each.age.nulls for each in found)


@pytest.mark.parametrize("plain", [False, True], ids=["typed", "plain"])
def test_every_field_has_a_type_that_beam_knows(plain: bool) -> None:
    """A type that it does not know travels as a pickle, and nothing but Python reads it. Coding changes nothing."""
    kind = row_type(SCHEMA, plain=plain)
    schema = schemas.schema_from_element_type(kind)
    assert [field.name for field in schema.fields] == SCHEMA.names
    assert "pythonsdk_any" not in str(schema)
    assert {field.name for field in schema.fields if not field.type.nullable} == {"id", "age", "jobs", "days"}
    coder = registry.get_coder(kind)
    assert type(coder).__name__ == "RowCoder"
    for row in beam_rows(TABLE, kind, plain=plain):
        assert coder.decode(coder.encode(row)) == row


def test_the_rejected_have_such_types_too() -> None:
    """And their values."""
    assert "pythonsdk_any" not in str(schemas.schema_from_element_type(REJECTED_ROW))
    record = {
        "reason": "late",
        "field": None,
        "message": "m",
        "window_end": dt.datetime(2024, 3, 1, tzinfo=dt.UTC),
        "source": "feed.csv",
        "row": {"who": "p1", "age": None},
    }
    (row,) = rejected_rows(RejectedRows("", (record,)))
    assert (row.reason, row.field, row.window_end, row.line) == ("late", None, "2024-03-01T00:00:00Z", None)
    coder = registry.get_coder(REJECTED_ROW)
    assert coder.decode(coder.encode(row)).row == {"who": "p1", "age": None}
    milliseconds = record | {"window_end": 1_709_251_200_000}
    assert next(rejected_rows(RejectedRows("", (milliseconds,)))) == row


@pytest.mark.parametrize("name", ["class", "_id"])
def test_a_name_that_no_row_can_have_is_refused_with_the_pipeline(name: str) -> None:
    """Beam would raise in the middle of a step."""
    policy = feed_policy()
    fields = {each.name: each for each in policy.fields}
    town = fields["town"]
    renamed = replace(
        policy,
        fields=tuple(replace(each, name=name) if each is town else each for each in policy.fields),
    )
    with pytest.raises(
        PolicyError, match=f"fields.{name}: is published under a name that no Beam row can have"
    ):
        ReleasedRows(bound_feed(renamed))


def test_layout_gives_the_fields() -> None:
    """Of the empty table already, before anything runs."""
    bound = bound_feed(feed_policy())
    step = ReleasedRows(bound, lay_out=lambda table: table.select(["reference"]))
    assert [name for name, _ in step.row_type._fields] == ["reference"]
    empty = release_arrow_schema(bound).empty_table()
    with bounded_pipeline() as pipeline:
        rows = pipeline | beam.Create([Release("r", None, None, to_ipc(empty))]) | step
        assert_that(rows, _nothing)


@pytest.mark.parametrize(
    ("runner", "flags", "wanted"),
    [
        (FlinkRunner, ["--streaming"], True),
        (FlinkRunner, [], False),
        (BundleBasedDirectRunner, ["--streaming"], False),
    ],
    ids=["checkpointed", "bounded", "local"],
)
def test_rows_stand_behind_the_runners_boundary(
    runner: type[beam.runners.PipelineRunner], flags: list[str], wanted: bool
) -> None:
    """On Flink a replay must not send another version of a release to whatever sink comes next."""
    pipeline = beam.Pipeline(runner=runner(), options=PipelineOptions(flags))
    releases = pipeline | beam.Create([])
    _ = releases | ReleasedRows(bound_feed(feed_policy()))
    graph = pipeline.to_runner_api()
    makers = [step for step in graph.components.transforms.values() if step.unique_name.endswith("/Make")]
    (behind,) = {name for step in makers for name in step.inputs.values()}
    steps = graph.components.transforms.values()
    before = " ".join(step.unique_name for step in steps if behind in step.outputs.values())
    assert ("Checkpointed" in before) is wanted
    assert (STABLE_INPUT in graph.requirements) is wanted


def _nothing(found: list[Any]) -> None:
    assert found == []


@pytest.mark.thorough
def test_other_transforms_see_the_fields(tmp_path: Path) -> None:
    """Select by name, and WriteToParquet without a schema: it takes that of the rows."""
    bound = bound_feed(feed_policy(max_delay="1h"))
    with bounded_pipeline() as pipeline:
        out = pipeline | beam.Create(hourly(3, 9, 12, seed=2)) | KAnonymize(bound, SECRET)
        picked = out.rows | beam.Select("reference", least=lambda row: row.age.min)
        assert [name for name, _ in picked.element_type._fields] == ["reference", "least"]
        flat = out.released | ReleasedRows(bound, plain=True)
        flat | beam.io.WriteToParquet(str(tmp_path / "rows"))
        assert_that(picked, _whole_numbers)
        assert_that(out.rejected | RejectedAsRows(), _have_reasons, label="rejected")
    table = pyarrow.parquet.read_table(tmp_path)
    assert table.column("age").type.field("min").type == pa.int64()
    assert table.column("window_end").to_pylist()[0].startswith("2024-03-01T0")
    assert len(set(table.column("reference").to_pylist())) == table.num_rows > 15


def _whole_numbers(found: list[Any]) -> None:
    assert len(found) > 15
    assert all(isinstance(row.least, int) for row in found)


def _have_reasons(found: list[Any]) -> None:
    assert found
    assert all(row.reason for row in found)
