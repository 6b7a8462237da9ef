"""Where the reading of a directory stands: which files were read, which one is being read, and how far.

Of the files that were read only 8 bytes each are kept, digests of their names, in the order of reading. Those of the
last ``ALWAYS_REMEMBERED`` files stay; older ones stay as long as their file is in the directory. So the position
grows with the directory and not with the years: move read files away, and it stays at a few tens of kilobytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from kanonflow.schemas.errors import InputError

VERSION = 1
ALWAYS_REMEMBERED = 4096
"""Files whose names are never read again, even if they leave the directory and come back: so many of the last."""

_DIGEST = 8


@dataclass(frozen=True)
class FilePosition:
    """Within a file. size (bytes), modified (seconds since 1970; 0: not known): of the file when it was begun.

    row_batches, broken_batches: handed on so far, of either kind; how the two interleave varies from run to run.
    latest_ms: newest event time in them. listed: seconds since 1970 when the file was found; None: by an earlier build.
    copy_of: the name of a file that was read and held the same bytes when this one was found; None: there was none.
    """

    name: str
    size: int
    modified: float
    row_batches: int = 0
    broken_batches: int = 0
    latest_ms: int | None = None
    listed: float | None = None
    copy_of: str | None = None

    @property
    def arrived_ms(self) -> int:
        """When the file arrived, in ms since 1970: when it was last modified, but not after it was found; -1: unknown.

        Whoever lays a file down says when it was modified, as far in the future as he likes.
        """
        times = [at for at in (self.modified or None, self.listed) if at is not None]
        return int(min(times) * 1000) if times else -1


@dataclass(frozen=True)
class ArrivalPosition:
    """read: digests of the names of the files read, oldest first. file: what is being read now.

    latest_ms: newest event time of the files that were read completely. ending: the feed ends with what is there.
    """

    read: tuple[bytes, ...] = ()
    file: FilePosition | None = None
    latest_ms: int | None = None
    ending: bool = False

    def encode(self) -> bytes:
        """As JSON text."""
        values = {
            "version": VERSION,
            "read": base64.b64encode(b"".join(self.read)).decode(),
            "file": None if self.file is None else asdict(self.file),
            "latest_ms": self.latest_ms,
        }
        return json.dumps({**values, "ending": True} if self.ending else values).encode()

    @classmethod
    def decode(cls, data: bytes) -> ArrivalPosition:
        """The inverse of ``encode``; the beginning for b"". Raises InputError: of another version."""
        if not data:
            return cls()
        try:
            values = json.loads(data)
            if values["version"] != VERSION:
                raise ValueError
            digests = base64.b64decode(values["read"])
            read = tuple(digests[at : at + _DIGEST] for at in range(0, len(digests), _DIGEST))
            file = None if values["file"] is None else FilePosition(**values["file"])
            return cls(read, file, values["latest_ms"], values.get("ending", False))
        except (ValueError, KeyError, TypeError):
            raise InputError(
                "the checkpoint's position in the directory was written by another version of kanonflow;"
                " go on with that version, or start anew with another output"
            ) from None

    def going_on(self) -> bytes:
        """Where another stream goes on behind this one, encoded: the same files are read, and time begins anew."""
        return ArrivalPosition(self.read).encode()

    def begun(self, file: FilePosition) -> ArrivalPosition:
        """With a file to read next."""
        return replace(self, file=file)

    def finished(self, latest_ms: int | None, present: Iterable[str]) -> ArrivalPosition:
        """After the current file. latest_ms: newest event time that it adds. present: names in the directory now."""
        assert self.file is not None
        there = {name_digest(name) for name in present}
        border = len(self.read) + 1 - ALWAYS_REMEMBERED
        read = tuple(
            digest
            for number, digest in enumerate((*self.read, name_digest(self.file.name)))
            if number >= border or digest in there
        )
        times = [at for at in (self.latest_ms, latest_ms) if at is not None]
        return ArrivalPosition(read, None, max(times, default=None), self.ending)


def name_digest(name: str) -> bytes:
    """8 bytes; names of bytes that are no text have one too."""
    data = name.encode("utf-8", "surrogateescape")
    return hashlib.blake2b(data, digest_size=_DIGEST, person=b"kanonflow name").digest()
