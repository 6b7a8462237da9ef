"""Wall and CPU time side by side: on a shared machine the second is the one to trust."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Spent(NamedTuple):
    """Seconds of wall clock, and of CPU over all threads of a process (user and system)."""

    wall: float
    cpu: float


def timed(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> tuple[T, Spent]:
    """What ``work(*given, **named)`` returns, and what it took in this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work(*given, **named)
    return result, Spent(time.perf_counter() - wall, time.process_time() - cpu)


def timed_child(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> tuple[T, Spent]:
    """The same for child processes that ``work`` starts and waits for; their own time is not this process's."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    result = work(*given, **named)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return result, Spent(time.perf_counter() - wall, cpu)
