"""The audit's own reading of CSV files column by column, block by block, where that says what text_rows.py says.

A block of whole lines is *plain* where it holds UTF-8 alone, no NUL and no SUB, line ends of one kind, as many cells in
each line, and quotes only around whole cells. In such a block each delimiter and line end outside of quotes ends a
cell, whatever else stands there. Any other block is read by Python's csv module, to the first row that ends behind it.
"""

import codecs
import io
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numba
import numpy as np
import pyarrow as pa

from kanonflow.pipelines.audit.read.text_rows import (
    BROKEN,
    NO_CHARACTER,
    delimited,
    judged_rows,
    opened,
    split_rows,
    text_rows,
    whole_compression,
)
from kanonflow.schemas.text_form import CsvForm
from kanonflow.schemas.text_inputs import NO_VALUE

CHUNK_ROWS = 65_536
_BLOCK = 2**23
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NO_TEXT = re.compile("[\0\x1a\udc80-\udcff]")
_LF, _CR = 10, 13


def text_columns(
    path: Path, form: CsvForm, names: Sequence[str], attributes: Collection[str] = ()
) -> Iterator[tuple[list[pa.Array], int]]:
    """Some columns of a CSV file as text, an empty cell as it stands, in chunks; with each how many rows were none.

    attributes: of those a cell that is no text is NO_VALUE, where it elsewhere makes a row none. Raises InputError as
    ``text_rows`` does.
    """
    lines = text_rows(path, form)
    header = next(lines)
    positions = [header.index(name) for name in names]
    lenient = [name in attributes for name in names]
    form = delimited(path, form)
    with whole_compression(path), opened(path) as stream:
        blocks = _Blocks(stream)
        if not (_has_plain_blocks(form) and blocks.next()):
            yield from columns_of_rows(lines, positions, lenient)
            return
        taken: list[str] = []
        rows = split_rows(blocks, form, taken)
        next(row for row in rows if row)
        block, stop = b"", blocks.at
        while True:
            ends = judged_rows(rows, taken, form, len(header))
            yield from columns_of_rows(blocks.rows_until(stop, ends, taken), positions, lenient)
            if blocks.ended:
                return
            while block := blocks.next():
                cells = plain_cells(block, form, len(header), positions)
                if cells is None:
                    break
                blocks.skip(len(block))
                yield cells, 0
            taken = []
            rows, stop = split_rows(blocks, form, taken), blocks.at + len(block) if block else sys.maxsize


def columns_of_rows(
    rows: Iterator[list[str]], positions: Sequence[int], lenient: Sequence[bool]
) -> Iterator[tuple[list[pa.Array], int]]:
    """Some columns of rows, as of ``text_columns``. lenient: of which a cell that is no text is NO_VALUE."""
    while chunk := list(islice(rows, CHUNK_ROWS)):
        whole = [row for row in chunk if row is not BROKEN]
        cells = [[row[position] for row in whole] for position in positions]
        foul: set[int] = set()
        for column, may in zip(cells, lenient, strict=True):
            wrong = no_text(column)
            if may:
                for place in wrong:
                    column[place] = NO_VALUE
            else:
                foul.update(wrong)
        if foul:
            cells = [[cell for place, cell in enumerate(column) if place not in foul] for column in cells]
        broken = len(chunk) - len(whole) + len(foul)
        yield [pa.array(column, pa.string()) for column in cells], broken


def no_text(cells: list[str]) -> list[int]:
    """Positions of the cells that hold a NUL, a SUB, or a byte kept as a surrogate."""
    if _NO_TEXT.search("".join(cells)) is None:
        return []
    return [n for n, cell in enumerate(cells) if _NO_TEXT.search(cell)]


def plain_cells(block: bytes, form: CsvForm, width: int, positions: Sequence[int]) -> list[pa.Array] | None:
    """Some columns of a block of whole lines, each of ``width`` cells; None: it is not plain. O(bytes)."""
    if b"\0" in block or b"\x1a" in block:
        return None
    try:
        block.decode()
    except UnicodeDecodeError:
        return None
    data = np.frombuffer(block, np.uint8)
    asked = list(dict.fromkeys(positions))
    place = np.full(width, -1, np.int64)
    place[asked] = np.arange(len(asked))
    # One more than line ends: what stands behind the last one is written, and then refused.
    begin, end = (np.empty((len(asked), block.count(b"\n") + 1), np.int64) for _ in range(2))
    rows = _cut(data, ord(form.delimiter or ","), ord(form.quote) if form.quote else -1, place, begin, end)
    if rows < 1:
        return None
    cells = [_cells(data, *each) for each in zip(begin[:, :rows], end[:, :rows], strict=True)]
    return [cells[place[position]] for position in positions]


