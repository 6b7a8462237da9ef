"""What is in a directory that files arrive in: complete files by name, and whether the feed has ended."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from apache_beam.io.filesystem import BeamIOError

from kanonflow.schemas.errors import InputError
from kanonflow.transforms.files import storage

END_MARKER = "_END"
_HIDDEN = (".", "_")
_UNFINISHED = (".tmp", ".part")


class ArrivedFile(NamedTuple):
    """size: bytes. modified: seconds since 1970, as the file system tells it."""

    name: str
    path: str
    size: int
    modified: float


class Listing(NamedTuple):
    """files: in the order of their names. ended: whether the end marker is there."""

    files: tuple[ArrivedFile, ...]
    ended: bool


def list_arrived(directory: str, pattern: str) -> Listing:
    """The complete files directly in ``directory`` whose names match the glob ``pattern``.

    A directory that does not exist (yet) is empty. Raises InputError: it cannot be listed.
    """
    try:
        arrived = list(_local(directory) if storage.scheme_of(directory) is None else _remote(directory))
    except (OSError, BeamIOError, ValueError) as error:
        raise InputError(f"{directory}: cannot be listed ({type(error).__name__})") from None
    files = sorted(file for file in arrived if _is_complete(file.name) and fnmatchcase(file.name, pattern))
    return Listing(tuple(files), any(file.name == END_MARKER for file in arrived))


def look_at(directory: str, name: str) -> ArrivedFile | None:
    """One file of the directory as it is now; None when it is not there. Raises InputError, as ``list_arrived``."""
    path = storage.join(directory, name)
    if storage.scheme_of(directory) is not None:
        return next((file for file in list_arrived(directory, "*").files if file.name == name), None)
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be looked at ({type(error).__name__})") from None
    return ArrivedFile(name, path, stat.st_size, stat.st_mtime)


def same_content(one: ArrivedFile, other: ArrivedFile) -> bool:
    """Whether two files of one size hold the same bytes; in a store by its checksums. What is gone holds none."""
    try:
        if storage.scheme_of(one.path) is None:
            return filecmp.cmp(one.path, other.path, shallow=False)
        return bool(storage.stores().checksum(one.path) == storage.stores().checksum(other.path))
    except (OSError, BeamIOError, NotImplementedError):
        return False


def _is_complete(name: str) -> bool:
    return not name.startswith(_HIDDEN) and not name.endswith(_UNFINISHED)


def _local(directory: str) -> Iterator[ArrivedFile]:
    """Not through Beam, which walks all folders below the directory and takes ``[`` in its name for a glob."""
    try:
        entries = os.scandir(directory)
    except FileNotFoundError:
        return
    with entries:
        for entry in entries:
            try:
                if entry.is_file():
                    stat = entry.stat()
                    path = os.path.join(directory, entry.name)
                    yield ArrivedFile(entry.name, path, stat.st_size, stat.st_mtime)
            except FileNotFoundError:  # taken away between the two looks
                continue


def _remote(directory: str) -> Iterator[ArrivedFile]:
    pattern = storage.join(storage.literal(directory), "*")
    for match in storage.stores().match([pattern])[0].metadata_list:
        name = match.path.rsplit("/", 1)[-1]
        if name:
            yield ArrivedFile(name, match.path, match.size_in_bytes, match.last_updated_in_seconds or 0.0)
