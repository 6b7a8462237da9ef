"""The lines that rows of a file stand on: found by reading the file once more, as far as the last row asked for.

The reader does not count lines: good rows would pay for it. A batch knows its file and how many rows came before it,
and that is enough to find a row again.

And where a file can be read from: ends of rows, by one pass over its bytes that follows quotes. From a place in the
middle nobody can tell a row from a line in quotes; from the beginning it takes no parsing.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from kanonflow.pipelines.feeds.csv_files import BLOCK_BYTES, csv_header, is_compressed, is_utf8, open_text
from kanonflow.pipelines.feeds.open_quotes import OpenQuotes, line_ends
from kanonflow.pipelines.feeds.stored_files import BEGINNING, Cut
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import CsvForm, with_delimiter
from kanonflow.transforms.rows.row_origins import RowOrigin

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLOCK_BYTES = 1 << 20
_TRIES = 16
_EMPTY = (b"\n", b"\r\n", b"\r")
_UNREADABLE = (OSError, EOFError, zlib.error, gzip.BadGzipFile, InputError)


class CsvLines:
    """The lines of a CSV file by the numbers of its complete rows: those with as many values as the header, from 0.

    form: how the file is written, its delimiter included. begin: a cut of ``csv_cuts``, behind which rows are counted.
    Goes forward as it is asked, and from there again where it is asked for an earlier row. It keeps no line.
    A copy (pickled) begins anew. What is a row stands in schemas/text_inputs.py.
    """

    def __init__(self, path: str, form: CsvForm, begin: Cut = BEGINNING) -> None:
        self._path = path
        self._form = form
        self._begin = begin
        self._rows: Iterator[tuple[int, int, bytes]] = iter(())
        self._next: int | None = None
        self._header: str | None = None

    @property
    def header(self) -> str | None:
        """The header's line; None: the file cannot be read any more."""
        if self._header is None:
            with contextlib.suppress(*_UNREADABLE), open_text(self._path, self._form.encoding) as stream:
                self._header = _as_text(next(_logical_lines(stream, self._form))[1])
        return self._header

    def find(self, rows: Sequence[int]) -> dict[int, tuple[int, str]]:
        """Line, from 1, and text of each of these rows, ascending; of none that cannot be read any more.

        O(what lies between this row and the last one asked for).
        """
        lines: dict[int, tuple[int, str]] = {}
        if not rows:
            return lines
        if self._next is None or rows[0] < self._next:
            self._rows = self._complete_rows()
        wanted = set(rows)
        with contextlib.suppress(*_UNREADABLE):
            for number, line, row in self._rows:
                if number in wanted:
                    lines[number] = line, _as_text(row)
                    if number == rows[-1]:
                        break
            self._next = rows[-1] + 1
        return lines

    def _complete_rows(self) -> Iterator[tuple[int, int, bytes]]:
        number, mark, quote = 0, _delimiter(self._form), self._form.quote.encode()
        with open_text(self._path, self._form.encoding) as stream:
            lines = _logical_lines(stream, self._form)
            _, header = next(lines)
            width = self._width(header)
            if self._begin.at:
                stream.seek(self._begin.at)
                lines = _logical_lines(stream, self._form, self._begin.lines)
            for line, row in lines:
                values = _values(row, self._form)[0] if quote and quote in row else row.count(mark) + 1
                if values == width:
                    yield number, line, row
                    number += 1

    def _width(self, header: bytes) -> int:
        """The header's columns, which may be more than its cells."""
        if self._form.header is None:
            return _values(header, self._form)[0]
        return len(csv_header(self._path, self._form).columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CsvLines) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.__reduce__())

    def __reduce__(self) -> tuple[Any, ...]:
        return CsvLines, (self._path, self._form, self._begin)