def _cells(data: np.ndarray, begin: np.ndarray, end: np.ndarray) -> pa.Array:
    """The text of UTF-8 between places of a block."""
    offsets = np.zeros(len(begin) + 1, np.int32)
    np.cumsum(end - begin, out=offsets[1:])
    text = np.empty(offsets[-1], np.uint8)
    _copy(data, begin, offsets, text)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(begin), buffers)


@numba.njit(cache=True, nogil=True)
def _cut(data, delimiter, sign, place, begin, end):  # type: ignore[no-untyped-def]
    """Write where the cells of a block begin and end, without their quotes; how many rows it has, -1: it is not plain.

    place: where the cells of each column go, -1: nowhere.
    """
    width, row, column, start, returns, ended = len(place), 0, 0, 0, 0, 0
    quoted = shut = False
    for at in range(len(data)):
        byte = data[at]
        if byte == _CR:
            returns += 1
        if byte == sign:
            # Only the first of a cell opens it, and behind the one that closes it nothing else stands.
            if shut or (not quoted and at > start):
                return -1
            shut, quoted = quoted, True
        elif quoted and not shut:
            continue
        elif byte in (delimiter, _LF):
            stop = at
            if byte == _LF and at > start and data[at - 1] == _CR:
                stop = at - 1
                ended += 1
            last = column == width - 1
            if last != (byte == _LF) or (shut and data[stop - 1] != sign) or (width == 1 and stop == start):
                return -1
            if place[column] >= 0:
                begin[place[column], row] = start + quoted
                end[place[column], row] = stop - quoted
            column = 0 if last else column + 1
            row += last
            start = at + 1
            quoted = shut = False
        elif shut and byte != _CR:
            return -1
    # A line end of another kind stands within a cell, or a quote is open.
    return -1 if returns != ended or ended not in (0, row) or start < len(data) else row


@numba.njit(cache=True, nogil=True)
def _copy(data, begin, offsets, text):  # type: ignore[no-untyped-def]
    """The bytes of cells, one after the other."""
    for cell in range(len(begin)):
        shift = begin[cell] - offsets[cell]
        for at in range(offsets[cell], offsets[cell + 1]):
            text[at] = data[at + shift]


def _has_plain_blocks(form: CsvForm) -> bool:
    return codecs.lookup(form.encoding).name == "utf-8" and f"{form.delimiter}{form.quote}".isascii()


class _Blocks:
    """A stream of UTF-8, as blocks of whole lines, or as lines. at: bytes taken."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._held = stream, stream.read(_BLOCK)
        self._from = len(_BYTE_ORDER_MARK) if self._held.startswith(_BYTE_ORDER_MARK) else 0
        self.at = 0
        self.ended = False
        self._between = True

    def next(self) -> bytes:
        """The lines that come next, which are not taken by that; none where the stream's rest has no LF."""
        held = self._held[self._from :]
        self._held, self._from = held + self._stream.read(max(_BLOCK - len(held), 0)), 0
        return self._held[: self._held.rfind(b"\n") + 1]

    def skip(self, size: int) -> None:
        """Take so many bytes."""
        self._from += size
        self.at += size

    def __iter__(self) -> Iterator[str]:
        """Take line by line, as a text stream does that keeps line ends as they are."""
        while line := self._line():
            parts = list(io.StringIO(line.decode("utf-8", NO_CHARACTER), newline=""))
            for number, part in enumerate(parts, 1):
                self._between = number == len(parts)
                yield part

    def rows_until(self, stop: int, rows: Iterator[list[str]], taken: Sequence[str]) -> Iterator[list[str]]:
        """Rows that take lines from here, to the first that ends a line at or behind a place.

        taken: of ``judged_rows``, which leaves there what no row is read behind.
        """
        if self.at >= stop and self._between:
            return
        for row in rows:
            yield row
            if self.at >= stop and self._between and not taken:
                return
        self.ended = True

    def _line(self) -> bytes:
        end = self._held.find(b"\n", self._from) + 1
        while not end:
            more = self._stream.read(_BLOCK)
            if not more:
                end = len(self._held)
                break
            self._held, self._from = self._held[self._from :] + more, 0
            end = self._held.find(b"\n") + 1
        line = self._held[self._from : end]
        self.skip(len(line))
        return line
