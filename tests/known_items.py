"""An attack: who knows some windows and rows of a person, and which rows others of its cohort have.

By trails alone: of what was released, whose it is in truth, and no code that decides what goes out.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kanonflow.transforms.rows.elements import from_ipc
from tests.swapped_feeds import Course


@dataclass
class Bundle:
    """What can be seen of a person's rows that are out: windows, and how often each window and payload."""

    windows: set[Any] = field(default_factory=set)
    purchases: Counter[Hashable] = field(default_factory=Counter)

    def shows(self, windows: tuple[Any, ...], purchases: Counter[Hashable]) -> bool:
        """Whether it fits what is known."""
        return self.windows.issuperset(windows) and all(
            self.purchases[each] >= count for each, count in purchases.items()
        )


def bundles_of(course: Course, *, by_release: bool = False) -> list[list[Bundle]]:
    """Of each cohort, the bundles of its people. by_release: it is known too with which release rows came."""
    number = {row.tag: place for place, row in enumerate(course.feed.rows)}
    bundles: dict[int, Bundle] = defaultdict(Bundle)
    for _, _, result in course.results:
        if result.release is None:
            continue
        for released in from_ipc(result.release.ipc).to_pylist():
            row = course.feed.rows[number[released["tag"]]]
            own = bundles[int(course.feed.owners[number[released["tag"]]])]
            window = (row.hour, result.release.release_id) if by_release else row.hour
            own.windows.add(window)
            own.purchases[window, released["amount"]] += 1
    return [[bundles[person] for person in cohort] for cohort in course.generations()]


def least_left(course: Course, windows: int, purchases: int) -> int:
    """The fewest bundles that fit, over everybody and all that could be known of who has rows; no cohort: 10^6."""
    return least_of(bundles_of(course), windows, purchases)


def least_of(cohorts: list[list[Bundle]], windows: int, purchases: int) -> int:
    """The same of the bundles of each cohort."""
    left = 1_000_000
    for cohort in cohorts:
        for bundle in cohort:
            for known in _all_known(bundle, windows, purchases):
                left = min(left, sum(other.shows(*known) for other in cohort))
    return left


def people_below(course: Course, windows: int, purchases: int, least: int) -> tuple[int, int]:
    """Of how many people there is something to know that leaves fewer than ``least``, and how many have rows out."""
    below = people = 0
    for cohort in bundles_of(course, by_release=True):
        for bundle in cohort:
            left = [
                sum(other.shows(*known) for other in cohort)
                for known in _all_known(bundle, windows, purchases)
            ]
            below += any(count < least for count in left)
            people += bool(left)
    return below, people


def _all_known(
    bundle: Bundle, windows: int, purchases: int
) -> Iterator[tuple[tuple[Any, ...], Counter[Any]]]:
    """As much as there is to know of it, up to so many windows and rows: who knows less has no fewer left."""
    rows = sorted(bundle.purchases.elements(), key=repr)
    for some in itertools.combinations(sorted(bundle.windows), min(windows, len(bundle.windows))):
        for bought in {*itertools.combinations(rows, min(purchases, len(rows)))}:
            if some or bought:
                yield some, Counter(bought)
