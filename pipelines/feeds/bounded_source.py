"""Files -> RawBatch elements, as the source of a pipeline that ends."""

import time
from collections.abc import Collection, Iterable, Sequence

import apache_beam as beam
from apache_beam.metrics import Metrics

from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.file_splits import FileSplit, file_splits
from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.read_files import read_batches
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.release.done_here import DONE_HERE
from kanonflow.transforms.release.metrics import NAMESPACE
from kanonflow.transforms.rows.elements import RawBatch, from_ipc


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
