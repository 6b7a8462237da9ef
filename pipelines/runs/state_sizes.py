"""What Beam's cache of state takes to weigh a value: the value, and not every module that is loaded.

The cache weighs whatever it keeps. Before each value it lists the globals of all modules, thousands of objects, so as
not to count them: 1 ms, eight times a firing, half of what a small partition's window costs. What we keep in state are
bytes, which refer to nothing. Beam has no option for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import objsize  # type: ignore[import-untyped]
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
