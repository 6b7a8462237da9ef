"""Where files are: paths of this machine, and what stands in stores such as gs:// and s3://, through Beam.

A path of this machine is asked without Beam, which takes a second to load. The name of a folder is a name, whatever
is in it: what is looked for below it may be a glob, it itself never is one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, BinaryIO

_SCHEME = re.compile(r"([a-zA-Z][-a-zA-Z0-9+.]*)://")
_GLOB = re.compile(r"[*?\[]")


def scheme_of(path: str) -> str | None:
    """What stands before :// in a path, such as gs; None: it is one of this machine. As Beam tells it."""
    match = _SCHEME.match(path.strip())
    return None if match is None else match[1]


def is_local(path: str) -> bool:
    """Whether ``path`` is on this machine's file system (no ``scheme://``)."""
    return scheme_of(path) is None


def stores() -> Any:
    """Beam's file systems, loaded now."""
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def join(folder: str, *names: str) -> str:
    """The path of something below a folder."""
    return os.path.join(folder, *names) if is_local(folder) else str(stores().join(folder, *names))


def split(path: str) -> tuple[str, str]:
    """Folder and name; of this machine the folder is whole, from the root."""
    if is_local(path):
        return os.path.split(os.path.abspath(path))
    folder, name = stores().split(path)
    return folder, name


def exists(path: str) -> bool:
    """Whether there is a file or folder. Raises OSError where a store does not answer."""
    return os.path.exists(path) if is_local(path) else bool(stores().exists(path))


def literal(path: str) -> str:
    """A glob of one path, for Beam."""
    # With a byte that no name has: of [[] Python's re warns.
    return _GLOB.sub("[\0\\g<0>]", path)


def paths_below(folder: str, *names: str) -> list[str]:
    """The files below a folder, in order; [] where it is not there. Raises OSError.

    names: globs, of one name each, as of ``fnmatch``: those of folders, and at last that of the files.
    """
    if is_local(folder):
        return sorted(_local(folder, names))
    found = stores().match([join(literal(folder), *names)])[0].metadata_list
    return sorted(each.path for each in found)


def _local(folder: str, names: tuple[str, ...]) -> Iterator[str]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if fnmatchcase(entry.name, names[0]):
                path = os.path.join(folder, entry.name)
                if len(names) > 1:
                    yield from _local(path, names[1:])
                elif entry.is_file():
                    yield path


def open_stored(path: str) -> BinaryIO:
    """A file's bytes as they are stored, from the beginning; they can be sought in. Raises OSError."""
    if is_local(path):
        return open(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes

    return stores().open(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]


def create(path: str) -> BinaryIO:
    """A file to be written, in the place of one that may be there, with the folders that it needs. Raises OSError."""
    if is_local(path):
        if folder := os.path.dirname(path):
            os.makedirs(folder, exist_ok=True)
        return open(path, "wb")
    from apache_beam.io.filesystem import CompressionTypes

    return stores().create(path, compression_type=CompressionTypes.UNCOMPRESSED)  # type: ignore[no-any-return]


def delete(paths: Iterable[str]) -> None:
    """Remove files; one that is not there is no mistake. Raises OSError."""
    for path in paths:
        if is_local(path):
            with suppress(FileNotFoundError):
                os.unlink(path)
        elif exists(path):
            # Of Beam's stores this one alone looks for files by a glob here; the others take a name as it is.
            stores().delete([literal(path) if scheme_of(path) == "gs" else path])
