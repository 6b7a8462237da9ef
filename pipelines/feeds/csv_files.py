"""CSV and CSV.gz files as batches of text columns, row by row as robust as text can be.

What is a row, and what is none, stands in schemas/text_inputs.py. A broken row is data and the rest of the file is
read; types are no matter here (a typed read would fail the file for one bad cell). Only what leaves no rows to speak
of stops the run: no header, a header that is not UTF-8, damaged compression, a quoted value that does not end.
"""

import atexit
import codecs
import contextlib
import csv
import gzip
import io
import re
import sys
import time
import weakref
import zlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from itertools import islice
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from kanonflow.pipelines.feeds.open_quotes import OpenQuotes, line_ends
from kanonflow.pipelines.feeds.stored_files import WHOLE, FilePart
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import NUMBERED, CsvForm
from kanonflow.schemas.text_inputs import DELIMITERS, MOST_ROW_BYTES, NO_TEXT, NO_VALUE
from kanonflow.transforms.files.storage import open_stored

BLOCK_BYTES = MOST_ROW_BYTES
PLAIN = CsvForm()
BROKEN_PER_CHUNK = 1000

_SAY_ENCODING = (
    "say in the policy how it is written, as in csv: {encoding: cp1250} or utf-16, or convert it to UTF-8"
)
_SAY_NUMBERED = "give each its own name, or say csv: {header: numbered} in the policy"
_NO_CHARACTER = "kanonflow.no_character"
_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REST_SECONDS, _PAUSE = 0.5, 0.002
# How far back a broken row is searched for: more than the blocks that the CSV reader parses ahead.
_REMEMBERED_BLOCKS = 32
_NUL, _SUB = (character.encode() for character in NO_TEXT)
_END = _SUB + b"end of file" + _SUB
_ESCAPED = re.compile("[\udc80-\udcff]")
_TO_LINE_END = re.compile(rb'(?:[^"\r]+|"[^"]*"?)*')


@dataclass(frozen=True)
class CsvHeader:
    """The column names of a CSV file, and what separates them. line: the header as it stands there.

    written: as it has to be read instead; None: as it stands.
    """

    columns: tuple[str, ...]
    delimiter: str
    line: bytes = b""
    written: bytes | None = None


class BrokenRow(NamedTuple):
    """A row that is no row of the table. field: the column at fault, if there is one; no values in both.

    expected: what was expected. line, raw: the line that it begins on, from 1, and the row as it came; None: not known.
    complete: its number among the part's complete rows, from 0, where that is what is known of its place.
    """

    field: str | None
    message: str
    expected: str | None = None
    line: int | None = None
    raw: str | None = None
    complete: int | None = None


class TextRows(NamedTuple):
    """A batch of rows as text, and rows that are broken.

    rows: string columns, "" for an empty cell; None when this only reports broken rows.
    first: complete rows of the file's part before these. gone: places of broken ones among them, counted with them.
    lines: of each row the line that it stands on; None: that follows from ``first``. values: the lines; None: no text.
    """

    rows: pa.RecordBatch | None
    broken: tuple[BrokenRow, ...]
    first: int = 0
    gone: tuple[int, ...] = ()
    lines: tuple[int, ...] | None = None
    values: tuple[bytes, ...] | None = None


def parse_options(delimiter: str, quote: str, on_ragged: Callable[[Any], str]) -> pyarrow.csv.ParseOptions:
    """How pyarrow tells rows and cells apart as schemas/text_inputs.py says. on_ragged: of rows of another width."""
    return pyarrow.csv.ParseOptions(
        delimiter=delimiter, quote_char=quote or False, newlines_in_values=True, invalid_row_handler=on_ragged
    )


