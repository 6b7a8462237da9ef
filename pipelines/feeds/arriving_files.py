"""A directory that files arrive in, as a feed: each file once and whole, in the order of the names that are there.

How files must arrive: whole. A producer writes under a name that is not read (it begins with ``.`` or ``_``, or ends
with ``.tmp`` or ``.part``) in the same directory and renames when the file is complete; on an object store, where an
object appears whole, nothing is needed. Folders below the directory are not read.

What is read when: of the files there, the first by name that was not read yet; a file that comes late under an
earlier name is read as well. A name is read once: a file that comes back under it is ignored, unless it stayed away
for more files than a position remembers (arrival_position.py; move files away once they are old).
An empty file named ``_END`` ends the feed when all others are read; what comes after that is not read.

A file arrives when it was last modified, or found, if that was earlier: ``max_ahead`` is measured from there.
Both times stand in the position, so a job that goes on from a checkpoint sees the same arrival.

What is wrong with a file is data: rows that cannot be split become broken rows; a file that is damaged, empty, of an
unknown kind or of other columns becomes one broken record with the file's name, and the next file is read. So does a
copy of a file that was read and is still there, where the policy has no ``event_id`` by which its rows would be known.
Rows read before the damage stay. A file that changes or vanishes while it is read stops the feed, since nobody can
know which of its rows are out already; so does storage that cannot be reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kanonflow.pipelines.feeds.arrival_position import ArrivalPosition, FilePosition, name_digest
from kanonflow.pipelines.feeds.arrived_file import as_input, as_text, batches_from, refusal, step_past
from kanonflow.pipelines.feeds.csv_files import PLAIN
from kanonflow.pipelines.feeds.directory_listing import (
    ArrivedFile,
    Listing,
    list_arrived,
    look_at,
    same_content,
)
from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.pipelines.feeds.polled_source import Chunk
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.errors import InputError
from kanonflow.schemas.text_form import CsvForm
from kanonflow.transforms.rows.elements import RawBatch, arrivals, arrived_at, from_ipc
from kanonflow.transforms.rows.event_times import event_times, newest_credible

_Batches = tuple[tuple[int | None, RawBatch], ...]


class FileChangedError(InputError):
    """A file that was begun is not what it was."""


@dataclass(frozen=True)
class ArrivingFiles:
    """The feed of a directory.

    directory: a local path, or one of Beam's file systems. bound: the policy, bound to what the files hold.
    pattern: a glob that names must match. form: of CSV files.
    clock: seconds since 1970; event times more than a day ahead of it do not count as progress.
    """

    directory: str
    bound: BoundPolicy
    pattern: str = "*"
    form: CsvForm = PLAIN
    clock: Callable[[], float] = time.time

    def open(self) -> ArrivingFilesReader:
        """A reader of its own."""
        return ArrivingFilesReader(self)


@dataclass
class _OpenFile:
    """A file that is being read. at: where its batches stand now."""

    file: InputFile
    batches: Iterator[RawBatch]
    at: FilePosition


class _Part(NamedTuple):
    """What one read took of a file. at: where it stands; None: the file ended. latest_ms: None when it was refused."""

    batches: _Batches
    at: FilePosition | None
    latest_ms: int | None


class ArrivingFilesReader:
    """Reads on from a position; keeps the file open between two reads that follow each other.

    A read that follows no other one opens the file anew and passes over what was handed on: O(that part of it).
    """

    def __init__(self, source: ArrivingFiles) -> None:
        self._source = source
        self._open: _OpenFile | None = None

    def read(self, position: bytes, max_rows: int) -> Chunk:
        """Up to about ``max_rows`` rows (one batch at least) of the file that ``position`` names.

        Where it names none, no rows: then the next file is chosen and stands in the new position, so that equal
        positions give equal rows whatever has arrived since.
        Raises InputError: a file changed while it was read, or the directory cannot be listed.
        """
        at = ArrivalPosition.decode(position)
        if at.file is None:
            return self._choose(at, self._list(), ())
        try:
            arrived = self._unchanged(at.file)
            part = self._read_file(arrived, at.file, max_rows)
            # After reading as well: what was read of a file that changed meanwhile must not get out.
            self._unchanged(at.file)
        except BaseException:
            self.close()  # or the next read would take a reader that failed for one that is through
            raise
        if part.at is not None:
            return Chunk(part.batches, at.begun(part.at).encode(), at.latest_ms, more=True)
        self.close()
        listing = self._list()
        return self._choose(
            at.finished(part.latest_ms, (each.name for each in listing.files)), listing, part.batches
        )

    def ending(self, position: bytes) -> bytes:
        """The position in a feed that ends when every file there is read, as if ``_END`` were there."""
        return replace(ArrivalPosition.decode(position), ending=True).encode()

    def close(self) -> None:
        """Close the file that is open."""
        if self._open is not None:
            close = getattr(self._open.batches, "close", None)
            if close is not None:
                close()
            self._open = None

    def _read_file(self, arrived: ArrivedFile, at: FilePosition, max_rows: int) -> _Part:
        batches: list[tuple[int | None, RawBatch]] = []
        rows = 0
        try:
            opened = self._standing_at(arrived, at)
            while rows < max_rows:
                batch = next(opened.batches, None)
                if batch is None:
                    return _Part(tuple(batches), None, opened.at.latest_ms)
                table = from_ipc(batch.ipc)
                if at.copy_of is not None and (table.num_rows or batch.broken):
                    raise InputError(
                        f"{arrived.path}: it holds what {as_text(at.copy_of)} holds, byte for byte, which was read"
                        " already: a copy. Where both are meant, give the policy an event_id, by which repeats are told"
                    )
                batch = batch._replace(arrived=arrived_at(at.arrived_ms, table.num_rows))
                times = event_times(
                    table, self._source.bound, source=opened.file.name, arrived=arrivals(batch)
                )
                newest = newest_credible(times, int(self._source.clock() * 1000))
                known = [each for each in (opened.at.latest_ms, newest) if each is not None]
                opened.at = replace(
                    step_past(opened.at, opened.file, batch), latest_ms=max(known, default=None)
                )
                rows += table.num_rows + len(batch.broken)
                batches.append((int(times.min()) if times.size else None, batch))
            return _Part(tuple(batches), opened.at, None)
        except InputError as error:
            refused = refusal(arrived, error, self._source.bound)
            return _Part((*batches, (None, refused)), None, None)

    def _standing_at(self, arrived: ArrivedFile, at: FilePosition) -> _OpenFile:
        """The file, open, with its batches up to ``at`` taken. Raises InputError: it is no file of this feed."""
        if self._open is None or self._open.at != at:
            self.close()
            source = self._source
            file = as_input(arrived, source.bound, source.form)
            batches = batches_from(at, file, source.bound.input_columns, source.form, source.bound.attributes)
            self._open = _OpenFile(file, batches, at)
        return self._open

    def _choose(self, at: ArrivalPosition, listing: Listing, batches: _Batches) -> Chunk:
        """The end of a read after which no file is open: choose the next one."""
        digests = frozenset(at.read)
        following = _first_unread(listing, digests)
        if following is None and (listing.ended or at.ending):
            # A listing may see the marker and miss a file that came just before it: look once more.
            following = _first_unread(self._list(), digests)
            if following is None:
                return Chunk(batches, at.encode(), at.latest_ms, more=False, done=True)
        if following is None:
            return Chunk(batches, at.encode(), at.latest_ms, more=False)
        listed = self._source.clock()
        copy = self._copied(following, listing, digests)
        begun = at.begun(
            FilePosition(following.name, following.size, following.modified, listed=listed, copy_of=copy)
        )
        return Chunk(batches, begun.encode(), at.latest_ms, more=True)

    def _copied(self, file: ArrivedFile, listing: Listing, digests: frozenset[bytes]) -> str | None:
        """The name of a file that was read, is there, and holds the same. Files of other sizes are not opened."""
        if self._source.bound.policy.event_id is not None:
            return None
        read = (
            each for each in listing.files if each.size == file.size and name_digest(each.name) in digests
        )
        return next((each.name for each in read if same_content(file, each)), None)

    def _list(self) -> Listing:
        return list_arrived(self._source.directory, self._source.pattern)

    def _unchanged(self, file: FilePosition) -> ArrivedFile:
        """The file as it is now. Raises FileChangedError: not as it was begun."""
        now = look_at(self._source.directory, file.name)
        if now is not None and (now.size, now.modified) == (file.size, file.modified):
            return now
        what = "was removed" if now is None else "changed"
        raise FileChangedError(
            f"{self._source.directory}: the file {as_text(file.name)} {what} while it was read; put it back as it"
            " was, with its time, and go on from the checkpoint; let files arrive whole (write under another name,"
            " then rename)"
        )


def _first_unread(listing: Listing, known: frozenset[bytes]) -> ArrivedFile | None:
    return next((file for file in listing.files if name_digest(file.name) not in known), None)
