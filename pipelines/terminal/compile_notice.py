"""Says that something is compiled, once, before it begins: nobody waits without knowing for what.

``python -m kanonflow.pipelines.terminal.compile_notice`` compiles the audit's kernels, where no cache holds them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from kanonflow.pipelines.terminal.terminal import tell

COMPILES = (
    "kernels are compiled for this machine first, once after an installation from sources; some seconds"
)


@contextlib.contextmanager
def told_compiling(terminal: TextIO) -> Iterator[None]:
    """While it lasts, the first kernel that no cache holds is announced. What is compiled ahead says so itself."""
    from numba.core import event  # takes a third of a second

    class Notice(event.Listener):
        """Hears of compilations; loading machine code from a cache is none."""

        is_said = False

        def on_start(self, event: Any) -> None:
            if not self.is_said:
                tell(COMPILES, terminal)
            self.is_said = True

        def on_end(self, event: Any) -> None:
            """Kernels compile one after the other: it has been said."""

    notice = Notice()
    event.register("numba:compile", notice)
    try:
        yield
    finally:
        event.unregister("numba:compile", notice)


if __name__ == "__main__":
    with told_compiling(sys.stderr):
        from kanonflow.pipelines.audit.judge.load_kernels import load_kernels

        load_kernels()