def csv_header(path: str, form: CsvForm = PLAIN) -> CsvHeader:
    """Read the header; where the form names no delimiter, that one of , ; tab | which the header has most of.

    Raises InputError: no header, a name missing or given twice, not of the form's encoding, damaged gzip.
    """
    with open_text(path, form.encoding) as stream:
        try:
            line = _first_line(stream, form.quote)
            if len(line) > MOST_ROW_BYTES:
                raise InputError(
                    f"{path}: the header is longer than {MOST_ROW_BYTES:,} bytes; is this a CSV file?"
                )
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise _damaged(path) from None
    if not line:
        raise InputError(f"{path}: no header line; the first line must name the columns")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path}: the header is not {form.encoding.upper()} text; {_SAY_ENCODING}") from None
    if line.startswith(_BYTE_ORDER_MARK):
        raise InputError(
            f"{path}: the header begins with a byte order mark, which may stand once, as the file's first character;"
            " take it out of there"
        )
    if any(character in text for character in NO_TEXT):
        encoding = "UTF-16?" if is_utf8(form.encoding) else form.encoding
        raise InputError(f"{path}: the header is not text ({encoding}); {_SAY_ENCODING}")
    delimiter = form.delimiter or sniff_delimiter(text, form.quote)
    quoting: dict[str, Any] = {"quotechar": form.quote} if form.quote else {"quoting": csv.QUOTE_NONE}
    try:
        cells = next(csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=False, **quoting))
    except csv.Error:
        raise InputError(
            f"{path}: the header is not readable as CSV, or a column's name is too long"
        ) from None
    if form.header is None:
        return CsvHeader(header_names(path, cells, form), delimiter, line)
    below = _first_row(path, form.encoding, {"delimiter": delimiter, **quoting})
    columns = header_names(path, cells + [""] * (len(below) == len(cells) + 1), form)
    # Line ends in names stay, for lines are counted.
    sign = form.quote
    doubled = (name.replace(sign, 2 * sign) if sign else name for name in columns)
    written = delimiter.join(f"{sign}{name}{sign}" for name in doubled)
    return CsvHeader(columns, delimiter, line, written.encode())


def _first_row(path: str, encoding: str, dialect: Mapping[str, Any]) -> list[str]:
    """The first row below the header; [] where there is none that can be read."""
    try:
        with io.TextIOWrapper(open_text(path, encoding), "utf-8", "replace", newline="") as text:
            rows = (row for row in csv.reader(text, **dialect) if row and row != ["\ufeff"])
            next(rows, None)
            return next(rows, [])
    except (csv.Error, EOFError, zlib.error, gzip.BadGzipFile):
        return []


def header_names(path: str, cells: Sequence[str], form: CsvForm) -> tuple[str, ...]:
    """The names of columns, each its own. Raises InputError: the header does not say them, and ``form`` neither."""
    if form.header == NUMBERED:
        taken: set[str] = set(cells)
        names: list[str] = []
        for number, cell in enumerate(cells, 1):
            name = cell if cell and cell not in names else f"{cell or 'column'}_{number}"
            while name != cell and name in taken:
                name += "_"
            taken.add(name)
            names.append(name)
        return tuple(names)
    for number, cell in enumerate(cells, 1):
        if not cell:
            raise InputError(f"{path}: column {number} of the header has no name; {_SAY_NUMBERED}")
    twice = sorted(name for name, count in Counter(cells).items() if count > 1)
    if twice:
        raise InputError(
            f"{path}: the header names a column more than once: {', '.join(twice)}; {_SAY_NUMBERED}"
        )
    return tuple(cells)


def sniff_delimiter(header: str, quote: str = PLAIN.quote) -> str:
    """The delimiter that occurs most often outside of quotes; a comma if none occurs."""
    bare = "".join(header.split(quote)[::2]) if quote else header
    return max(DELIMITERS, key=bare.count)


