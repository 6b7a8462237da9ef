"""CSV and CSV.gz files as batches of text columns, row by row as robust as text can be.

A row with too few or too many values, or with bytes that are not UTF-8, becomes a broken row and the rest of
the file is read; types are no matter here (a typed read would fail the file for one bad cell). Only what
leaves no rows to speak of stops the run: no header, a header that is not UTF-8, damaged compression.
"""

import csv
import gzip
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from kanonflow.schemas.errors import InputError

DELIMITERS = (",", ";", "\t", "|")
BLOCK_BYTES = 1 << 20
BROKEN_PER_CHUNK = 1000

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# How far back a broken row is searched for: more than the blocks that the CSV reader parses ahead.
_REMEMBERED_BLOCKS = 32


@dataclass(frozen=True)
class CsvHeader:
    """The column names of a CSV file, and what separates them."""

    columns: tuple[str, ...]
    delimiter: str


class BrokenRow(NamedTuple):
    """A row that is no row of the table. field: the column at fault, if there is one; no values anywhere."""

    field: str | None
    message: str


class TextRows(NamedTuple):
    """A batch of rows as text, and rows that are broken.

    rows: string columns, "" for an empty cell; None when this only reports broken rows.
    """

    rows: pa.RecordBatch | None
    broken: tuple[BrokenRow, ...]


def csv_header(path: str, delimiter: str | None = None) -> CsvHeader:
    """Read the header; without ``delimiter``, that one of , ; tab | which the header has most of.

    Raises InputError: no header, a name missing or given twice, not UTF-8, damaged gzip.
    """
    with _open(path) as stream:
        try:
            line = _first_line(stream)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise _damaged(path) from None
    if not line:
        raise InputError(f"{path}: no header line; the first line must name the columns")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: the header is not UTF-8 text; convert the file to UTF-8") from None
    if "\0" in text:
        raise InputError(f"{path}: the header is not text (UTF-16?); convert the file to UTF-8")
    delimiter = delimiter or sniff_delimiter(text)
    columns = next(csv.reader([text], delimiter=delimiter, strict=False))
    for number, column in enumerate(columns, 1):
        if not column:
            raise InputError(f"{path}: column {number} of the header has no name")
    twice = sorted(column for column, count in Counter(columns).items() if count > 1)
    if twice:
        raise InputError(f"{path}: the header names a column more than once: {', '.join(twice)}")
    return CsvHeader(tuple(columns), delimiter)


def sniff_delimiter(header: str) -> str:
    """The delimiter that occurs most often outside of quotes; a comma if none occurs."""
    bare = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=bare.count)


def read_csv(path: str, columns: Sequence[str], delimiter: str | None = None) -> Iterator[TextRows]:
    """The file's rows in order, in batches of about 1 MiB of text, with only the ``columns`` asked for.

    Equal files give equal batches and equal broken rows: a retry reports the same.

    Raises InputError: see ``csv_header``; damaged gzip; a quoted value that does not end within a block.
    """
    header = csv_header(path, delimiter)
    ragged = _RaggedRows(len(header.columns))
    with _open(path) as stream:
        ragged.lines = _RememberedLines(stream)
        try:
            reader = pyarrow.csv.open_csv(
                pa.PythonFile(ragged.lines, mode="r"),
                read_options=pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=header.delimiter, newlines_in_values=True, invalid_row_handler=ragged
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    # Binary: a string column would fail the whole file for one byte that is not UTF-8.
                    column_types=dict.fromkeys(header.columns, pa.binary()),
                    include_columns=list(columns),
                    strings_can_be_null=False,
                ),
            )
            rows_before = 0
            batch = None
            for batch in reader:
                yield _as_text(batch, rows_before)
                rows_before += batch.num_rows
                # Parsed ahead of the batch at an uncertain distance, so handed on in chunks of a fixed size.
                while len(ragged.found) >= BROKEN_PER_CHUNK:
                    yield TextRows(None, ragged.take())
            if ragged.lines.quotes % 2 and batch is not None and _ends_in_lines(batch):
                raise InputError(f"{path}: a quoted value does not end; rows after it would be lost in it")
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise _damaged(path) from None
        except pa.ArrowInvalid:
            raise InputError(
                f"{path}: not readable as CSV from some line on; a quoted value may not end"
            ) from None
    while ragged.found:
        yield TextRows(None, ragged.take())


