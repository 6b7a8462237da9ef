"""Files -> RawBatch elements, as the source of a pipeline that ends. Large ones come in splits, for several workers."""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.metrics import Metrics

from kanonflow.pipelines.feeds.columnar_files import avro_cuts, parquet_cuts
from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.input_files import FileFormat, InputFile
from kanonflow.pipelines.feeds.json_lines import json_cuts
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.pipelines.feeds.row_lines import csv_cuts
from kanonflow.pipelines.feeds.stored_files import BEGINNING, WHOLE, Cut, FilePart
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.release.done_here import DONE_HERE
from kanonflow.transforms.release.metrics import NAMESPACE
from kanonflow.transforms.rows.elements import RawBatch, from_ipc

SPLIT_BYTES = 64 << 20
"""Of a file between two cuts; a smaller one is not looked at for them."""
PARQUET_FACTOR = 16
"""How much more a byte of Parquet may hold."""


@dataclass(frozen=True)
class FileSplit:
    """What one worker reads: a file, or a part of it."""

    file: InputFile
    part: FilePart = WHOLE


def file_splits(file: InputFile, form: CsvForm = PLAIN, least: int = SPLIT_BYTES) -> Iterator[FileSplit]:
    """The splits of a file in its order, of at least so many bytes. They follow from the file alone.

    Raises InputError: the file is damaged.
    """
    begin = BEGINNING
    for cut in _cuts(file, form, least):
        yield FileSplit(file, FilePart(begin, cut))
        begin = cut
    yield FileSplit(file, FilePart(begin))


def _cuts(file: InputFile, form: CsvForm, least: int) -> Iterator[Cut]:
    """Compressed text and workbooks have none."""
    match file.format:
        case FileFormat.PARQUET if file.size * PARQUET_FACTOR >= 2 * least:
            yield from parquet_cuts(file.path, least)
        case FileFormat.CSV if file.size >= 2 * least:
            yield from csv_cuts(file.path, form, least)
        case FileFormat.JSON if file.size >= 2 * least:
            yield from json_cuts(file.path, least)
        case FileFormat.AVRO if file.size >= 2 * least:
            yield from avro_cuts(file.path, least)


class ReadBatches(beam.PTransform):
    """PBegin -> PCollection[RawBatch]: all rows of the files, with only the columns asked for.

    Files are spread over workers, large ones in splits. attributes: as of ``read_csv``.
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
            | "Split" >> beam.FlatMap(file_splits, self._form)  # FileSplit
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_ReadSplit(self._columns, self._form, self._attributes))  # RawBatch
        )


class _ReadSplit(beam.DoFn):
    def __init__(self, columns: tuple[str, ...], form: CsvForm, attributes: tuple[str, ...]) -> None:
        super().__init__()
        self._columns = columns
        self._attributes = attributes
        self._form = form
        self._rows_read = Metrics.counter(NAMESPACE, "rows_read")
        self._microseconds = Metrics.counter(NAMESPACE, "read_microseconds")

    def process(self, split: FileSplit) -> Iterable[RawBatch]:
        batches = read_batches(split.file, self._columns, self._form, self._attributes, split.part)
        while True:
            # Around next() only: between two batches the steps fused to this one are at work.
            begin = time.perf_counter()
            batch = next(batches, None)
            self._microseconds.inc(int((time.perf_counter() - begin) * 1e6))
            if batch is None:
                return
            rows = from_ipc(batch.ipc).num_rows + len(batch.broken)
            self._rows_read.inc(rows)
            DONE_HERE.add(rows_read=rows)
            yield batch
