"""One file of a directory that files arrive in: does it fit the policy, its batches from a place on, its refusal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from kanonflow.pipelines.feeds.arrival_position import FilePosition
from kanonflow.pipelines.feeds.csv_files import BrokenRow
from kanonflow.pipelines.feeds.directory_listing import ArrivedFile
from kanonflow.pipelines.feeds.input_files import FileFormat, InputFile, file_schema, format_of
from kanonflow.pipelines.feeds.read_files import batch_name, read_batches, unparseable
from kanonflow.schemas.bound_policy import BoundColumn, BoundPolicy, bind
from kanonflow.schemas.errors import InputError, PolicyError
from kanonflow.schemas.kinds.forms import form_of
from kanonflow.schemas.printable import printable
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.rows.elements import RawBatch, to_ipc


def as_input(arrived: ArrivedFile, bound: BoundPolicy, form: CsvForm) -> InputFile:
    """The file as the readers of bounded runs know it.

    Raises InputError: empty, of an unknown kind, no file of its kind, or its columns do not fit ``bound``.
    """
    file = InputFile(arrived.path, as_text(arrived.name), arrived.size, format_of(arrived.path))
    if file.size == 0:
        raise InputError(f"{file.path}: the file is empty (0 bytes; an empty feed still has a header)")
    schema = file_schema(file, form)
    if file.format is FileFormat.JSON:  # it may lack what none of its objects has a value of
        missing = [each.column for each in bound.policy.fields if each.column not in schema.names]
        schema = pa.schema([*schema, *((name, pa.string()) for name in missing)])
    problem = misfit_of_columns(schema, bound, text=file.format.text)
    if problem is not None:
        raise InputError(f"{file.path}: {problem}")
    return file


def misfit_of_columns(schema: pa.Schema, bound: BoundPolicy, *, text: bool) -> str | None:
    """Which columns of a file are not those that the policy was bound to, and why; None when all are.

    text: the file knows no types (CSV). A feed of text takes a typed file whose columns are text, too. A column
    without any value (Arrow's type null) fits every type.
    """
    wanted = {column.name: column for column in bound.columns}
    types = dict(zip(schema.names, schema.types, strict=True))
    if len(types) < len(schema.names):
        return "it has several columns of one name"
    for name in wanted.keys() & types.keys():
        if types[name] == pa.null():
            types[name] = pa.string() if wanted[name].from_text else wanted[name].as_read.arrow_type
    text = text or (bound.text and all(form_of(types[name]).text for name in wanted.keys() & types.keys()))
    try:
        found = bind(
            bound.policy, pa.schema(list(types.items())), text=text, source="the file", csv=bound.csv
        )
    except PolicyError as error:
        return "; ".join(error.mistakes)
    differing = [
        f"{column.name} ({_kind(column)}, but the feed has {_kind(wanted[column.name])})"
        for column in found.columns
        if column != wanted[column.name]
    ]
    return f"columns of other types than the feed's: {', '.join(differing)}" if differing else None


def _kind(column: BoundColumn) -> str:
    read = column.as_read
    return "text" if read.from_text else str(read.own_type or read.arrow_type)


def batches_from(
    at: FilePosition,
    file: InputFile,
    columns: Sequence[str],
    form: CsvForm,
    attributes: Collection[str] = (),
) -> Iterator[RawBatch]:
    """The batches of the file that come after ``at``, under the names that they always have. Raises InputError."""
    passed = replace(at, row_batches=0, broken_batches=0)
    for batch in read_batches(file, columns, form, attributes):
        before, passed = passed, step_past(passed, file, batch)
        is_rows = passed.row_batches > before.row_batches
        # Each kind is counted by itself: how far ahead of the rows broken rows are found varies from run to run.
        if before.row_batches >= at.row_batches if is_rows else before.broken_batches >= at.broken_batches:
            yield batch


def step_past(at: FilePosition, file: InputFile, batch: RawBatch) -> FilePosition:
    """The place after ``batch``, which is the next one of its kind."""
    if batch.name == batch_name(file.name, "rows", at.row_batches):
        return replace(at, row_batches=at.row_batches + 1)
    return replace(at, broken_batches=at.broken_batches + 1)


def refusal(arrived: ArrivedFile, error: InputError, bound: BoundPolicy) -> RawBatch:
    """The one broken record that stands for a file, or for the rest of it: its name and why, no values."""
    name = as_text(arrived.name)
    why = as_text(str(error).removeprefix(f"{printable(arrived.path)}: "))
    row = BrokenRow(None, f"the file cannot be read, or not to its end: {why}")
    record = unparseable(InputFile(arrived.path, name, arrived.size, FileFormat.CSV), row)
    return RawBatch(batch_name(name, "refused", 0), to_ipc(bound.canonical_schema.empty_table()), (record,))


def as_text(name: str) -> str:
    """A file name that can be written as UTF-8, also where its bytes are none."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
