"""What the input of a run holds, as digests: a run that resumes must read what it read before, byte for byte.

Same names and sizes do not say so. Files of this machine are read once before the run, and looked at again after it;
of objects elsewhere the store's own checksum is taken, twice as well.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apache_beam.io.filesystem import BeamIOError

from kanonflow.pipelines.feeds.input_files import InputFile
from kanonflow.schemas.errors import InputError
from kanonflow.transforms.files import storage
from kanonflow.transforms.files.storage import is_local

_PIECE = 1 << 20
_NAMED = 5


class InputChangedError(Exception):
    """A file changed while the run read it."""

    exit_code = 3


@dataclass(frozen=True)
class InputContent:
    """file: what was looked at. content: a digest or a store's checksum. state: what changes when a local file does.
    rows: a digest of what its rows say (``rows_digest``); None: nobody asked."""

    file: InputFile
    content: str
    state: tuple[int, ...]
    rows: str | None = None

    def record(self) -> dict[str, Any]:
        """For run.json, where content and rows are keyed with the run's secret."""
        rows = {} if self.rows is None else {"rows": self.rows}
        return {"name": self.file.name, "bytes": self.file.size, "content": self.content, **rows}


def input_contents(files: Sequence[InputFile]) -> tuple[InputContent, ...]:
    """What each file holds. Raises InputError: one cannot be read."""
    return tuple(_look(file) for file in files)


def refuse_twice(contents: Sequence[InputContent], has_rows: Callable[[InputFile], bool]) -> None:
    """Raise InputError if two files hold the same: a copy, another name of one, or the same rows in other bytes, which
    would be out twice.

    has_rows: asked of such files alone; without rows they may be equal.
    """
    first: dict[str, InputFile] = {}
    twice = []
    for each in contents:
        same = [first.setdefault(digest, each.file) for digest in (each.content, each.rows) if digest]
        same = [file for file in same if file is not each.file]
        if same and has_rows(each.file):
            twice.append((same[0].path, each.file.path))
    if twice:
        names = ", ".join(f"{other} holds what {one} holds" for one, other in twice[:_NAMED])
        more = f" and {len(twice) - _NAMED} more" if len(twice) > _NAMED else ""
        raise InputError(
            f"--input: {names}{more}, row for row, and each row would be published once for each file. Give one of"
            " them; where both are meant, give the policy an event_id, by which repeats are told"
        )


def refuse_changed(contents: Sequence[InputContent]) -> None:
    """Raise InputChangedError if a file is not any more what it was."""
    for before in contents:
        try:
            same = _state(before.file.path) == before.state
            if not same or not is_local(before.file.path):
                # A file that was only touched, or moved back, holds what it held.
                same = _look(before.file).content == before.content
        except (OSError, InputError):
            same = False
        if not same:
            raise InputChangedError(
                f"{before.file.path} changed while the run read it, so nobody can say which rows were released. What is"
                " published stays as it is; put the old content back and resume, or release only rows that are in no"
                " release, in another run"
            )


def _look(file: InputFile) -> InputContent:
    try:
        if is_local(file.path):
            state = _state(file.path)
            with open(file.path, "rb") as stream:
                return InputContent(file, hashlib.file_digest(stream, "sha256").hexdigest(), state)
        return InputContent(file, _checksum(file.path), ())
    except (OSError, BeamIOError):
        raise InputError(f"{file.path}: cannot be read") from None


def _state(path: str) -> tuple[int, ...]:
    if not is_local(path):
        return ()
    entry = os.stat(path)
    return entry.st_size, entry.st_mtime_ns, entry.st_ino


def _checksum(path: str) -> str:
    try:
        return f"store:{storage.stores().checksum(path)}"
    except NotImplementedError:
        digest = hashlib.sha256()
        with storage.open_stored(path) as stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
        return digest.hexdigest()
