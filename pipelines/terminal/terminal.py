"""Where words for people leave: everything that a command prints goes through ``tell``."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from kanonflow.schemas.printable import printable


class ClosedPipeError(BrokenPipeError):
    """Nobody reads any more what a command prints."""


def tell(text: object, file: TextIO | None = None, *, end: str = "\n") -> None:
    """Print text with escapes for what a terminal would obey. file: None: stdout.

    Line feeds stay: whoever puts a name into a line escapes those of the name (``printable``).
    Raises ClosedPipeError.
    """
    try:
        print(printable(str(text), lines=True), file=file or sys.stdout, end=end)
    except BrokenPipeError as error:
        raise ClosedPipeError(*error.args) from None


def flush_output() -> None:
    """Hand on what was printed. Raises ClosedPipeError."""
    try:
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise ClosedPipeError(*error.args) from None


def drop_output() -> None:
    """Let go of what nobody reads, which Python would try to print once more at its end."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(nothing, stream.fileno())