def read_csv(
    path: str,
    columns: Sequence[str],
    form: CsvForm = PLAIN,
    attributes: Collection[str] = (),
    part: FilePart = WHOLE,
) -> Iterator[TextRows]:
    """The file's rows in order, in batches of about 1 MiB of text, with only the ``columns`` asked for.

    attributes: columns of which a cell that is no text is ``NO_VALUE``, and does not break its row.
    part: between cuts of ``csv_cuts``; its batches are those that they are in the whole file.
    Equal files give equal batches and equal broken rows: a retry reports the same.

    Raises InputError: see ``csv_header``; damaged gzip; a row beyond 1 MiB; a quoted value that does not end, once
    the rows before it are handed on.
    """
    header = csv_header(path, form)
    ragged = _RaggedRows(len(header.columns))
    with open_text(path, form.encoding) as stream:
        if part.begin.at:
            stream.seek(part.begin.at)
        ragged.lines = lines = _RememberedLines(stream, header, form.quote, part)
        rows_before = 0
        # One batch is held back: the last one ends with the row that marks the end.
        held: pa.RecordBatch | None = None
        failure: InputError | None = None
        opened: list[Any] = []
        # A process may end while somebody still holds this generator.
        atexit.register(lines.finish)
        try:
            opened.append(
                pyarrow.csv.open_csv(
                    pa.PythonFile(lines, mode="r"),
                    read_options=pyarrow.csv.ReadOptions(
                        block_size=BLOCK_BYTES, column_names=list(header.columns) if part.begin.at else None
                    ),
                    parse_options=parse_options(header.delimiter, form.quote, ragged),
                    convert_options=pyarrow.csv.ConvertOptions(
                        # Binary: a string column would fail the whole file for one byte that is not UTF-8.
                        column_types=dict.fromkeys(header.columns, pa.binary()),
                        include_columns=list(columns),
                        strings_can_be_null=False,
                    ),
                )
            )
            # The first batch of what begins within a file is the row that marks that.
            for batch in islice(opened[0], int(part.begin.at > 0), None):
                if held is not None:
                    yield _as_text(held, rows_before, lines.no_text, attributes)
                    rows_before += held.num_rows
                held = batch
                # Parsed ahead of the batch at an uncertain distance, so handed on in chunks of a fixed size.
                while len(ragged.found) > BROKEN_PER_CHUNK:
                    yield TextRows(None, ragged.take())
        except pa.ArrowKeyError:
            # Of a quote within a name it depends on the delimiter whether a CR behind it ends the header.
            failure = InputError(
                f"{path}: the header can be read in two ways, for it has quotes within names or line ends in quotes;"
                " name the columns without"
            )
        except pa.ArrowInvalid:
            failure = InputError(
                f"{path}: not readable as CSV from some line on; a row is longer than {BLOCK_BYTES:,} bytes, perhaps"
                " because a quoted value does not end"
            )
        finally:
            _close(opened, lines)
            atexit.unregister(lines.finish)
    if failure is not None:
        failure = _damaged(path) if lines.damaged else failure
        if held is not None:
            yield _as_text(held, rows_before, lines.no_text, attributes)
        raise failure
    whole, ended = _without_end(held)
    if part.end is not None and ended and held is not None:
        # As in the whole file: also without rows, and without bytes of the row that was taken away.
        whole = held.take(pa.array(range(held.num_rows - 1), pa.int64()))
    if whole is not None:
        yield _as_text(whole, rows_before, lines.no_text, attributes)
    if not ended and (whole is held):
        del ragged.found[-1:]  # the row that swallowed the end: the error tells of it
    while ragged.found:
        yield TextRows(None, ragged.take())
    if lines.damaged:
        raise _damaged(path)
    if not ended:
        there = "" if lines.torn_at is None else f" before line {lines.torn_at}, whose quote is another row's"
        raise InputError(
            f"{path}: a quoted value does not end{there}; rows after it would be lost in it. Close its quote, or say"
            " csv: {quote: ''} where quotes are characters like others"
        )


def _close(readers: list[Any], lines: "_RememberedLines") -> None:
    """Let go of a reader, once its thread, which reads ahead, needs the interpreter no more.

    Why: Python deletes the reader with the interpreter's lock held and would wait for a thread that waits for the lock;
    and a process that ends while the thread is in Python is aborted. readers: nobody else has them; empty afterwards.
    """
    lines.stop()
    if not readers:  # it could not be opened, and its thread may read on
        lines.finish()
        lines.wait_for_blocks()
    for reader in readers:
        # Its thread rests when enough is read ahead, and would never come to the end.
        with contextlib.suppress(pa.ArrowException):
            deque(reader, maxlen=0)
        lines.wait_for_end()
        # The stream owns the reader then, and is closed without the lock.
        stream = pa.RecordBatchReader.from_stream(reader)
        readers.clear()
        del reader
        stream.close()
        del stream
        lines.wait_for_blocks()