@dataclass(frozen=True)
class CsvOrigins:
    """Of a batch of a CSV file. source: the file's name. first: complete rows of ``lines`` before the batch. gone:
    places of those that are in the file and not in the batch, counted with them, ascending."""

    source: str
    lines: CsvLines
    first: int
    gone: tuple[int, ...] = ()

    def of(self, rows: Sequence[int]) -> list[RowOrigin]:
        """As of ``RowOrigins``."""
        numbers = [self.first + self._with_gone(row) for row in rows]
        found = self.lines.find(numbers)
        header = self.lines.header
        lines: list[tuple[int | None, str | None]] = [found.get(number, (None, None)) for number in numbers]
        return [RowOrigin(self.source, line, raw, header) for line, raw in lines]

    def _with_gone(self, row: int) -> int:
        for place in self.gone:
            if place > row:
                break
            row += 1
        return row


@dataclass(frozen=True)
class FileOrigins:
    """Of a batch of an Avro or Parquet file: rows have numbers, and no text. first: rows of the file before it."""

    source: str
    first: int

    def of(self, rows: Sequence[int]) -> list[RowOrigin]:
        """As of ``RowOrigins``."""
        return [RowOrigin(self.source, self.first + row + 1) for row in rows]


@dataclass(frozen=True)
class LineOrigins:
    """Of a batch of a file of JSON lines, or of a workbook. lines: of each row. values: the lines as they came; None:
    they are no text."""

    source: str
    lines: tuple[int, ...]
    values: tuple[bytes, ...] | None = field(default=None, repr=False)

    def of(self, rows: Sequence[int]) -> list[RowOrigin]:
        """As of ``RowOrigins``."""
        return [
            RowOrigin(
                self.source, self.lines[row], None if self.values is None else _as_text(self.values[row])
            )
            for row in rows
        ]


@dataclass(frozen=True)
class MessageOrigins:
    """Of a batch of a topic's partition. place: TOPIC/PARTITION. offsets: of all messages. rows: which of them each row
    was. values: the messages, where they are text; they are the reader's own, not copied."""

    place: str
    offsets: Sequence[int]
    rows: Sequence[int] | NDArray[np.int64] = field(
        compare=False
    )  # follows from the messages; arrays have no truth
    values: Sequence[bytes | None] | None = field(default=None, repr=False)

    def of(self, rows: Sequence[int]) -> list[RowOrigin]:
        """As of ``RowOrigins``."""
        return [self.of_message(int(self.rows[row])) for row in rows]

    def of_message(self, message: int) -> RowOrigin:
        """The origin of a message that may be no row."""
        value = None if self.values is None else self.values[message]
        offset = int(self.offsets[message])
        return RowOrigin(f"{self.place}/{offset}", offset, None if value is None else _as_text(value))


def lines_by_number(path: str, form: CsvForm, wanted: Collection[int]) -> tuple[str, dict[int, str]]:
    """The header of a CSV file, and the rows that begin on these lines, by line. O(the file).

    Raises InputError: the file is damaged.
    """
    try:
        with open_text(path, form.encoding) as stream:
            lines = _logical_lines(stream, form)
            _, header = next(lines)
            return _as_text(header), {line: _as_text(row) for line, row in lines if line in wanted}
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path}: the compressed file is damaged or cut off") from None


def _logical_lines(stream: BinaryIO, form: CsvForm, before: int = 0) -> Iterator[tuple[int, bytes]]:
    """Rows, the header first, with the number of the line that each begins on, from 1. Empty lines are none.

    before: lines of the file before them."""
    row, began, quote = b"", 0, form.quote.encode()
    for number, line in enumerate(_physical_lines(stream, before), before + 1):
        if not row:
            if not quote or quote not in line:
                if line not in _EMPTY:
                    yield number, line
                continue
            began = number
        row += line
        if _values(row, form)[1]:
            yield began, row
            row = b""
    if row:
        yield began, row


