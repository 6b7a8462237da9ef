"""The audit's own reading of CSV files, by Python's csv module; what is a row stands in schemas/text_inputs.py."""

import codecs
import csv
import gzip
import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import NUMBERED, CsvForm
from kanonflow.schemas.text_inputs import DELIMITERS, MOST_ROW_BYTES

BROKEN: list[str] = []
"""What stands for a line that is no row."""

NO_CHARACTER = "kanonflow.audit.no_character"
"""How bytes that are no character are decoded: as lone surrogates."""
_LAST = "\0the file ends here"


def text_rows(path: Path, form: CsvForm) -> Iterator[list[str]]:
    """The header, then the rows of a CSV file; ``BROKEN`` itself for each that is none by its width or its quotes.

    Bytes that are no character of the encoding are lone surrogates. Raises InputError: no usable header, or the
    compression is damaged.
    """
    # Of the whole process, and by default 131,072: a row with a longer cell was read by the run all the same.
    csv.field_size_limit(sys.maxsize)
    with whole_compression(path), _text(path, form.encoding) as stream:
        _check_length(path, stream)
        form = replace(form, delimiter=form.delimiter or _delimiter(stream, form.quote))
        _to_beginning(stream)
        taken: list[str] = []
        rows = split_rows(stream, form, taken)
        header = next((row for row in rows if row), [])
        _check_header(path, header, form)
        if form.header == NUMBERED:
            # The cells of the first row say whether the header lacks a last one.
            with _text(path, form.encoding) as again:
                _to_beginning(again)
                both = islice((row for row in split_rows(again, form, []) if row), 2)
                header = numbered(header, [len(row) for row in both][-1] - len(header))
        yield header
        yield from judged_rows(rows, taken, form, len(header))


@contextmanager
def whole_compression(path: Path) -> Iterator[None]:
    """Raises InputError where a compressed file is damaged or cut off."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path}: the compressed file is damaged or cut off") from None


def delimited(path: Path, form: CsvForm) -> CsvForm:
    """The form with the delimiter that the file has, where it names none."""
    with _text(path, form.encoding) as stream:
        return replace(form, delimiter=form.delimiter or _delimiter(stream, form.quote))


def split_rows(lines: Iterable[str], form: CsvForm, taken: list[str]) -> Iterator[list[str]]:
    """The cells of each row, one row that marks the end behind them. taken: gets the lines as they are read."""
    quotes: dict[str, Any] = {"quotechar": form.quote} if form.quote else {"quoting": csv.QUOTE_NONE}
    return csv.reader(_with_end(lines, taken), delimiter=form.delimiter or ",", **quotes)


def judged_rows(
    rows: Iterator[list[str]], taken: list[str], form: CsvForm, width: int
) -> Iterator[list[str]]:
    """The rows of ``split_rows`` that are some; of a torn one, which ends them, and of one that is none, BROKEN."""
    torn = _torn(form.delimiter or ",", form.quote)
    taken.clear()
    for row in rows:
        ended = taken[-1] is _LAST
        if ended and row == [_LAST]:
            return
        if len(taken) > 1 and not ended and torn("".join(taken)):
            yield BROKEN
            return
        taken.clear()
        if row:
            yield row if len(row) == width and not ended else BROKEN


def opened(path: Path) -> BinaryIO:
    """The file's bytes, decompressed."""
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]


def _text(path: Path, encoding: str) -> io.TextIOBase:
    """The file as text, decompressed; bytes that are no character become lone surrogates."""
    return io.TextIOWrapper(opened(path), encoding=encoding, errors=NO_CHARACTER, newline="")


def _check_length(path: Path, stream: io.TextIOBase) -> None:
    """Raise InputError of a first line that is none; the stream is at its beginning again."""
    if len(stream.readline(MOST_ROW_BYTES + 1)) > MOST_ROW_BYTES:
        raise InputError(f"{path}: the header is longer than {MOST_ROW_BYTES:,} bytes; is this a CSV file?")
    stream.seek(0)


def _as_surrogate(error: UnicodeError) -> tuple[str, int]:
    """Python's own surrogateescape has no surrogates for bytes below 128, of which UTF-16 has wrong ones too."""
    if isinstance(error, UnicodeDecodeError):
        return "\udcff", error.end
    raise error


codecs.register_error(NO_CHARACTER, _as_surrogate)


def _to_beginning(stream: io.TextIOBase) -> None:
    """To the first character that is no byte order mark, which some decoders leave in the text."""
    stream.seek(0)
    if stream.read(1) != "\ufeff":
        stream.seek(0)


def _delimiter(stream: io.TextIOBase, quote: str) -> str:
    """What the header has most of outside of quotes."""
    header = ""
    _to_beginning(stream)
    for line in stream:
        if header or line.strip("\r\n"):
            header += line
            if not quote or header.count(quote) % 2 == 0:
                break
    bare = "".join(header.split(quote)[::2]) if quote else header
    return max((sign for sign in DELIMITERS if sign != quote), key=bare.count)


def _with_end(lines: Iterable[str], taken: list[str]) -> Iterator[str]:
    """The lines, and one behind the last of them, which only a quoted cell that does not end can swallow.

    taken: gets them, as they go out.
    """
    line = "\n"
    for line in lines:
        taken.append(line)
        yield line
    if not line.endswith(("\n", "\r")):
        taken.append("\n")
        yield "\n"
    taken.append(_LAST)
    yield _LAST


def _torn(delimiter: str, quote: str) -> Callable[[str], bool]:
    """Whether in a row of several lines a quoted cell goes over a line end and has text behind its closing quote."""
    if not quote:
        return lambda row: False
    sign, end = re.escape(quote), f"[^{re.escape(delimiter)}\r\n]*"
    cell = re.compile(f"{sign}((?:[^{sign}]++|{sign}{sign})*+){sign}({end})|{end}")

    def torn(row: str) -> bool:
        place = 0
        while place < len(row) and (found := cell.match(row, place)) is not None:
            if found[2] and ("\n" in found[1] or "\r" in found[1]):
                return True
            place = found.end() + 1
        return False

    return torn


def _check_header(path: Path, header: list[str], form: CsvForm) -> None:
    names = "".join(header)
    if not header or _LAST in names:
        raise InputError(f"{path}: no header line; the first line must name the columns")
    if names.startswith("\ufeff"):
        raise InputError(
            f"{path}: the header begins with a byte order mark, which belongs before all else, once"
        )
    if any(character in "\0\x1a" or "\udc80" <= character <= "\udcff" for character in names):
        raise InputError(
            f"{path}: the header is not {form.encoding} text; say csv: {{encoding: ...}} in the policy"
        )
    if form.header is None:
        check_names(path, header)


def check_names(path: Path, header: list[str]) -> None:
    """Raise InputError where a column has no name of its own."""
    if not all(header):
        raise InputError(f"{path}: a column of the header has no name")
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        raise InputError(f"{path}: the header names a column more than once: {', '.join(twice)}")


def numbered(header: list[str], more: int = 0) -> list[str]:
    """The names under ``header: numbered``. more: cells of the first row behind the header's last; one counts."""
    cells = [*header, ""] if more == 1 else header
    names: list[str] = []
    for place in range(len(cells)):
        name = cells[place]
        if not name or name in names:
            name = f"{name or 'column'}_{place + 1}"
            while name in names or name in cells:
                name += "_"
        names.append(name)
    return names
