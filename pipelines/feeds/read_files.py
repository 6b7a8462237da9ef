"""Files -> RawBatch elements: Avro, Parquet, CSV and CSV.gz."""

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from itertools import count
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics

from kanonflow.pipelines.feeds.columnar_files import read_avro, read_parquet
from kanonflow.pipelines.feeds.csv_files import PLAIN, BrokenRow, TextRows, csv_header, read_csv
from kanonflow.pipelines.feeds.input_files import FileFormat, InputFile
from kanonflow.pipelines.feeds.row_lines import CsvLines, CsvOrigins, FileOrigins
from kanonflow.schemas.text_form import CsvForm, with_delimiter
from kanonflow.transforms.rows.elements import RawBatch, from_ipc, to_ipc
from kanonflow.transforms.sinks.sinks import NAMESPACE


class ReadBatches(beam.PTransform):
    """PBegin -> PCollection[RawBatch]: all rows of the files, with only the columns asked for.

    One file is read by one worker, from its beginning; files are spread over workers. attributes: as of ``read_csv``.
    Counters: ``rows_read`` (broken rows included), ``read_microseconds``.
    """

    def __init__(
        self,
        files: Sequence[InputFile],
        columns: Sequence[str],
        form: CsvForm = PLAIN,
        attributes: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._files = tuple(files)
        self._columns = tuple(columns)
        self._form = form
        self._attributes = tuple(sorted(attributes))

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection[RawBatch]:
        return (
            pbegin
            | "Files" >> beam.Create(self._files, reshuffle=False)  # InputFile
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_ReadFile(self._columns, self._form, self._attributes))  # RawBatch
        )


def read_batches(
    file: InputFile, columns: Sequence[str], form: CsvForm = PLAIN, attributes: Collection[str] = ()
) -> Iterator[RawBatch]:
    """One file as RawBatch elements; every reading gives the same ones, rows in the order of the file.

    attributes: as of ``read_csv``; files of other formats have no cells that are no value.
    Raises InputError: the file is damaged.
    """
    # Two counters: how far ahead of the rows the broken rows are found varies from run to run.
    with_rows, without_rows = count(), count()
    lines = broken_lines = None
    if file.format is FileFormat.CSV:
        lines = CsvLines(file.path, with_delimiter(form, csv_header(file.path, form).delimiter))
        broken_lines = copy(lines)  # each goes forward only
    for rows, broken, first, gone in _rows(file, columns, form, attributes):
        records = tuple(unparseable(file, row, broken_lines) for row in broken)
        if rows is None:
            yield RawBatch(
                batch_name(file.name, "broken", next(without_rows)), to_ipc(_no_rows(columns)), records
            )
        else:
            its = (
                FileOrigins(file.name, first) if lines is None else CsvOrigins(file.name, lines, first, gone)
            )
            yield RawBatch(batch_name(file.name, "rows", next(with_rows)), to_ipc(rows), records, origins=its)


def batch_name(file_name: str, kind: str, number: int) -> str:
    """A stable id: which file, which batch of it. 32 hex digits."""
    place = f"{len(file_name)}:{file_name}:{kind}:{number}".encode()
    return hashlib.blake2b(place, digest_size=16, person=b"kanonflow batch").hexdigest()


def unparseable(file: InputFile, row: BrokenRow, lines: CsvLines | None = None) -> dict[str, Any]:
    """The rejected record of a row that could not be split into columns: where it was, and the row as it came.

    lines: of the file, where it has any.
    """
    line, raw = row.line, row.raw
    if lines is not None and row.complete is not None:
        line, raw = lines.find([row.complete]).get(row.complete, (None, None))
    return {
        "reason": "unparseable",
        "field": row.field,
        "message": row.message,
        "window_end": None,
        "source": file.name,
        "line": line,
        "raw": None if raw is None else raw.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        "header": None if lines is None else lines.header,
        "expected": row.expected,
        "row": {},
    }


def _rows(
    file: InputFile, columns: Sequence[str], form: CsvForm, attributes: Collection[str]
) -> Iterator[TextRows]:
    if file.format is FileFormat.CSV:
        yield from read_csv(file.path, columns, form, attributes)
        return
    first = 0
    for rows in (read_avro if file.format is FileFormat.AVRO else read_parquet)(file.path, columns):
        yield TextRows(rows, (), first)
        first += rows.num_rows


def _no_rows(columns: Sequence[str]) -> pa.Table:
    return pa.schema([(name, pa.string()) for name in columns]).empty_table()


class _ReadFile(beam.DoFn):
    def __init__(self, columns: tuple[str, ...], form: CsvForm, attributes: tuple[str, ...]) -> None:
        super().__init__()
        self._columns = columns
        self._attributes = attributes
        self._form = form
        self._rows_read = Metrics.counter(NAMESPACE, "rows_read")
        self._microseconds = Metrics.counter(NAMESPACE, "read_microseconds")

    def process(self, file: InputFile) -> Iterable[RawBatch]:
        batches = read_batches(file, self._columns, self._form, self._attributes)
        while True:
            # Around next() only: between two batches the steps fused to this one are at work.
            begin = time.perf_counter()
            batch = next(batches, None)
            self._microseconds.inc(int((time.perf_counter() - begin) * 1e6))
            if batch is None:
                return
            self._rows_read.inc(from_ipc(batch.ipc).num_rows + len(batch.broken))
            yield batch
