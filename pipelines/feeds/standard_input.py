"""``--input -``: what comes by standard input, kept in a private file for as long as the process lives.

A pipe can be read once, and a run reads its input several times: its header, a sample, its rows, its digest.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from functools import cache

from kanonflow.schemas.errors import InputError

STANDARD_INPUT = "-"


@cache
def spooled() -> str:
    """The path of the file, which only its owner may read; of all calls in a process the same.

    Raises InputError: nothing is piped in, or there is no place for it.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("--input -: nothing is piped into the command")
    try:
        handle, path = tempfile.mkstemp(prefix="kanonflow-stdin-")  # 0600
        owner = os.getpid()
        atexit.register(lambda: _remove(path, owner))
        with os.fdopen(handle, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    except OSError as error:
        raise InputError(f"--input -: cannot be kept in a file of its own ({error.strerror})") from None
    return path


def _remove(path: str, owner: int) -> None:
    """A worker that was forked ends earlier, and leaves it."""
    if os.getpid() == owner and os.path.exists(path):
        os.unlink(path)