def _without_end(last: pa.RecordBatch | None) -> tuple[pa.RecordBatch | None, bool]:
    """The last batch without the row that marks the end (None: nothing is left), and whether that was there.

    Where it was not, a quoted value has swallowed it: the last row, which then is taken away, or one that is broken.
    """
    if last is None or not last.num_rows:
        return last, False
    cells = [column[-1].as_py() for column in last.columns]
    ended = all(cell == _END for cell in cells)
    if not ended and not any(_END in cell for cell in cells):
        return last, False
    return (last.slice(0, last.num_rows - 1) if last.num_rows > 1 else None), ended


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
            BrokenRow(
                None,
                f"{where}: {row.actual_columns} values where the header names {self._expected}",
                f"{self._expected} values, as many as the header names",
                line,
                row.text,
            )
        )
        return "skip"

    def take(self) -> tuple[BrokenRow, ...]:
        chunk = tuple(self.found[:BROKEN_PER_CHUNK])
        del self.found[:BROKEN_PER_CHUNK]
        return chunk


class _Block(bytearray):
    """What a thread of the reader is given; no bytes: the end. Of a class of its own, for it is watched (weakref)."""


class _RememberedLines:
    """A part of a stream that remembers its last blocks, to tell the line of a row that turns out to be broken.

    pyarrow's streaming reader does not know line numbers. Rows must be asked for in the order of the file.
    Three things are changed on the way. A header under which columns have no names of their own is written anew. A byte
    that is not UTF-8 is handed on as SUB, and so is NUL: the reader fails the whole file for the former in a row of
    another width, and behind the latter it overlooks delimiters (where cells are long, it looks for them with an
    instruction for C's strings). And behind the last line comes a row of ``_END``, in the same block, so that batches
    are what they were: only a quoted value that does not end swallows it.
    Blocks are those of the whole stream. What a part has before its first one, the beginning of a row, comes by
    itself, behind a row of ``_END``: else the reader would pass over blocks without complete rows.
    """

    closed = False

    def __init__(self, stream: BinaryIO, header: CsvHeader, quote: str, part: FilePart = WHOLE) -> None:
        self._stream = stream
        self._begin = part.begin
        self._left = sys.maxsize if part.end is None else part.end.at - part.begin.at
        self._end = header.delimiter.encode().join([_END] * len(header.columns)) + b"\n"
        self._quotes = OpenQuotes(header.delimiter.encode(), quote.encode()) if quote else None
        self._header = header
        self._ahead: bytes | None = None
        self.damaged = False  # whether the compression is, from where reading ended on
        self._begun = 0  # bytes of a character that the last block has begun
        self._blocks: deque[bytes] = deque()
        self.no_text = False  # whether there was any
        self._stopped = self._reading = False
        self._end_given: weakref.ref[_Block] | None = None
        self._given: list[weakref.ref[_Block]] = []
        self.torn_at: int | None = None  # the line whose quote closes a value of an earlier one
        self._line = part.begin.lines + (not part.begin.at)  # of the first remembered byte
        self._from = 0  # everything before it was searched already

    def stop(self) -> None:
        """Nobody wants more: what is read from now on is the end."""
        self._stopped = True

    def finish(self) -> None:
        """Stop, and wait for the end."""
        self.stop()
        self.wait_for_end()

    def wait_for_end(self) -> None:
        """Wait until whoever reads in another thread has the end, and has let go of it: it will not read again.

        Not longer than ``_REST_SECONDS`` without a call: a thread that has read enough ahead rests for good.
        """
        self._wait(lambda: self._end_given is not None and self._end_given() is None)

    def wait_for_blocks(self) -> None:
        """Wait until all blocks are let go of, once nobody has the reader.

        Why: a thread needs the interpreter for that, and aborts the process where it has ended meanwhile.
        """
        self._wait(lambda: all(block() is None for block in self._given))

    def _wait(self, over: Callable[[], bool]) -> None:
        pauses = 0
        while not over() and pauses < _REST_SECONDS / _PAUSE:
            time.sleep(_PAUSE)
            pauses = 0 if self._reading else pauses + 1

    def read(self, size: int = -1) -> bytearray:
        """The next block; at the end, and after ``stop``, an empty one."""
        self._reading = True
        try:
            block = _Block() if self._stopped else _Block(self._next(size))
            watched = weakref.ref(block)
            if not block:
                self._end_given = watched
            self._given = [*(each for each in self._given if each() is not None), watched]
            return block
        finally:
            self._reading = False

    def _next(self, size: int) -> bytes:
        begun = self._ahead is not None
        if self._ahead is not None:
            data = self._ahead
        elif self._begin.at:
            data = self._full(self._begin.batches * BLOCK_BYTES - self._begin.at)
        else:
            data = self._full(size)
            if self._header.written is not None:
                data = data.replace(self._header.line, self._header.written, 1)
        self._ahead = b"" if self.damaged else self._full(size)
        data = self._text(data, self._ahead)
        self.no_text = self.no_text or _SUB in data
        if self._begin.at and not begun:
            data = self._end + data
        torn = None if self._quotes is None else self._quotes.torn(data, self._ahead)
        if torn is not None:  # as if the file ended before that quote: the open value swallows the end
            self.torn_at = self._line + line_ends(b"".join([*self._blocks, data[:torn]]))
            data, self._ahead, self._stopped = data[:torn], b"", True
        if (data or self._stopped) and not self._ahead:
            if self.damaged:  # the last line is not whole
                data = data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1]
            data += (b"" if data.endswith((b"\n", b"\r")) else b"\n") + self._end
        self._blocks.append(data)
        while len(self._blocks) > _REMEMBERED_BLOCKS:
            gone = self._blocks.popleft()
            self._line += line_ends(gone, self._blocks[0])
            self._from = max(0, self._from - len(gone))
        return data

    def _full(self, size: int) -> bytes:
        """The next block; shorter only where the stream ends, for some streams give less than they are asked for.

        Damage is an end like others, which ``damaged`` tells apart: pyarrow reads ahead, and an error would come before
        rows that are whole, now after these and now after those.
        """
        parts = [b"."]
        size = min(size, self._left)
        try:
            while parts[-1] and (rest := size + 1 - sum(map(len, parts))) > 0:
                parts.append(self._stream.read(rest))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            self.damaged = True
        data = b"".join(parts[1:])
        self._left -= len(data)
        return data

    def _text(self, data: bytes, following: bytes) -> bytes:
        """The block with SUB for NUL, and for every byte that is not UTF-8."""
        data = data.replace(_NUL, _SUB)
        begun, self._begun = self._begun, 0
        with contextlib.suppress(UnicodeDecodeError):
            data[begun:].decode()
            return data
        text = (data[begun:] + following[:3]).decode("utf-8", "surrogateescape")
        clean = _ESCAPED.sub(_SUB.decode(), text).encode()
        rest = clean[len(data) - begun :]
        # The character that this block's end has begun goes on in the next one.
        self._begun = next((n for n, byte in enumerate(rest) if not 0x80 <= byte <= 0xBF), len(rest))
        return data[:begun] + clean[: len(data) - begun]

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
                return self._line + line_ends(text[:at])
            at = text.find(wanted, at + 1)
        return None

    def close(self) -> None:
        """The stream belongs to who opened it."""


