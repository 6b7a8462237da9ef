"""A small disk that can be filled, and a folder that can be made read-only, also for root.

A tmpfs of a given size is mounted on the folder, so it needs root (or CAP_SYS_ADMIN), as containers of a CI have it. A
mode of 0555 would not do: root writes there all the same.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

_FILLER = ".filler"


def can_mount(folder: Path) -> bool:
    """Whether this process may mount a disk on a folder below ``folder``."""
    trial = folder / "mount-trial"
    trial.mkdir(parents=True, exist_ok=True)
    if _run("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(trial)):
        _run("umount", str(trial))
        return True
    return False


class Volume:
    """A disk of ``size_mb`` on ``folder``, as a context."""

    def __init__(self, folder: Path, size_mb: int) -> None:
        self.folder = folder
        self._size_mb = size_mb

    def __enter__(self) -> Volume:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = f"size={self._size_mb}m,mode=0700"
        if not _run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)):
            raise OSError(f"no tmpfs can be mounted on {self.folder}")
        return self

    def __exit__(self, *_: object) -> None:
        """Unmount it. What it held stays beside it, for whoever looks for a mistake."""
        _run("cp", "-a", str(self.folder), f"{self.folder}-kept")
        # Lazily: a worker that dies may still have a file open there.
        _run("umount", "--lazy", str(self.folder))

    def fill(self) -> None:
        """Leave no byte."""
        with contextlib.suppress(OSError), (self.folder / _FILLER).open("wb", buffering=0) as filler:
            for block in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while filler.write(bytes(block)) == block:
                        pass

    def free(self) -> None:
        """Give the bytes back."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder / _FILLER)

    def protect(self) -> None:
        """Read-only for everybody who opens a file from now on: a second view of the folder lies over it."""
        folder = str(self.folder)
        if not (
            _run("mount", "--bind", folder, folder) and _run("mount", "-o", "remount,bind,ro", folder, folder)
        ):
            raise OSError(f"{self.folder} cannot be made read-only")

    def unprotect(self) -> None:
        """Take the second view away."""
        _run("umount", "--lazy", str(self.folder))


def _run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
