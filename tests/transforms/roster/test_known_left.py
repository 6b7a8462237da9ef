"""Whom known items leave with too few: the twin looks at all sets of what somebody has, whatever went out before."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanonflow.transforms.files.state_parts import UnreadParts
from kanonflow.transforms.roster import known_left
from kanonflow.transforms.roster.items_out import Known
from kanonflow.transforms.roster.known_left import CohortLeft, Items, KnownLeft, LeftCount, read_left

PEOPLE = 5
Feed = list[tuple[frozenset[int], frozenset[int]]]
"""Of each release, the sets of people of the windows and purchases that went out."""


def slowly(known: Known, feed: Feed) -> LeftCount:
    """By each person, and all that may be known of it."""
    windows = [people for own, _ in feed for people in own]
    purchases = [people for _, own in feed for people in own]
    below = seen = 0
    for person in range(PEOPLE):
        own = [[people for people in sets if people >> person & 1] for sets in (windows, purchases)]
        left = min(map(int.bit_count, all_known(known, *own)), default=PEOPLE)
        below += left < known.least
        seen += any(own)
    return LeftCount(below, seen, False)


def all_known(known: Known, windows: list[int], purchases: list[int]) -> Iterator[int]:
    """Who else has each set of items that may be known of who has all of these."""
    for many, few in itertools.product(range(known.windows + 1), range(known.purchases + 1)):
        for chosen in itertools.combinations(windows, many):
            for bought in itertools.combinations(purchases, few):
                if chosen or bought:
                    yield int(np.bitwise_and.reduce([*chosen, *bought]))


def fast(known: Known, feed: Feed) -> KnownLeft:
    """The same, each release from a state that was written and read."""
    left = KnownLeft(known)
    for windows, purchases in feed:
        left = again(left.followed_by({3: Items(windows, purchases)}))
    return left


def again(left: KnownLeft) -> KnownLeft:
    """As it is read from its parts."""
    content = left.content()
    parts = UnreadParts(1, content.meta, {name: memoryview(data) for name, data in content.parts.items()})
    read = read_left(parts, content.meta["left"])
    parts.end()
    assert read == left
    return read


knowns = st.builds(Known, st.integers(0, 3), st.integers(0, 2), st.integers(2, 4)).filter(
    lambda known: known.windows + known.purchases
)
sets = st.frozensets(st.integers(1, 2**PEOPLE - 1), max_size=2)


def feed_of(known: Known, feed: Feed) -> Feed:
    """Without what the reader knows nothing of."""
    return [
        (windows if known.windows else frozenset(), purchases if known.purchases else frozenset())
        for windows, purchases in feed
    ]


def exchanged(feed: Feed, places: list[int]) -> Feed:
    """With all that people have exchanged."""

    def moved(own: frozenset[int]) -> frozenset[int]:
        return frozenset(sum(1 << places[at] for at in range(PEOPLE) if people >> at & 1) for people in own)

    return [(moved(windows), moved(purchases)) for windows, purchases in feed]


@given(knowns, st.lists(st.tuples(sets, sets), max_size=5), st.permutations(range(PEOPLE)))
def test_counts_are_those_of_the_slow_twin_whoever_people_are(
    known: Known, feed: Feed, places: list[int]
) -> None:
    """And whichever of a cohort has which trail."""
    feed = feed_of(known, feed)
    left = fast(known, feed)
    assert left.count == slowly(known, feed)
    assert fast(known, exchanged(feed, places)).count == left.count


@given(knowns, st.lists(st.tuples(sets, sets), max_size=5), st.permutations(range(PEOPLE)), st.integers(0, 9))
def test_where_too_much_would_be_tried_it_is_at_least_so_many_whoever_people_are(
    known: Known, feed: Feed, places: list[int], most: int
) -> None:
    """A bound leaves out all sets of so many items, or none; what is told is no more than there is."""
    feed = feed_of(known, feed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_left, "MOST_TRIED", most)
        patch.setattr(known_left, "MOST_SETS", 2)
        bounded = fast(known, feed).count
        assert fast(known, exchanged(feed, places)).count == bounded
    right = slowly(known, feed)
    assert bounded.people == right.people
    assert bounded.below == right.below if not bounded.at_least else bounded.below <= right.below


def test_cohorts_take_their_counts_along_under_other_numbers() -> None:
    """As where a shard is split; and a count that was not begun with the epoch says so."""
    left = KnownLeft(
        Known(2, 1, 3, ("amount",)),
        {
            0: CohortLeft(Items(frozenset({3})), 3, 3),
            2: CohortLeft(Items(frozenset({7, 12}), frozenset({7})), 15, 8, all_tried=False),
        },
    )
    assert left.count == (3, 6, True)
    part = again(left).numbered(np.array([-1, -1, 0]))
    assert (part.reader, part.cohorts) == (left.reader, {0: left.cohorts[2]})
    assert not left.numbered(np.array([0, -1, -1])).count.at_least
    assert again(KnownLeft(Known(1, 0, 2), whole=False)).count == (0, 0, True)