def _physical_lines(stream: BinaryIO, before: int) -> Iterator[bytes]:
    """Lines with their ends (LF, CRLF or CR), without a byte order mark before the first one."""
    rest = b"" if before else stream.read(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
    while block := stream.read(_BLOCK_BYTES):
        lines = (rest + block).splitlines(keepends=True)
        rest = lines.pop()  # it may go on, and a CR at its end may be half of a CRLF
        yield from lines
    yield from rest.splitlines(keepends=True)


def _delimiter(form: CsvForm) -> bytes:
    assert form.delimiter is not None
    return form.delimiter.encode()


def _values(row: bytes, form: CsvForm) -> tuple[int, bool]:
    """How many values a row has, and whether its last quoted one has ended."""
    mark, quote = _delimiter(form), form.quote.encode()
    if not quote or quote not in row:
        return row.count(mark) + 1, True
    row = row.rstrip(b"\r\n") if row.count(quote) % 2 == 0 else row
    sign = re.escape(quote)
    quoted = sign + rb"(?:[^" + sign + rb"]|" + sign + sign + rb")*(" + sign + rb"|\Z)"
    cell = re.compile(rb"(?:" + quoted + rb")?[^" + re.escape(mark) + rb"]*")
    at, values = 0, 1
    while True:
        cell_match = cell.match(row, at)
        assert cell_match is not None  # it matches nothing, too
        if cell_match[1] == b"":
            return values, False
        at = cell_match.end()
        if at >= len(row):
            return values, True
        at, values = at + 1, values + 1


def _as_text(row: bytes) -> str:
    return row.rstrip(b"\r\n").decode("utf-8", "replace")


def csv_cuts(path: str, form: CsvForm, least: int) -> Iterator[Cut]:
    """Places between batches of ``read_csv``, at least so many bytes apart. O(the file), some GB a second.

    None of a compressed file, or of one in an encoding other than UTF-8: what is read are not its bytes. None behind a
    quote that is another row's, for the file is refused there.
    Raises InputError: see ``csv_header``.
    """
    with open_text(path, form.encoding) as stream:
        if is_compressed(stream) or not is_utf8(form.encoding):
            return
        header = csv_header(path, form)
        form = with_delimiter(form, header.delimiter)
        quotes = OpenQuotes(header.delimiter.encode(), form.quote.encode()) if form.quote else None
        data, number, last, lines = _block(stream), 0, 0, 0
        if not _has_row(data, path, form):
            return
        if header.written is not None:
            data = data.replace(header.line, header.written, 1)
        while following := _block(stream):
            number += 1
            before = copy(quotes)
            if quotes is not None and quotes.torn(data, following) is not None:
                return
            if number * BLOCK_BYTES - last >= least:
                end = _last_row_end(data, following, before, form.quote.encode())
                if end is not None:
                    last = number * BLOCK_BYTES
                    yield Cut(last - len(data) + end, number, lines + line_ends(data[:end]))
            lines += line_ends(data, following)
            data = following


def _has_row(data: bytes, path: str, form: CsvForm) -> bool:
    """Whether the first block has a complete row: the reader passes over blocks that have none before the first row,
    and batches behind them could not be numbered."""
    return any(
        line_ends(data) >= line + line_ends(row.encode())
        for line, row in CsvLines(path, form).find([0]).values()
    )


def _last_row_end(data: bytes, following: bytes, before: OpenQuotes | None, quote: bytes) -> int | None:
    """Behind the last row that ends in the block; None: there is none, or too much in quotes behind it.

    before: what it is that the block begins in.
    """
    end = len(data)
    for _ in range(_TRIES):
        end = max(data.rfind(b"\n", 0, end), data.rfind(b"\r", 0, end)) + 1
        if not end or (end == len(data) and data.endswith(b"\r") and following.startswith(b"\n")):
            return None
        if before is None:
            return end
        state = copy(before)
        state.torn(data[:end], data[end : end + 1] or following)
        if not state.inside:
            return end
        end = data.rfind(quote, 0, end)
        if end < 0:
            return None
    return None


def _block(stream: BinaryIO) -> bytes:
    """The next block; shorter only at the stream's end."""
    data = stream.read(BLOCK_BYTES)
    while len(data) < BLOCK_BYTES and (more := stream.read(BLOCK_BYTES - len(data))):
        data += more
    return data
