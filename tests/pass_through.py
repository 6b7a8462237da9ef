"""Stands in for the anonymizer in tests of what is around it: every batch is a release that hides nothing."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput
from apache_beam.typehints.decorators import no_annotations

from kanonflow.schemas.avro_schema import metrics_defaults, release_arrow_schema
from kanonflow.schemas.bound_policy import FAULT_COLUMN, BoundPolicy
from kanonflow.transforms.release.rejected import fault_records
from kanonflow.transforms.rows.classify import classify
from kanonflow.transforms.rows.elements import RawBatch, RejectedRows, Release, from_ipc, to_ipc


class Outputs(NamedTuple):
    """Shaped like the outputs of KAnonymize."""

    released: beam.PCollection
    metrics: beam.PCollection
    rejected: beam.PCollection
    carried: beam.PCollection
    divided: beam.PCollection | None = None


class PassThrough(beam.PTransform):
    """RawBatch -> Outputs. ``lose``: a fault to plant: how many rows of each batch vanish."""

    def __init__(self, bound: BoundPolicy, lose: int = 0) -> None:
        super().__init__()
        self._do = _Publish(bound, lose)

    @no_annotations
    def expand(self, batches: beam.PCollection) -> Outputs:
        out = batches | beam.ParDo(self._do).with_outputs("metrics", "rejected", "carried", main="released")
        return Outputs(out.released, out.metrics, out.rejected, out.carried)


class _Publish(beam.DoFn):
    def __init__(self, bound: BoundPolicy, lose: int) -> None:
        super().__init__()
        self._bound = bound
        self._lose = lose

    def process(self, batch: RawBatch) -> Iterable[Any]:
        rows, rejected = classify(from_ipc(batch.ipc), self._bound)
        if FAULT_COLUMN in rows.schema.names:
            # To this stand-in nobody is known.
            rejected = [*rejected, *fault_records(rows, self._bound)]
            rows = rows.filter(rows.column(FAULT_COLUMN).is_null())
        if batch.broken or rejected:
            yield TaggedOutput("rejected", RejectedRows(batch.name, (*batch.broken, *rejected)))
        rows = rows.slice(self._lose)
        if rows.num_rows:
            told = metrics_record(batch.name, rows_released=rows.num_rows)
            boxes = to_ipc(exact_boxes(rows, self._bound, batch.name))
            yield Release(batch.name, None, None, boxes, metrics=told)
            yield TaggedOutput("metrics", told)


def exact_boxes(rows: pa.Table, bound: BoundPolicy, release_id: str) -> pa.Table:
    """Canonical rows in the release's schema, each in the box of its own values."""
    schema = release_arrow_schema(bound)
    values: dict[str, list[Any]] = {"release_id": [release_id] * rows.num_rows}
    window = None if bound.policy.time is None else 0
    values |= dict.fromkeys(("window_start", "window_end"), [window] * rows.num_rows)
    if bound.policy.lasting:
        values["class_id"] = list(range(rows.num_rows))
    for column in bound.quasis:
        own = rows.column(column.name).to_pylist()
        values[column.published_name] = [
            [value] if not column.in_ranges else {"min": value, "max": value, "nulls": value is None}
            for value in own
        ]
    for column in bound.payload:
        values[column.published_name] = rows.column(column.name).to_pylist()
    return pa.table(values, schema=schema)


def metrics_record(release_id: str, **changes: Any) -> Mapping[str, Any]:
    """A complete record of metrics.avsc; keywords replace its fields."""
    record: dict[str, Any] = {
        **metrics_defaults(),
        "release_id": release_id,
        "policy": "test",
        "partition": "00",
        "release_no": 0,
        "released": True,
        "kind": "window",
        "k": 5,
        "protect": "row",
        "solver": "none",
        "rows_new": 0,
        "rows_waited": 0,
        "rows_waiting": 0,
        "rows_rejected": {},
        "waiting_reasons": {},
        "gcp": 0.123456,
        "lower_bound": 0.1,
        "solve_ms": 2.0,
        "publish_ms": 1.0,
        "versions": {},
    }
    unknown = changes.keys() - record.keys()
    if unknown:
        raise KeyError(f"no field of metrics.avsc: {', '.join(sorted(unknown))}")
    return record | changes
