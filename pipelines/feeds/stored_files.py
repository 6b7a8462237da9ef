"""Files by their path: local ones as Python opens them, those of other file systems through Beam, loaded for them; and
the parts of a file that are read as if it were read whole.

Beam takes a second and a half to load. Who looks at a local file, before any pipeline is made, need not wait for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, NamedTuple, TypeVar

Batch = TypeVar("Batch")

_SCHEME = re.compile(r"([a-zA-Z][-a-zA-Z0-9+.]*)://")
_GLOB = re.compile(r"[*?\[]")


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


def scheme_of(path: str) -> str | None:
    """What stands before :// in a path, such as gs; None: it is a local one. As Beam tells it."""
    match = _SCHEME.match(path.strip())
    return None if match is None else match[1]


def open_stored(path: str) -> BinaryIO:
    """A file's bytes as they are stored, from the beginning; they can be sought in. Raises OSError."""
    if scheme_of(path) is None:
        return open(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def matching_files(pattern: str) -> list[StoredFile]:
    """The files that a path or a glob names; [] of none. Raises OSError, ValueError.

    A path that is no glob needs no Beam.
    """
    if scheme_of(pattern) is None and not _GLOB.search(pattern) and os.path.isfile(pattern):
        return [StoredFile(pattern, os.path.getsize(pattern))]
    from apache_beam.io.filesystems import FileSystems

    if scheme_of(pattern) is None and not os.path.dirname(pattern):
        pattern = os.path.join(os.curdir, pattern)  # of a bare *.csv Beam lists a folder without a name
    return [
        StoredFile(entry.path, entry.size_in_bytes) for entry in FileSystems.match([pattern])[0].metadata_list
    ]
