"""Files -> RawBatch elements: Avro, Parquet, CSV and CSV.gz."""

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics

from kanonflow.pipelines.feeds.columnar_files import read_avro, read_parquet
from kanonflow.pipelines.feeds.csv_files import BrokenRow, read_csv
from kanonflow.pipelines.feeds.input_files import FileFormat, InputFile
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
        delimiter: str | None = None,
        attributes: Collection[str] = (),
    ) -> None:
        super().__init__()
        self._files = tuple(files)
        self._columns = tuple(columns)
        self._delimiter = delimiter
        self._attributes = tuple(sorted(attributes))

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection[RawBatch]:
        return (
            pbegin
            | "Files" >> beam.Create(self._files, reshuffle=False)  # InputFile
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_ReadFile(self._columns, self._delimiter, self._attributes))  # RawBatch
        )


def read_batches(
    file: InputFile, columns: Sequence[str], delimiter: str | None = None, attributes: Collection[str] = ()
) -> Iterator[RawBatch]:
    """One file as RawBatch elements; every reading gives the same ones, rows in the order of the file.

    attributes: as of ``read_csv``; files of other formats have no cells that are no value.
    Raises InputError: the file is damaged.
    """
    # Two counters: how far ahead of the rows the broken rows are found varies from run to run.
    with_rows, without_rows = count(), count()
    for rows, broken in _rows(file, columns, delimiter, attributes):
        records = tuple(unparseable(file, row) for row in broken)
        if rows is None:
            yield RawBatch(
                batch_name(file.name, "broken", next(without_rows)), to_ipc(_no_rows(columns)), records
            )
        else:
            yield RawBatch(batch_name(file.name, "rows", next(with_rows)), to_ipc(rows), records)


def batch_name(file_name: str, kind: str, number: int) -> str:
    """A stable id: which file, which batch of it. 32 hex digits."""
    place = f"{len(file_name)}:{file_name}:{kind}:{number}".encode()
    return hashlib.blake2b(place, digest_size=16, person=b"kanonflow batch").hexdigest()


def unparseable(file: InputFile, row: BrokenRow) -> dict[str, Any]:
    """The rejected record of a row that could not be split into columns: where it was, none of its values."""
    return {
        "reason": "unparseable",
        "field": row.field,
        "message": row.message,
        "window_end": None,
        "source": file.name,
        "row": {},
    }


def _rows(
    file: InputFile, columns: Sequence[str], delimiter: str | None, attributes: Collection[str]
) -> Iterator[tuple[pa.RecordBatch | None, tuple[BrokenRow, ...]]]:
    match file.format:
        case FileFormat.AVRO:
            yield from ((rows, ()) for rows in read_avro(file.path, columns))
        case FileFormat.PARQUET:
            yield from ((rows, ()) for rows in read_parquet(file.path, columns))
        case FileFormat.CSV:
            yield from read_csv(file.path, columns, delimiter, attributes)


def _no_rows(columns: Sequence[str]) -> pa.Table:
    return pa.schema([(name, pa.string()) for name in columns]).empty_table()


class _ReadFile(beam.DoFn):
    def __init__(self, columns: tuple[str, ...], delimiter: str | None, attributes: tuple[str, ...]) -> None:
        super().__init__()
        self._columns = columns
        self._attributes = attributes
        self._delimiter = delimiter
        self._rows_read = Metrics.counter(NAMESPACE, "rows_read")
        self._microseconds = Metrics.counter(NAMESPACE, "read_microseconds")

    def process(self, file: InputFile) -> Iterable[RawBatch]:
        batches = read_batches(file, self._columns, self._delimiter, self._attributes)
        while True:
            # Around next() only: between two batches the steps fused to this one are at work.
            begin = time.perf_counter()
            batch = next(batches, None)
            self._microseconds.inc(int((time.perf_counter() - begin) * 1e6))
            if batch is None:
                return
            self._rows_read.inc(from_ipc(batch.ipc).num_rows + len(batch.broken))
            yield batch
