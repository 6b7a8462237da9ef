"""Which part of a file is read: places between its batches, from and to which it can be, as if it were read whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

Batch = TypeVar("Batch")


class Cut(NamedTuple):
    """A place of a file between two of its batches.

    at: bytes before it, to the end of a row or block; of Parquet row groups. batches: of rows, before it. lines: before
    it, rows where a file has no lines. skipped: rows behind ``at`` that are of the batches before.
    """

    at: int = 0
    batches: int = 0
    lines: int = 0
    skipped: int = 0


BEGINNING = Cut()


class FilePart(NamedTuple):
    """From one cut to another; None: to the file's end."""

    begin: Cut = BEGINNING
    end: Cut | None = None

    def of(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Of all batches behind ``begin`` those of the part. Nothing is read behind them."""
        return islice(batches, None if self.end is None else self.end.batches - self.begin.batches)


WHOLE = FilePart()
