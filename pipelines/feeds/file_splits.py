"""Large files in splits, each for a worker of its own; the batches of all splits are those of the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kanonflow.pipelines.feeds.columnar_files import avro_cuts, parquet_cuts
from kanonflow.pipelines.feeds.csv_cuts import csv_cuts
from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.file_parts import BEGINNING, WHOLE, Cut, FilePart
from kanonflow.pipelines.feeds.input_files import FileFormat, InputFile
from kanonflow.pipelines.feeds.json_lines import json_cuts
from kanonflow.schemas.text_form import CsvForm

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
