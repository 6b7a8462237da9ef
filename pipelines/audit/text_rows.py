"""The audit's own reading of CSV files, by Python's csv module; what is a row stands in schemas/text_inputs.py."""

import csv
import gzip
import io
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_inputs import DELIMITERS, MOST_ROW_BYTES

BROKEN: list[str] = []
"""What stands for a line that is no row."""

_LAST = "\0the file ends here"


def text_rows(path: Path, delimiter: str | None) -> Iterator[list[str]]:
    """The header, then the rows of a CSV file; ``BROKEN`` itself for each that is none by its width or its quotes.

    Bytes that are not UTF-8 are lone surrogates. Raises InputError: no usable header, or the compression is damaged.
    """
    # Of the whole process, and by default 131,072: a row with a longer cell was read by the run all the same.
    csv.field_size_limit(sys.maxsize)
    try:
        with _text(path) as stream:
            _check_length(path, stream)
            rows = csv.reader(_with_end(stream), delimiter=delimiter or _delimiter(stream))
            header = next((row for row in rows if row), [])
            _check_header(path, header)
            yield header
            for row in rows:
                if row == [_LAST]:
                    return
                if row:
                    swallowed = any(_LAST in cell for cell in row)
                    yield row if len(row) == len(header) and not swallowed else BROKEN
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path}: the compressed file is damaged or cut off") from None


def _text(path: Path) -> io.TextIOBase:
    """The file as text, decompressed; bytes that are not UTF-8 become lone surrogates."""
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    options: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "surrogateescape", "newline": ""}
    return gzip.open(path, "rt", **options) if packed else path.open("r", **options)  # type: ignore[return-value]


def _check_length(path: Path, stream: io.TextIOBase) -> None:
    """Raise InputError of a first line that is none; the stream is at its beginning again."""
    if len(stream.readline(MOST_ROW_BYTES + 1)) > MOST_ROW_BYTES:
        raise InputError(f"{path}: the header is longer than {MOST_ROW_BYTES:,} bytes; is this a CSV file?")
    stream.seek(0)


def _delimiter(stream: io.TextIOBase) -> str:
    """What the header has most of outside of quotes; the stream is at its beginning again."""
    header = ""
    for line in stream:
        if header or line.strip("\r\n"):
            header += line
            if header.count('"') % 2 == 0:
                break
    stream.seek(0)
    bare = "".join(header.split('"')[::2])
    return max(DELIMITERS, key=bare.count)


def _with_end(stream: io.TextIOBase) -> Iterator[str]:
    """The lines, and one behind the last of them, which only a quoted cell that does not end can swallow."""
    line = "\n"
    for line in stream:
        yield line
    if not line.endswith(("\n", "\r")):
        yield "\n"
    yield _LAST


def _check_header(path: Path, header: list[str]) -> None:
    names = "".join(header)
    if not header or _LAST in names:
        raise InputError(f"{path}: no header line; the first line must name the columns")
    if any(character in "\0\x1a" or "\udc80" <= character <= "\udcff" for character in names):
        raise InputError(f"{path}: the header is not UTF-8 text; convert the file to UTF-8")
    if not all(header):
        raise InputError(f"{path}: a column of the header has no name")
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        raise InputError(f"{path}: the header names a column more than once: {', '.join(twice)}")
