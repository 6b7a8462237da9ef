"""Which items of a cohort may go out, so that whoever knows some of them is left with enough people (``against``).

An *item* is what can be known of rows that are out: a window in which a person has rows, or a row by its window and
published fields. A set of people of a cohort is one number, a bit a member. Of all items that are out

    |s1 & s2 & ... |  is 0, or at least ``least``

for all sets of up to ``windows`` windows and ``purchases`` purchases. An item that would break that does not go out,
for good. What is decided follows from how many people sets share, so exchanging all rows of two people of a cohort
decides nothing otherwise; nothing is merged or held because of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.transforms.files.state_parts import Content, UnreadParts

VERSION = 1
MOST_MEETS = 20_000
"""Different intersections of a cohort's items at most: once there are more, only sets go out that are out already.
What is compared with each item is bounded by that, and what is kept by the items that made them."""


class Known(NamedTuple):
    """What a reader knows: up to so many windows and purchases at once. least: how many must be left. of: fields of
    purchases."""

    windows: int
    purchases: int
    least: int
    of: tuple[str, ...] = ()


class CohortItems:
    """The items of one cohort that are out. windows, purchases: sets of people, each once."""

    def __init__(self, reader: Known, windows: Iterable[int] = (), purchases: Iterable[int] = ()) -> None:
        self._reader = reader
        self.windows: set[int] = set()
        self.purchases: set[int] = set()
        # Meetings of up to a windows and b purchases. -1, everybody, is what no item leaves.
        reach = [(a, b) for a in range(reader.windows + 1) for b in range(reader.purchases + 1)]
        self._meets: dict[tuple[int, int], set[int]] = {each: {-1} for each in reach}
        for people in sorted(windows):
            self._add_window(people)
        for people in sorted(purchases):
            self._add_purchase(people)

    def window(self, items: Sequence[int], again: Sequence[bool]) -> list[bool]:
        """Which rows of a window go out. items: people of each of its purchases, in their order; where no purchases are
        known, of the window alone. again: whether each is one more of the purchase before it, by those who have
        several; it goes only with that, or who has three would show two where others show one.

        Time: items x intersections. What goes out counts from then on.
        """
        reader, out = self._reader, 0
        goes: list[bool] = []
        for people, more in zip(items, again, strict=True):
            fits = not more or goes[-1]
            fits = fits and self._fits(people, reader.windows, reader.purchases - 1)
            fits = fits and self._fits(out | people, reader.windows - 1, reader.purchases)
            if fits and self._full():
                fits = (not reader.purchases or people in self.purchases) and (
                    not reader.windows or out | people in self.windows
                )
            goes.append(fits)
            if fits:
                out |= people
                self._add_purchase(people)
        if out:
            self._add_window(out)
        return goes

    def _fits(self, people: int, windows: int, purchases: int) -> bool:
        """With whatever else is known. Below 0: nothing is known with it."""
        if windows < 0 or purchases < 0:
            return True
        shared = (people & meet for meet in self._meets[windows, purchases])
        return all(own == 0 or own.bit_count() >= self._reader.least for own in shared)

    def _full(self) -> bool:
        return max(map(len, self._meets.values())) > MOST_MEETS

    def _add_window(self, people: int) -> None:
        if not self._reader.windows or people in self.windows:
            return
        self.windows.add(people)
        for (a, b), meets in sorted(self._meets.items(), reverse=True):
            if a:
                meets |= {people & meet for meet in self._meets[a - 1, b]} - {0}

    def _add_purchase(self, people: int) -> None:
        if not self._reader.purchases or people in self.purchases:
            return
        self.purchases.add(people)
        for (a, b), meets in sorted(self._meets.items(), reverse=True):
            if b:
                meets |= {people & meet for meet in self._meets[a, b - 1]} - {0}


class Dropped(NamedTuple):
    """Items that were dropped, for they never go out. cohort: int64 (n,). item: uint64 (n,), a keyed digest of each."""

    cohort: NDArray[np.int64]
    item: NDArray[np.uint64]


def _nothing_dropped() -> Dropped:
    return Dropped(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64))


@dataclass(frozen=True)
class ItemsOut:
    """What a partition keeps of items. windows, purchases: of each cohort that has some, different sets of people."""

    reader: Known
    windows: dict[int, frozenset[int]] = field(default_factory=dict)
    purchases: dict[int, frozenset[int]] = field(default_factory=dict)
    dropped: Dropped = field(default_factory=_nothing_dropped)

    def of(self, cohort: int) -> CohortItems:
        """Those of a cohort, to go on from."""
        return CohortItems(self.reader, self.windows.get(cohort, ()), self.purchases.get(cohort, ()))

    def followed_by(self, cohorts: dict[int, CohortItems], dropped: Dropped) -> ItemsOut:
        """With the cohorts as they are now, and what was dropped besides."""
        return ItemsOut(
            self.reader,
            self.windows | {number: frozenset(each.windows) for number, each in cohorts.items()},
            self.purchases | {number: frozenset(each.purchases) for number, each in cohorts.items()},
            Dropped(*(np.concatenate(both) for both in zip(self.dropped, dropped, strict=True))),
        )

    def numbered(self, number: NDArray[np.int64]) -> ItemsOut:
        """Those of some cohorts, under other numbers. number: int64 (c,), of each cohort; -1: it is left out."""

        def some(sets: dict[int, frozenset[int]]) -> dict[int, frozenset[int]]:
            return {int(number[cohort]): own for cohort, own in sets.items() if number[cohort] >= 0}

        own = number[self.dropped.cohort]
        dropped = Dropped(own[own >= 0], self.dropped.item[own >= 0])
        return ItemsOut(self.reader, some(self.windows), some(self.purchases), dropped)

    def content(self) -> Content:
        """As parts of a state. Inverse of ``read_items``."""
        meta: dict[str, Any] = {"known": list(self.reader), "version": VERSION}
        parts = {
            "dropped_cohort": self.dropped.cohort.astype("<i8").tobytes(),
            "dropped_item": self.dropped.item.astype("<u8").tobytes(),
        }
        for name, sets in (("windows", self.windows), ("purchases", self.purchases)):
            content = sets_content(name, sets)
            meta, parts = meta | content.meta, parts | content.parts
        return Content({"items": meta}, parts)


def read_items(parts: UnreadParts, meta: dict[str, Any]) -> ItemsOut:
    """The inverse of ``ItemsOut.content``. Raises ValueError, KeyError or TypeError: the parts are none."""
    if meta["version"] != VERSION:
        raise ValueError("the items are of another version")
    dropped = Dropped(parts.array("dropped_cohort", "<i8"), parts.array("dropped_item", "<u8"))
    if dropped.cohort.size != dropped.item.size:
        raise ValueError("what was dropped has not a cohort each")
    windows, purchases, least, of = meta["known"]
    reader = Known(windows, purchases, least, tuple(of))
    return ItemsOut(reader, read_sets(parts, meta, "windows"), read_sets(parts, meta, "purchases"), dropped)


def sets_content(name: str, sets: Mapping[int, frozenset[int]]) -> Content:
    """Sets of people by cohort as parts of a state. Inverse of ``read_sets``."""
    listed = [(cohort, people) for cohort, own in sorted(sets.items()) for people in sorted(own)]
    width = max(((people.bit_length() + 7) // 8 for _, people in listed), default=1)
    parts = {
        f"{name}_cohort": np.array([cohort for cohort, _ in listed], dtype="<i8").tobytes(),
        f"{name}_people": b"".join(people.to_bytes(width, "little") for _, people in listed),
    }
    return Content({name: width}, parts)


def read_sets(parts: UnreadParts, meta: dict[str, Any], name: str) -> dict[int, frozenset[int]]:
    """The inverse of ``sets_content``. Raises ValueError or KeyError: the parts are none."""
    cohorts, data, width = parts.array(f"{name}_cohort", "<i8"), parts.take(f"{name}_people"), meta[name]
    if len(data) != width * cohorts.size:
        raise ValueError("the items have not a set each")
    own: dict[int, set[int]] = {}
    for place, cohort in enumerate(cohorts.tolist()):
        own.setdefault(cohort, set()).add(int.from_bytes(data[place * width : (place + 1) * width], "little"))
    return {cohort: frozenset(each) for cohort, each in own.items()}
