"""Releases and rejected rows as Beam rows: elements whose fields every other transform of a pipeline sees.

What a column of a release becomes
    whole number, number, text, boolean, bytes     int, float, str, bool, bytes
    day, instant, decimal                          date, Timestamp, Decimal; plain: text, as in ISO 8601
    time of day                                    text (Beam's own type for it keeps milliseconds only)
    range                                          a row of min, max and nulls
    set                                            a list
Ranges and sets are never null themselves.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from keyword import iskeyword
from typing import Any, Optional

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.typehints.decorators import no_annotations
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from kanonflow.schemas.avro_schema import release_arrow_schema
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import PolicyError
from kanonflow.schemas.kinds.category import Bytes, Truths
from kanonflow.schemas.kinds.date import Days, Instants
from kanonflow.schemas.kinds.form import Form
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.kinds.number import DecimalForm, FloatForm, Whole
from kanonflow.transforms.rows.elements import RejectedRows, Release, from_ipc
from kanonflow.transforms.sinks.durable_boundary import durable_boundary

_EPOCH = datetime.datetime(1970, 1, 1)


def _nullable(kind: Any) -> Any:
    """The type of a field that may be null. Of ``kind | None`` Beam makes a pickle of anything."""
    return Optional[kind]  # noqa: UP045


REJECTED_ROW = RowTypeConstraint.from_fields(
    [
        ("reason", str),
        ("field", _nullable(str)),
        ("message", str),
        ("window_end", _nullable(str)),
        ("source", _nullable(str)),
        ("line", _nullable(int)),
        ("row", Mapping[str, _nullable(str)]),  # type: ignore[misc]
    ]
)
"""A record of rejected.avsc as a row. Raw data: it stays where the input is. window_end: text as in ISO 8601. line: the
row's place in its source. row: every kept field as text."""


