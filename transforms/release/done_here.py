"""What the steps of this process have done so far, for a line on its terminal.

The runner tells of counters when a pipeline has ended, and files of metrics appear when a whole stage has. Processes of
a cluster count for themselves, and nobody looks there.
"""

from __future__ import annotations

import threading
from typing import NamedTuple


class Done(NamedTuple):
    """Rows that were read of files, and windows that were closed with the rows that they release."""

    rows_read: int = 0
    windows: int = 0
    rows_solved: int = 0

    def since(self, before: Done) -> Done:
        """What came after that."""
        return Done(*(now - then for now, then in zip(self, before, strict=True)))


class DoneHere:
    """Adds up over all pipelines of the process; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = Done()

    def add(self, rows_read: int = 0, windows: int = 0, rows_solved: int = 0) -> None:
        """Count."""
        with self._lock:
            self._done = Done(
                self._done.rows_read + rows_read,
                self._done.windows + windows,
                self._done.rows_solved + rows_solved,
            )

    @property
    def so_far(self) -> Done:
        """As of now."""
        return self._done


DONE_HERE = DoneHere()
