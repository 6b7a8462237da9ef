"""A small file that is written anew each time, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from kanonflow.transforms.files.create_if_absent import PRIVATE_FILE, PUBLIC_FILE


def replace_file(path: Path, data: bytes, *, private: bool) -> None:
    """Put ``data`` in the place of what is at ``path``, at once. private: for its owner only. Raises OSError."""
    temporary = path.with_name(f".{path.name}.tmp")
    mode = PRIVATE_FILE if private else PUBLIC_FILE
    # What a process that was killed left may have another mode.
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(temporary, path)
