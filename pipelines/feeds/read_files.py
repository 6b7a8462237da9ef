"""One file -> RawBatch elements, whatever it holds."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from itertools import count
from typing import Any

import pyarrow as pa

from kanonflow.pipelines.feeds.columnar_files import parquet_part, read_avro
from kanonflow.pipelines.feeds.csv_files import PLAIN, BrokenRow, TextRows, csv_header, read_csv
from kanonflow.pipelines.feeds.input_files import FileFormat, InputFile
from kanonflow.pipelines.feeds.json_lines import read_json
from kanonflow.pipelines.feeds.row_lines import CsvLines, CsvOrigins, FileOrigins, LineOrigins
from kanonflow.pipelines.feeds.stored_files import WHOLE, FilePart
from kanonflow.pipelines.feeds.workbooks import read_sheet
from kanonflow.schemas.text_form import CsvForm, with_delimiter
from kanonflow.transforms.rows.elements import RawBatch, to_ipc
from kanonflow.transforms.rows.row_origins import RowOrigins

Reading = Callable[..., Iterator[RawBatch]]
"""``read_batches``, or what stands in its place."""


def read_batches(
    file: InputFile,
    columns: Sequence[str],
    form: CsvForm = PLAIN,
    attributes: Collection[str] = (),
    part: FilePart = WHOLE,
) -> Iterator[RawBatch]:
    """One file as RawBatch elements; every reading gives the same ones, rows in the order of the file.

    attributes: as of ``read_csv``; files of other formats have no cells that are no value.
    part: of the file (``file_splits``). Its rows come in the batches of the whole file. Broken rows of CSV come by
    themselves, for how many were before the part is not known.
    Raises InputError: the file is damaged.
    """
    # Two counters: how far ahead of the rows the broken rows are found varies from run to run.
    with_rows, without_rows = count(part.begin.batches), count()
    without = f"broken from {part.begin.batches}" if part.begin.batches else "broken"
    lines = broken_lines = None
    if file.format is FileFormat.CSV:
        form = with_delimiter(form, csv_header(file.path, form).delimiter)
        lines = CsvLines(file.path, form, part.begin)
        broken_lines = copy(lines)  # each goes forward only
    for each in _rows(file, columns, form, attributes, part):
        rows = each.rows
        records = tuple(unparseable(file, row, broken_lines) for row in each.broken)
        if rows is None:
            yield RawBatch(
                batch_name(file.name, without, next(without_rows)), to_ipc(_no_rows(columns)), records
            )
        else:
            its: RowOrigins = FileOrigins(file.name, each.first)
            if lines is not None:
                its = CsvOrigins(file.name, lines, each.first, each.gone)
            elif each.lines is not None:
                its = LineOrigins(file.name, each.lines, each.values)
            yield RawBatch(batch_name(file.name, "rows", next(with_rows)), to_ipc(rows), records, origins=its)


class ReadOnce:
    """``read_batches`` for several who look at the same files: what one has read through is kept for the next.

    most: bytes of batches that are kept in all. Whether a row with a cell that is no text is one hangs on
    ``attributes``: where some rows are none, a file is read again for who asks with some.
    """

    def __init__(self, most: int = 64 << 20) -> None:
        self._room = most
        self._there: dict[tuple[str, tuple[str, ...], CsvForm], list[RawBatch]] = {}

    def __call__(
        self, file: InputFile, columns: Sequence[str], form: CsvForm = PLAIN, attributes: Collection[str] = ()
    ) -> Iterator[RawBatch]:
        """As of ``read_batches``. What nobody reads to its end is not kept."""
        key = (file.path, tuple(columns), form)
        there = self._there.get(key)
        if there is not None and not (attributes and any(batch.broken for batch in there)):
            yield from there
            return
        batches: list[RawBatch] = []
        size = 0
        for batch in read_batches(file, columns, form, attributes):
            size += len(batch.ipc)
            if size > self._room:
                batches.clear()
            else:
                batches.append(batch)
            yield batch
        if size <= self._room and not attributes and there is None:
            self._room -= size
            self._there[key] = batches


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
    file: InputFile, columns: Sequence[str], form: CsvForm, attributes: Collection[str], part: FilePart
) -> Iterator[TextRows]:
    match file.format:
        case FileFormat.CSV:
            yield from read_csv(file.path, columns, form, attributes, part)
        case FileFormat.JSON:
            yield from read_json(file.path, columns, attributes, part)
        case FileFormat.XLSX:
            yield from read_sheet(file.path, columns, form, attributes)
        case FileFormat.AVRO:
            yield from _numbered(read_avro(file.path, columns, part), part.begin.lines)
        case FileFormat.PARQUET:
            yield from _numbered(parquet_part(file.path, columns, part), part.begin.lines)


def _numbered(batches: Iterable[pa.RecordBatch], first: int) -> Iterator[TextRows]:
    for rows in batches:
        yield TextRows(rows, (), first)
        first += rows.num_rows


def _no_rows(columns: Sequence[str]) -> pa.Table:
    return pa.schema([(name, pa.string()) for name in columns]).empty_table()