def _as_text(batch: pa.RecordBatch, rows_before: int, no_text: bool, attributes: Collection[str]) -> TextRows:
    """Binary columns as strings, without the rows that are no text. no_text: whether there may be any."""
    faults: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True) if no_text else ():
        foul = pc.match_substring(column, _SUB)
        if name in attributes:
            marked = pc.if_else(foul, pa.scalar(NO_VALUE.encode()), column)
            batch = batch.set_column(batch.schema.get_field_index(name), name, marked)
            continue
        for number in np.flatnonzero(np.asarray(foul)):
            faults.setdefault(int(number), name)
    if not faults:
        return TextRows(_strings(batch), (), rows_before)
    whole = pa.array([number for number in range(batch.num_rows) if number not in faults], pa.int64())
    broken = tuple(
        BrokenRow(
            name,
            "the row is not UTF-8 text, or holds the character NUL or SUB",
            "UTF-8 text without the characters NUL and SUB",
            complete=rows_before + number,
        )
        for number, name in sorted(faults.items())
    )
    return TextRows(_strings(batch.take(whole)), broken, rows_before, tuple(sorted(faults)))


def _strings(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pc.cast(column, pa.string()) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _first_line(stream: BinaryIO, quote: str) -> bytes:
    """The first line that is not empty, to the end of its last quoted value; without its end.

    Of one that is longer than ``MOST_ROW_BYTES``, a little more than these."""
    sign = quote.encode()
    to_line_end = _TO_LINE_END if sign == b'"' else _line_ends_by(sign)
    line, mark = b"", _BYTE_ORDER_MARK
    while True:
        part = stream.readline(BLOCK_BYTES)
        line, mark = line + part.removeprefix(mark), b""
        if len(line) > MOST_ROW_BYTES:
            return line
        bare = line.strip(b"\r\n")
        # Lines may end with CR alone: then this one is the first of many.
        first = to_line_end.match(bare)
        ended = len(part) < BLOCK_BYTES or part.endswith(b"\n")
        quoted = bool(sign) and line.count(sign) % 2 == 1
        if not part or (bare and ((ended and not quoted) or (first and first.end() < len(bare)))):
            return bare if first is None else first.group()
        if not bare:
            line = b""


def _line_ends_by(quote: bytes) -> re.Pattern[bytes]:
    """What finds the end of a line that may go on in quotes."""
    if not quote:
        return re.compile(rb"[^\r]*")
    sign = re.escape(quote)
    return re.compile(rb"(?:[^" + sign + rb"\r]+|" + sign + rb"[^" + sign + rb"]*" + sign + rb"?)*")


def is_compressed(stream: BinaryIO) -> bool:
    """Whether what ``open_text`` gave has other bytes than the file."""
    return isinstance(stream, gzip.GzipFile)


def is_utf8(encoding: str) -> bool:
    """Whether a file of that encoding is read as it is."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def open_text(path: str, encoding: str = PLAIN.encoding) -> BinaryIO:
    """The file's bytes in UTF-8, decompressed. Reading raises InputError: no byte order mark where one must be."""
    stream = _open_bytes(path)
    return stream if is_utf8(encoding) else io.BufferedReader(_InUtf8(stream, path, encoding), BLOCK_BYTES)


class _InUtf8(io.RawIOBase):
    """A stream of another encoding. Bytes that are no character of it come as SUB, which no text has."""

    def __init__(self, stream: BinaryIO, path: str, encoding: str) -> None:
        super().__init__()
        self._stream = stream
        self._unmarked = (
            f"{path}: not {encoding.upper()} text, for no byte order mark is in front; {_SAY_ENCODING}"
        )
        self._decoder = codecs.getincrementaldecoder(encoding)(_NO_CHARACTER)
        self._ready = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and not self._ended:
            data = self._stream.read(len(buffer))
            self._ended = not data
            # Half of a pair of surrogates, which some encodings can spell, is no character either.
            try:
                text = self._decoder.decode(data, self._ended)
            except UnicodeError:  # of a character it is one of _NO_CHARACTER's
                raise InputError(self._unmarked) from None
            self._ready = text.encode("utf-8", _NO_CHARACTER)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def _as_sub(error: UnicodeError) -> tuple[str | bytes, int]:
    assert isinstance(error, UnicodeDecodeError | UnicodeEncodeError)
    return NO_TEXT[1], error.end


codecs.register_error(_NO_CHARACTER, _as_sub)


def _open_bytes(path: str) -> BinaryIO:
    """The file's bytes, decompressed. gzip by the standard library: Beam's reader ends a damaged file early
    and says nothing."""
    raw = open_stored(path)
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