class ReleasedRows(beam.PTransform):
    """PCollection[Release] -> PCollection[beam.Row], a row for each released record.

    bound: the policy that they were released under; its release schema gives the fields. The rows keep the time and
    the window of their release.
    plain: days, instants and decimals are text. Formats whose writers know no logical type of Beam need that:
    ``WriteToParquet`` and ``WriteToCsv`` without a schema of one's own.
    lay_out: called with each release's table, to make another one of it; None: nested, as released.

    The rows stand behind a ``durable_boundary``: a bundle that runs again makes the same rows. They come once more
    then, so a sink publishes exactly once only as far as it does that itself. And when a job goes on from an older
    state, nothing compares them with what is published already, as ``WriteReleases`` does.
    Raises PolicyError: a field is published under a name that no row can have.
    """

    def __init__(
        self,
        bound: BoundPolicy,
        *,
        plain: bool = False,
        lay_out: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        super().__init__()
        empty = release_arrow_schema(bound).empty_table()
        self.schema = (empty if lay_out is None else lay_out(empty)).schema
        _refuse_names(self.schema.names, bound.policy.name)
        self.row_type = row_type(self.schema, plain=plain)
        self._plain = plain
        self._lay_out = lay_out

    @no_annotations
    def expand(self, releases: beam.PCollection) -> beam.PCollection:
        """The boundary of the pipeline's runner, and one step."""
        pipeline = releases.pipeline
        streaming = bool(pipeline.options.view_as(StandardOptions).streaming)
        boundary = durable_boundary(type(pipeline.runner).__name__, streaming=streaming)
        step = beam.ParDo(_ToRows(self.row_type, self._plain, self._lay_out))
        return releases | "Stable" >> boundary | "Make" >> step.with_output_types(self.row_type)


class RejectedAsRows(beam.PTransform):
    """PCollection[RejectedRows] -> PCollection[beam.Row] of ``REJECTED_ROW``, an element for each rejected record."""

    @no_annotations
    def expand(self, rejected: beam.PCollection) -> beam.PCollection:
        """One step."""
        return rejected | "Rows" >> beam.FlatMap(rejected_rows).with_output_types(REJECTED_ROW)


def row_type(schema: pa.Schema, *, plain: bool = False) -> RowTypeConstraint:
    """The type of rows of these columns, which all must have names that Python takes."""
    return RowTypeConstraint.from_fields([(field.name, _type_of(field, plain)) for field in schema])


def beam_rows(table: pa.Table, kind: RowTypeConstraint, *, plain: bool = False) -> Iterator[Any]:
    """The rows of a table as named tuples of the type (``row_type`` of its schema), O(cells).

    beam.Row would do but for ranges: writers that go by Arrow know tuples as structs, and no Row.
    """
    kinds = dict(kind._fields)
    columns = [
        _values(column.combine_chunks(), kinds[name], plain)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    yield from map(kind.user_type, *columns)


def rejected_rows(rejected: RejectedRows) -> Iterator[beam.Row]:
    """Each record by itself."""
    for record in rejected.records:
        end = record["window_end"]
        yield beam.Row(
            reason=record["reason"],
            field=record["field"],
            message=record["message"],
            window_end=None if end is None else _instant_text(_milliseconds(end) * 1000),
            source=record["source"],
            line=record.get("line"),
            row=dict(record["row"]),
        )


class _ToRows(beam.DoFn):
    def __init__(
        self, kind: RowTypeConstraint, plain: bool, lay_out: Callable[[pa.Table], pa.Table] | None
    ) -> None:
        super().__init__()
        self._kind = kind
        self._plain = plain
        self._lay_out = lay_out

    def process(self, release: Release) -> Iterator[Any]:
        table = from_ipc(release.ipc)
        laid_out = table if self._lay_out is None else self._lay_out(table)
        yield from beam_rows(laid_out, self._kind, plain=self._plain)


def _refuse_names(names: Sequence[str], policy: str) -> None:
    """Beam makes named tuples of rows, which cannot have all names that Avro takes."""
    wrong = [name for name in names if iskeyword(name) or not name.isidentifier() or name.startswith("_")]
    if wrong:
        mend = "rename it in the input, or read the releases' files"
        raise PolicyError(
            [f"fields.{name}: is published under a name that no Beam row can have; {mend}" for name in wrong],
            policy,
        )


def _type_of(field: pa.Field, plain: bool) -> Any:
    kind = _plain_type(field.type, plain)
    return _nullable(kind) if field.nullable else kind


def _plain_type(arrow: pa.DataType, plain: bool) -> Any:
    if isinstance(arrow, pa.StructType):
        return RowTypeConstraint.from_fields([(part.name, _type_of(part, plain)) for part in arrow])
    if isinstance(arrow, pa.ListType):
        return Sequence[_type_of(arrow.value_field, plain)]  # type: ignore[misc]
    form = type(form_of(arrow))
    return _PLAIN.get(form) or (str if plain else _BEAMS.get(form, str))


_PLAIN: dict[type[Form], type] = {Truths: bool, Whole: int, FloatForm: float, Bytes: bytes}
_BEAMS: dict[type[Form], type] = {Days: datetime.date, Instants: Timestamp, DecimalForm: Decimal}
"""What else a row holds as a value; of everything that is in neither, text."""


def _values(column: pa.Array, wanted: Any, plain: bool) -> list[Any]:
    """A column's values as a row holds them; None for a null. wanted: of a range, the type of its rows."""
    kind = column.type
    if pa.types.is_struct(kind):
        kinds = dict(wanted._fields)
        parts = [_values(column.field(place), kinds[part.name], plain) for place, part in enumerate(kind)]
        return list(map(wanted.user_type, *parts))
    if pa.types.is_list(kind):
        members = _values(column.flatten(), None, plain)
        ends = np.cumsum(column.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64).tolist()
        return [members[start:end] for start, end in itertools.pairwise([0, *ends])]
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", tz=kind.tz)).cast(pa.int64()).to_pylist()
        make = _instant_text if plain else _timestamp
        return [None if each is None else make(each) for each in micros]
    values = column.to_pylist()
    if pa.types.is_time(kind) or (plain and pa.types.is_date(kind)):
        return [None if each is None else each.isoformat() for each in values]
    if plain and pa.types.is_decimal(kind):
        return [None if each is None else str(each) for each in values]
    return values


def _timestamp(micros: int) -> Timestamp:
    return Timestamp(micros=micros)


def _instant_text(micros: int) -> str:
    """An instant in UTC as ISO 8601, with as many decimals as it needs of none, three or six."""
    when = _EPOCH + datetime.timedelta(microseconds=micros)
    precision = (
        "seconds" if not micros % 1_000_000 else "milliseconds" if not micros % 1000 else "microseconds"
    )
    return f"{when.isoformat(timespec=precision)}Z"


def _milliseconds(end: Any) -> int:
    """Of a time in a rejected record, which may be a number already."""
    if isinstance(end, datetime.datetime):
        return round(end.timestamp() * 1000)
    return int(end)
