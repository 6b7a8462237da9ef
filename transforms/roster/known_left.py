"""Whom a reader is left with who knows some of a person's items, over the epoch so far: counted, and nothing more.

The measured twin of ``items_out``: of each cohort the different sets of people that an item that is out is of. A person
is left with too few where some set of up to ``windows`` windows and ``purchases`` purchases, all its own,

    0 < |s1 & s2 & ... | < ``least``

so each person counts by its worst case; ``release/candidates_left`` tells the mean over cases. It follows from how
many people sets share, so exchanging all rows of two people of a cohort changes no count. Items are added and never
taken away, so who is left with too few once is so for good: only what is new has to be tried, with all that there is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.transforms.files.state_parts import Content, UnreadParts
from kanonflow.transforms.roster.items_out import Known, read_sets, sets_content

VERSION = 1
MOST_TRIED = 200_000
"""Intersections that are tried of a cohort and release at most. Then all of so many items at once are tried, or none,
so that a count hangs on no order; and it is told as one of at least so many people."""
MOST_SETS = 5_000
"""Different sets of a cohort's windows, or purchases, at most. Later ones are tried with these, and not kept."""
_WINDOWS, _PURCHASES, _SEEN, _FEW = "left_windows", "left_purchases", "left_seen", "left_few"


class Items(NamedTuple):
    """windows, purchases: different sets of people, a bit a member."""

    windows: frozenset[int] = frozenset()
    purchases: frozenset[int] = frozenset()


class LeftCount(NamedTuple):
    """below: people left with too few, of all ``people`` with items that are out. at_least: there may be more."""

    below: int
    people: int
    at_least: bool


@dataclass(frozen=True)
class CohortLeft:
    """items: of a cohort, without sets of those who are left with too few. seen, few: people with items that are out,
    and those of them who are left with too few. all_tried: no bound was reached."""

    items: Items = field(default_factory=Items)
    seen: int = 0
    few: int = 0
    all_tried: bool = True

    def followed_by(self, new: Items, reader: Known, most: int | None = None) -> CohortLeft:
        """With what goes out. most: intersections at most; None: ``MOST_TRIED``.

        Time: that of new sets with all there are, of up to all windows and purchases known.
        """
        every = Items(*(own | more for own, more in zip(self.items, new, strict=True)))
        seen = reduce(or_, [*new.windows, *new.purchases], self.seen)
        fresh = Items(*(more - own for own, more in zip(self.items, new, strict=True)))
        few, tried = _few(reader, self.few, fresh, every, MOST_TRIED if most is None else most)
        open_sets = [frozenset(people for people in own if people & ~few) for own in every]
        over = [len(own) > MOST_SETS for own in open_sets]
        items = [old if full else own for full, old, own in zip(over, self.items, open_sets, strict=True)]
        return CohortLeft(Items(*items), seen, few, self.all_tried and tried and not any(over))


def _few(reader: Known, few: int, fresh: Items, every: Items, most: int) -> tuple[int, bool]:
    """Who is left with too few once these are out too, and whether all that can be known was tried.

    By how much is known: what a bound leaves out are all sets of so many items. Of people who are left with too few
    no further set is tried, for nothing that is known more takes them out again.
    """
    met = {(1, 0): set(fresh.windows) if reader.windows else set(), (0, 1): set(fresh.purchases)}
    if not reader.purchases:
        met.pop((0, 1))
    for size in range(1, reader.windows + reader.purchases + 1):
        for own in met.values():
            few = reduce(or_, [people for people in own if people.bit_count() < reader.least], few)
        met = {reach: {people for people in own if people & ~few} for reach, own in met.items()}
        if size == reader.windows + reader.purchases:
            break
        steps = [
            (own, (a + da, b + db), sets)
            for (a, b), own in met.items()
            for da, db, sets in ((1, 0, every.windows), (0, 1, every.purchases))
            if a + da <= reader.windows and b + db <= reader.purchases
        ]
        if sum(len(own) * len(sets) for own, _, sets in steps) > most:
            return few, False
        further: dict[tuple[int, int], set[int]] = defaultdict(set)
        for own, reach, sets in steps:
            # What a set leaves as it was is met again by those that do not.
            further[reach] |= {people & other for people in own for other in sets} - own - {0}
        met = further
    return few, True


@dataclass(frozen=True)
class KnownLeft:
    """What a partition keeps of it. whole: all is counted that went out since the first person entered."""

    reader: Known
    cohorts: Mapping[int, CohortLeft] = field(default_factory=dict)
    whole: bool = True

    def followed_by(self, items: Mapping[int, Items]) -> KnownLeft:
        """With the items of a release, by cohort."""
        after = {
            cohort: self.cohorts.get(cohort, CohortLeft()).followed_by(new, self.reader)
            for cohort, new in items.items()
        }
        return replace(self, cohorts={**self.cohorts, **after})

    @property
    def count(self) -> LeftCount:
        """Over all cohorts. O(cohorts)."""
        own = self.cohorts.values()
        return LeftCount(
            sum(each.few.bit_count() for each in own),
            sum(each.seen.bit_count() for each in own),
            not (self.whole and all(each.all_tried for each in own)),
        )

    def numbered(self, number: NDArray[np.int64]) -> KnownLeft:
        """That of some cohorts, under other numbers. number: int64 (c,), of each cohort; -1: it is left out."""
        own = {int(number[cohort]): each for cohort, each in self.cohorts.items() if number[cohort] >= 0}
        return replace(self, cohorts=own)

    def content(self) -> Content:
        """As parts of a state. Inverse of ``read_left``."""
        meta: dict[str, Any] = {
            "known": list(self.reader),
            "version": VERSION,
            "whole": self.whole,
            "over": sorted(number for number, each in self.cohorts.items() if not each.all_tried),
        }
        parts: dict[str, bytes] = {}
        for name, sets in (
            (_WINDOWS, {number: each.items.windows for number, each in self.cohorts.items()}),
            (_PURCHASES, {number: each.items.purchases for number, each in self.cohorts.items()}),
            (_SEEN, {number: frozenset({each.seen}) for number, each in self.cohorts.items()}),
            (_FEW, {number: frozenset({each.few} - {0}) for number, each in self.cohorts.items()}),
        ):
            content = sets_content(name, sets)
            meta, parts = meta | content.meta, parts | content.parts
        return Content({"left": meta}, parts)


def read_left(parts: UnreadParts, meta: dict[str, Any]) -> KnownLeft:
    """The inverse of ``KnownLeft.content``. Raises ValueError, KeyError or TypeError: the parts are none."""
    if meta["version"] != VERSION:
        raise ValueError("what is counted of items is of another version")
    windows, purchases, least, of = meta["known"]
    own = {name: read_sets(parts, meta, name) for name in (_WINDOWS, _PURCHASES, _SEEN, _FEW)}
    over, nothing = set(meta["over"]), frozenset[int]()
    cohorts = {
        cohort: CohortLeft(
            Items(own[_WINDOWS].get(cohort, nothing), own[_PURCHASES].get(cohort, nothing)),
            max(seen),
            max(own[_FEW].get(cohort, nothing), default=0),
            cohort not in over,
        )
        for cohort, seen in own[_SEEN].items()
    }
    return KnownLeft(Known(windows, purchases, least, tuple(of)), cohorts, bool(meta["whole"]))
