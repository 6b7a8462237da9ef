"""Kernels that are in no cache are compiled ahead of their first call, by as many processes as there are cores.

    compile_ahead(("classes ncp", "merging"), told) -> how many units were compiled

Each process takes one unit of the list (``units``) at a time, in an order in which what a kernel calls is ready before
it, and the longest way to the end goes first. What they compile goes to numba's cache on disk, where the process that
waits finds it. Processes, not threads: numba compiles under one lock.

Of several processes on a machine that want the same, one compiles and the others wait for it. Whatever goes wrong, a
kernel that is missing in the end is compiled where it is called.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from numba.core.registry import cpu_target

from kanonflow.solvers.kernels.kernel_cache import KernelCache, locked
from kanonflow.solvers.kernels.units import Units, kernel_named, known_units, read_type

Told = Callable[[int, int, float], None]
"""Called with the units that are ready, how many there are, and the share of the work that is done."""

# Below it, starting processes takes longer than they save.
_FEWEST = 2


def missing_units(names: Iterable[str], units: Units | None = None) -> list[int]:
    """Units of some sets that Python calls and that have machine code nowhere; their places in the list. Some 10 ms."""
    units = known_units() if units is None else units
    entries = {place for name in names for place in units.sets.get(name, ())}
    return [place for place in sorted(entries) if not _held(units, place)]


def _held(units: Units, place: int) -> bool:
    """Whether a unit is in a cache, or cannot be made: then it is none that anybody waits for."""
    unit = units.units[place]
    try:
        made: Any = kernel_named(unit.kernel)
        arguments = tuple(map(read_type, unit.arguments))
    except (ImportError, AttributeError, ValueError):
        return True
    cache = getattr(made, "_cache", None)
    if not isinstance(cache, KernelCache):
        return True
    return arguments in made.overloads or cache.holds(arguments, cpu_target.target_context)


def compile_ahead(
    names: Sequence[str],
    told: Told | None = None,
    *,
    processes: int | None = None,
    units: Units | None = None,
) -> int:
    """Compile what is missing of some sets of kernels (``warm_up.KERNEL_SETS``); returns how many units it was.

    told: hears of each unit. processes: None for one a core.
    """
    units = known_units() if units is None else units
    if not (entries := missing_units(names, units)):
        return 0
    folder = kernel_named(units.units[entries[0]].kernel)._cache.cache_path
    if folder is None:
        # Nowhere to put it for others to find.
        return 0
    with locked(Path(folder) / ".compiling"):
        # Another process may have done it meanwhile.
        if not (entries := missing_units(names, units)):
            return 0
        wanted = [place for place in _below(units, entries) if not _held(units, place)]
        workers = min(processes or len(os.sched_getaffinity(0)), len(wanted))
        if len(wanted) < _FEWEST:
            return 0
        return _Schedule(units, wanted, told).run(workers)


def _below(units: Units, entries: Iterable[int]) -> list[int]:
    found: set[int] = set()
    waiting = list(entries)
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += units.units[place].needs
    return sorted(found)


class _Schedule:
    """Who compiles what next. Threads share it, one for each process; ``_change`` guards all of it."""

    def __init__(self, units: Units, wanted: Sequence[int], told: Told | None) -> None:
        self._units = units.units
        self._told = told
        self._count = len(wanted)
        self._change = threading.Condition()
        self._waiting = set(wanted)
        self._busy: set[str] = set()
        self._ready = 0
        self._left = self._work = sum(self._cost(place) for place in wanted)
        # The seconds from a unit's begin to the end of the last that rests on it. Needs stand before who needs them.
        self._ahead = {place: self._cost(place) for place in wanted}
        for place in sorted(wanted, reverse=True):
            for need in self._units[place].needs:
                if need in self._ahead:
                    longer = self._cost(need) + self._ahead[place]
                    self._ahead[need] = max(self._ahead[need], longer)
        self._unfinished = set(wanted)

    def _cost(self, place: int) -> float:
        # What loading the needs and saving takes.
        return self._units[place].seconds + 0.05

    def run(self, workers: int) -> int:
        threads = [threading.Thread(target=self._work_through, daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self._ready

    def _next(self) -> int | None:
        """The next unit to compile; waits while others compile what is needed for it. None: there is no more."""
        with self._change:
            while self._waiting:
                able = [
                    place
                    for place in self._waiting
                    # Two processes that write one index at once undo each other's.
                    if self._units[place].kernel not in self._busy
                    and self._unfinished.isdisjoint(self._units[place].needs)
                ]
                if able:
                    place = max(able, key=lambda place: (self._ahead[place], -place))
                    self._waiting.remove(place)
                    self._busy.add(self._units[place].kernel)
                    return place
                self._change.wait()
            return None

    def _done(self, place: int, made: bool) -> None:
        with self._change:
            self._busy.discard(self._units[place].kernel)
            self._unfinished.discard(place)
            self._ready += made
            self._left -= self._cost(place)
            if self._told is not None:
                share = 1.0 - self._left / self._work
                self._told(self._count - len(self._unfinished), self._count, min(max(share, 0.0), 1.0))
            self._change.notify_all()

    def _work_through(self) -> None:
        """A thread's life: hand one unit after the other to a process. When that ends, the others take over."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "kanonflow.solvers.kernels.compile_units"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except OSError:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with process, process.stdin as order, process.stdout as answers:
            while (place := self._next()) is not None:
                made = False
                try:
                    order.write(f"{place}\n")
                    order.flush()
                    made = answers.readline().strip() == "made"
                except OSError:
                    pass
                self._done(place, made)
                if process.poll() is not None:
                    return
