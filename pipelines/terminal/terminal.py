"""Where words for people leave: everything that a command prints goes through ``tell``."""

from __future__ import annotations

import sys
from typing import TextIO

from kanonflow.schemas.printable import printable


def tell(text: object, file: TextIO | None = None, *, end: str = "\n") -> None:
    """Print text with escapes for what a terminal would obey. file: None: stdout.

    Line feeds stay: whoever puts a name into a line escapes those of the name (``printable``).
    """
    print(printable(str(text), lines=True), file=file or sys.stdout, end=end)
