"""An object store in memory, which Beam's file systems use for ``gs://``: it may fail at any write, and tell or not."""

from __future__ import annotations

import contextlib
import errno
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from apache_beam.io.filesystem import FileMetadata, FileSystem, MatchResult
from apache_beam.io.filesystems import FileSystems
from google.api_core.exceptions import PreconditionFailed

BUCKET = "gs://simulated"


class Died(BaseException):
    """The process is gone: no handler of the product may see it."""


@dataclass
class Write:
    """One that is about to be. unless: whether it is made only where nothing has the name."""

    path: str
    data: bytes
    unless: bool


def nothing(write: Write) -> None:
    """What happens at most writes."""


@dataclass
class Store:
    """objects: content by path. before, after: called with each write; what they raise, the writer meets.

    late: writes whose writer is gone; they land when somebody lets them. listed: called with each listing.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    before: Callable[[Write], None] = nothing
    after: Callable[[Write], None] = nothing
    late: list[Write] = field(default_factory=list)
    writes: int = 0

    def put(self, write: Write) -> None:
        """Make a write, or fail in one of the ways of stores."""
        self.writes += 1
        self.before(write)
        if write.unless and write.path in self.objects:
            raise PreconditionFailed("there is one")  # type: ignore[no-untyped-call]
        self.objects[write.path] = write.data
        self.after(write)

    def land(self) -> None:
        """What was on its way when its writer died comes now: a condition is judged then."""
        for write in self.late:
            if not (write.unless and write.path in self.objects):
                self.objects[write.path] = write.data
        self.late.clear()

    def below(self, folder: str, suffix: str = "") -> list[str]:
        """The paths below a folder, in their order."""
        return sorted(
            path for path in self.objects if path.startswith(folder + "/") and path.endswith(suffix)
        )

    # What Beam's FileSystem has, as far as the product uses it.

    def exists(self, path: str) -> bool:
        return path in self.objects

    def open(self, path: str, *_: Any, **__: Any) -> io.BytesIO:
        if path not in self.objects:
            raise FileNotFoundError(errno.ENOENT, "no object", path)
        return io.BytesIO(self.objects[path])

    def create(self, path: str, *_: Any, **__: Any) -> io.BytesIO:
        store = self

        class _File(io.BytesIO):
            def close(self) -> None:
                if not self.closed:
                    data = self.getvalue()
                    super().close()
                    store.put(Write(path, data, unless=False))

        return _File()

    def delete(self, paths: list[str]) -> None:
        for each in self.match(paths):
            for found in each.metadata_list:
                del self.objects[found.path]

    def join(self, base: str, *parts: str) -> str:
        return "/".join([base.rstrip("/"), *parts])

    def split(self, path: str) -> tuple[str, str]:
        folder, _, name = path.rpartition("/")
        return folder, name

    def match(self, patterns: list[str], limits: Any = None) -> list[MatchResult]:
        found = []
        for pattern in patterns:
            fits = re.compile(FileSystem.translate_pattern(pattern)).match
            fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
            paths = [path for path in sorted(self.objects) if path.startswith(fixed) and fits(path)]
            found.append(
                MatchResult(pattern, [FileMetadata(each, len(self.objects[each])) for each in paths])
            )
        return found

    # And of the client behind it, the one request that Beam has no word for.

    def _gcsIO(self) -> Any:  # noqa: N802
        return self

    @property
    def client(self) -> Any:
        return self

    def bucket(self, name: str) -> Any:
        return _Bucket(self, name)


@dataclass
class _Bucket:
    store: Store
    name: str

    def blob(self, name: str) -> Any:
        return _Blob(self.store, f"gs://{self.name}/{name}")


@dataclass
class _Blob:
    store: Store
    path: str

    def upload_from_string(self, data: bytes, content_type: str, if_generation_match: int) -> None:
        assert if_generation_match == 0
        self.store.put(Write(self.path, data, unless=True))


@contextlib.contextmanager
def serving(store: Store) -> Iterator[Store]:
    """Let Beam's file systems use a store for gs://, in this thread's process."""
    original = FileSystems.__dict__["get_filesystem"]
    real = FileSystems.get_filesystem

    def get_filesystem(path: str) -> Any:
        return store if path.startswith("gs://") else real(path)

    FileSystems.get_filesystem = staticmethod(get_filesystem)  # type: ignore[method-assign]
    try:
        yield store
    finally:
        FileSystems.get_filesystem = original
