"""Kernels that no cache holds are compiled before a command needs them, in parallel, and it says how far that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TextIO

from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.solvers.kernels.compile_ahead import compile_ahead, missing_units
from kanonflow.transforms.protections.needed_kernels import needed_kernels
from kanonflow.transforms.risks.sample_slots import sample_kernels

COMPILES = "the solver is compiled for this machine first, once after an installation from sources"

# Of the work, between two lines where there is no terminal.
_STEP = 0.25


def kernels_of_run(bound: BoundPolicy, *, here: bool) -> tuple[str, ...]:
    """Sets of kernels that a run needs on this machine. here: its windows are solved on it, too."""
    own = needed_kernels(bound).sets if here else ()
    return tuple(dict.fromkeys((*own, *sample_kernels(bound))))


def compile_first(
    bound: BoundPolicy, terminal: TextIO | None, *, here: bool = True, quiet: bool = False
) -> None:
    """Compile what a run needs and no cache holds; otherwise it takes some 10 ms and says nothing.

    here: as of ``kernels_of_run``. quiet, or no terminal: say nothing.
    """
    compile_sets(kernels_of_run(bound, here=here), terminal, quiet=quiet)


def compile_sets(names: Sequence[str], terminal: TextIO | None, *, quiet: bool = False) -> None:
    """Compile what sets of kernels need and no cache holds, as ``compile_first`` does."""
    if not missing_units(names):
        return
    begin = time.perf_counter()
    if quiet or terminal is None:
        compile_ahead(names, None)
        return
    print(COMPILES, file=terminal, flush=True)
    if compile_ahead(names, progress_lines(terminal)):
        print(f"compiled in {time.perf_counter() - begin:.0f} s", file=terminal, flush=True)


def progress_lines(terminal: TextIO) -> Callable[[int, int, float], None]:
    """Tells what ``compile_ahead`` says: one line that is written over at a terminal, elsewhere some lines."""
    lively = terminal.isatty()
    due = _STEP

    def tell(ready: int, count: int, share: float) -> None:
        nonlocal due
        line = f"compiled {ready} of {count} kernels, {share:.0%} of the work"
        if lively:
            print(f"\r\x1b[K{line}", end="\n" if ready == count else "", file=terminal, flush=True)
        elif share >= due or ready == count:
            due = share + _STEP
            print(line, file=terminal, flush=True)

    return tell
