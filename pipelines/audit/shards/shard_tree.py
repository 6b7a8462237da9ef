"""Which shard came of which: a chain may split a shard between two runs, and from then on its parts are shards.

    covers     a release of a shard may have rows of people of its parts: they were in it then
    at         the shard that somebody was in when a run of some place was on
    top        one number for shards whose payloads cannot be told apart by their releases

Cohorts lie in the folders of the parts that they went to, also those that were founded before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

NEVER = 2**30
"""A place in a chain behind that of every run."""


@dataclass(frozen=True)
class ShardTree:
    """parent, born, gone: int64 (numbers,), of each number of a partition or shard that of what it was split from, -1:
    of nothing; the place of the first run that knew it; that of the first one that does not, ``NEVER``: there is none.
    keys: the number of each shard's key. Numbers beyond are split from nothing.
    """

    parent: np.ndarray
    born: np.ndarray
    gone: np.ndarray
    keys: Mapping[str, int] = field(default_factory=dict)

    @property
    def has_splits(self) -> bool:
        """Whether anything was split."""
        return bool((self.parent >= 0).any())

    @property
    def split_keys(self) -> frozenset[str]:
        """The keys of shards that were split."""
        return frozenset(key for key, number in self.keys.items() if self.gone[number] < NEVER)

    def covers(self, shard: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Whether each of the first is the second, or was split to it, bool (n,)."""
        covered = shard == part
        above = self._above(part)
        while (above >= 0).any():
            covered = covered | ((above >= 0) & (above == shard))
            above = self._above(above)
        return covered

    def at(self, part: np.ndarray, place: np.ndarray) -> np.ndarray:
        """What each was when the run of a place was on, int64 (n,)."""
        own = np.asarray(part, np.int64)
        while (later := self._of(self.born, own, 0) > place).any():
            own = np.where(later, self._above(own), own)
        return own

    def top(self, part: np.ndarray, there: np.ndarray) -> np.ndarray:
        """The topmost of what each was split from, or itself, that is one of some numbers; itself if none is."""
        own = np.asarray(part, np.int64)
        best, above = own, own
        while (above >= 0).any():
            best = np.where((above >= 0) & np.isin(above, there), above, best)
            above = self._above(above)
        return best

    def above(self, number: int) -> list[int]:
        """A number and all that it was split from, one after the other."""
        own = [number]
        while (number := int(self._above(np.array([number]))[0])) >= 0:
            own.append(number)
        return own

    def lives(self, number: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Whether each was a shard when the run of a place was on, bool (n,)."""
        return (self._of(self.born, number, 0) <= place) & (place < self._of(self.gone, number, NEVER))

    def _above(self, number: np.ndarray) -> np.ndarray:
        return self._of(self.parent, number, -1)

    def _of(self, values: np.ndarray, number: np.ndarray, otherwise: int) -> np.ndarray:
        inside = (number >= 0) & (number < len(values))
        if not len(values):
            return np.full(np.shape(number), otherwise, np.int64)
        return np.where(inside, values[np.where(inside, number, 0)], otherwise)


NO_SPLITS = ShardTree(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
