"""``python -m kanonflow.solvers.compile_kernels [SET...]``: compile sets of kernels that are in no cache, or all.

Then each set is warmed up, which compiles what the list of units lacks. A set is a name in ``warm_up.KERNEL_SETS``.
"""

from __future__ import annotations

import sys
import time

from kanonflow.solvers.kernels.compile_ahead import compile_ahead
from kanonflow.solvers.warm_up import KERNEL_SETS, warm_up_set


class Progress:
    """Lines, or at a terminal one line, that say how much is compiled."""

    def __init__(self, step: float = 0.1) -> None:
        self._terminal = sys.stderr.isatty()
        self._step = step
        self._next = 0.0

    def __call__(self, ready: int, count: int, share: float) -> None:
        line = f"compiling kernels: {ready} of {count}, {share:.0%} of the work"
        if self._terminal:
            end = "\n" if ready == count else ""
            print(f"\r\x1b[K{line}", end=end, file=sys.stderr, flush=True)
        elif share >= self._next or ready == count:
            self._next = share + self._step
            print(line, file=sys.stderr, flush=True)


def main() -> None:
    """The names of sets, or none for all of them."""
    names = sys.argv[1:] or list(KERNEL_SETS)
    begin = time.perf_counter()
    if compile_ahead(names, Progress()):
        print(f"compiled in {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    for name in names:
        warm_up_set(name)


if __name__ == "__main__":
    main()