class _RaggedRows:
    """Collects the rows with too few or too many values, in the order of the file."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self.found: list[BrokenRow] = []
        self.lines: _RememberedLines

    def __call__(self, row: Any) -> str:
        line = self.lines.number_of(row.text)
        where = "a row" if line is None else f"line {line}"
        self.found.append(
            BrokenRow(None, f"{where}: {row.actual_columns} values where the header names {self._expected}")
        )
        return "skip"

    def take(self) -> tuple[BrokenRow, ...]:
        chunk = tuple(self.found[:BROKEN_PER_CHUNK])
        del self.found[:BROKEN_PER_CHUNK]
        return chunk


class _RememberedLines:
    """A stream that remembers its last blocks, to tell the line number of a row that turns out to be broken.

    pyarrow's streaming reader does not know line numbers. Rows must be asked for in the order of the file.
    """

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._blocks: deque[bytes] = deque()
        self.quotes = 0  # read so far
        self._line = 1  # of the first remembered byte
        self._from = 0  # everything before it was searched already

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.quotes += data.count(b'"')
        self._blocks.append(data)
        while len(self._blocks) > _REMEMBERED_BLOCKS:
            gone = self._blocks.popleft()
            self._line += gone.count(b"\n")
            self._from = max(0, self._from - len(gone))
        return data

    def number_of(self, row: str) -> int | None:
        """The number of the line that ``row`` starts on, from 1; None when it is not found."""
        text = b"".join(self._blocks)
        wanted = row.encode("utf-8", "surrogateescape")
        at = text.find(wanted, self._from)
        while at >= 0:
            end = at + len(wanted)
            if (at == 0 or text[at - 1 : at] in b"\r\n") and (
                end == len(text) or text[end : end + 1] in b"\r\n"
            ):
                self._from = end
                return self._line + text.count(b"\n", 0, at)
            at = text.find(wanted, at + 1)
        return None

    def close(self) -> None:
        """The stream belongs to who opened it."""


def _as_text(batch: pa.RecordBatch, rows_before: int) -> TextRows:
    """Binary columns as strings, without the rows that are not UTF-8."""
    try:
        return TextRows(_strings(batch), ())
    except pa.ArrowInvalid:
        pass
    faults: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for number, value in enumerate(column.to_pylist()):
            if not _is_utf8(value):
                faults.setdefault(number, name)
    kept = pa.array([number for number in range(batch.num_rows) if number not in faults], pa.int64())
    broken = tuple(
        BrokenRow(name, f"row {rows_before + number + 1} of the file's complete rows is not UTF-8 text")
        for number, name in sorted(faults.items())
    )
    return TextRows(_strings(batch.take(kept)), broken)


def _ends_in_lines(batch: pa.RecordBatch) -> bool:
    """Whether the last row has a value of several lines, which an unmatched quote would have swallowed."""
    last = batch.slice(batch.num_rows - 1)
    return any(b"\n" in value for column in last.columns for value in column.to_pylist())


def _strings(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pc.cast(column, pa.string()) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _first_line(stream: BinaryIO) -> bytes:
    """The first line that is not empty, to the end of its last quoted value; without its end."""
    line = b""
    while True:
        part = stream.readline(BLOCK_BYTES)
        line += part
        if line.startswith(_BYTE_ORDER_MARK):
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not part or (line.strip(b"\r\n") and line.count(b'"') % 2 == 0):
            return line.strip(b"\r\n")
        if not line.strip(b"\r\n"):
            line = b""


def _open(path: str) -> BinaryIO:
    """The file's bytes, decompressed. gzip by the standard library: Beam's reader ends a damaged file early
    and says nothing."""
    raw = FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
    start = raw.read(2)
    raw.seek(0)
    if start == _GZIP_MAGIC:
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if path.lower().endswith(".gz"):
        raw.close()
        raise InputError(f"{path}: not a gzip file")
    return raw if hasattr(raw, "readline") else BytesIO(raw.read())


def _damaged(path: str) -> InputError:
    return InputError(f"{path}: the compressed file is damaged or cut off")
