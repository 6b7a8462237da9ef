"""Watches calls of a module's functions while a benchmark runs: what came in, what came out, what it took.

The benchmarks measure the product's own functions, not copies of them. ``watch(module, names)`` replaces the names in
the namespace of the module that calls them, for the length of a ``with`` block.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any


@dataclass(eq=False)
class Call:
    """One call. name: ``module.function``.

    inner_*: seconds that watched calls inside of it took; own time is the difference.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any = None
    wall: float = 0.0
    cpu: float = 0.0
    inner_wall: float = 0.0
    inner_cpu: float = 0.0


@dataclass
class CallLog:
    """Calls in the order in which they ended. Only calls of the thread that made the log are watched."""

    calls: list[Call] = field(default_factory=list)
    _open: list[Call] = field(default_factory=list)
    _thread: int = field(default_factory=threading.get_ident)

    def of(self, function: str) -> list[Call]:
        """The calls of a function, by its name without the module, in the order in which they ended."""
        return [call for call in self.calls if call.name.rsplit(".", 1)[-1] == function]

    def own_seconds(self) -> dict[str, tuple[float, float]]:
        """(wall, CPU) seconds of each function without the watched functions inside of it."""
        total: dict[str, tuple[float, float]] = {}
        for call in self.calls:
            wall, cpu = total.get(call.name, (0.0, 0.0))
            total[call.name] = (wall + call.wall - call.inner_wall, cpu + call.cpu - call.inner_cpu)
        return total


@contextlib.contextmanager
def watch(*watched: tuple[ModuleType, Sequence[str]], log: CallLog | None = None) -> Iterator[CallLog]:
    """Log the calls of functions by the names under which modules hold them.

    Raises AttributeError for a name that a module does not hold: the benchmark then measures something else than it
    says.
    """
    log = CallLog() if log is None else log
    with contextlib.ExitStack() as stack:
        for module, names in watched:
            for name in names:
                original = getattr(module, name)
                setattr(module, name, _logging(f"{module.__name__}.{name}", original, log))
                stack.callback(setattr, module, name, original)
        yield log


def _logging(name: str, original: Any, log: CallLog) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != log._thread:
            return original(*args, **kwargs)
        record = Call(name, args, kwargs)
        log._open.append(record)
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            record.result = original(*args, **kwargs)
        finally:
            record.wall = time.perf_counter() - wall
            record.cpu = time.process_time() - cpu
            log._open.pop()
            log.calls.append(record)
            if log._open:
                log._open[-1].inner_wall += record.wall
                log._open[-1].inner_cpu += record.cpu
        return record.result

    return call
