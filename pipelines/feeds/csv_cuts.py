"""Where a CSV file can be read from: ends of rows, found by one pass over its bytes that follows quotes.

From a place in the middle nobody can tell a row from a line in quotes. From the beginning it takes no parsing.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import BinaryIO

from kanonflow.pipelines.feeds.csv_files import BLOCK_BYTES, csv_header, is_compressed, is_utf8, open_text
from kanonflow.pipelines.feeds.file_parts import Cut
from kanonflow.pipelines.feeds.open_quotes import OpenQuotes, line_ends
from kanonflow.pipelines.feeds.row_lines import CsvLines
from kanonflow.schemas.text_form import CsvForm, with_delimiter

_TRIES = 16


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
