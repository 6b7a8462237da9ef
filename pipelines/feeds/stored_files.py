"""The files that a path or a glob names, and the parts of a file that are read as if it were read whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from kanonflow.transforms.files import storage

Batch = TypeVar("Batch")


class StoredFile(NamedTuple):
    """size: bytes."""

    path: str
    size: int


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


def matching_files(pattern: str) -> list[StoredFile]:
    """The files that a path or a glob names; [] of none. Raises OSError, ValueError.

    What is the path of a file names that one, whatever is in it, and needs no Beam; of a glob the folders that are
    there by their names are those.
    """
    if storage.is_local(pattern):
        if os.path.isfile(pattern):
            return [StoredFile(pattern, os.path.getsize(pattern))]
        if not os.path.dirname(pattern):
            pattern = os.path.join(os.curdir, pattern)  # of a bare *.csv Beam lists a folder without a name
        folder = os.path.dirname(pattern)
        while folder and not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        pattern = storage.literal(folder) + pattern[len(folder) :]
    return [
        StoredFile(entry.path, entry.size_in_bytes)
        for entry in storage.stores().match([pattern])[0].metadata_list
    ]
