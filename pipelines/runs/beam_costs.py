"""What Beam does besides in this process, without what nobody asks for. It has no options for either.

State: its cache weighs whatever it keeps, and before each value it lists the globals of all modules, thousands of
objects, so as not to count them: 1 ms, eight times a firing, half of what a small partition's window costs. What we
keep in state are bytes, which refer to nothing.

Metrics: the local runner puts those of each bundle, its own of every step among them, on top of all earlier ones, one
generator around the other, and goes through the tower at the end. We ask for our own counters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import objsize  # type: ignore[import-untyped]
from apache_beam.metrics.monitoring_infos import is_user_monitoring_info
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.worker import statecache


@contextlib.contextmanager
def light_state_sizes() -> Iterator[None]:
    """Until the end, state that is cached in this process is weighed without a look at modules."""
    before = statecache.get_deep_size
    settings = objsize.ObjSizeSettings(
        get_size_func=statecache._size_func,
        get_referents_func=statecache._get_referents_func,
        filter_func=statecache._filter_func,
        exclude_modules_globals=False,
    )

    def get_deep_size(*objects: Any) -> int:
        return int(settings.get_deep_size(*objects))

    statecache.get_deep_size = get_deep_size
    try:
        yield
    finally:
        statecache.get_deep_size = before


@contextlib.contextmanager
def user_metrics_alone() -> Iterator[None]:
    """Until the end, the local runner of this process keeps of each bundle what users' steps have counted, summed up.

    A Beam that has no such function keeps all.
    """
    before: Callable[..., Iterable[Any]] | None = getattr(fn_runner, _CONSOLIDATE, None)
    if before is None:
        yield
        return

    def consolidate(metrics: Iterable[Any]) -> list[Any]:
        return list(before(filter(is_user_monitoring_info, metrics)))

    setattr(fn_runner, _CONSOLIDATE, consolidate)
    try:
        yield
    finally:
        setattr(fn_runner, _CONSOLIDATE, before)


_CONSOLIDATE = "consolidate_monitoring_infos"
