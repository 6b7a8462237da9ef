"""A clock for tests of deadlines."""

from __future__ import annotations


class Ticking:
    """Goes on by a step each time it is asked."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._now = 0.0

    def __call__(self) -> float:
        self._now += self._step
        return self._now
