"""The rule of known items: its twin looks at all sets of what is out, with each item, and so do its properties."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanonflow.transforms.files.state_parts import UnreadParts
from kanonflow.transforms.roster import items_out
from kanonflow.transforms.roster.items_out import CohortItems, Dropped, ItemsOut, Known, read_items

PEOPLE = 6
Feed = list[list[int]]
"""Of each window, in their order, the people of each item."""


def holds(known: Known, windows: Sequence[int], purchases: Sequence[int]) -> bool:
    """Whether all sets of so many windows and purchases leave nobody, or enough."""
    for many, few in itertools.product(range(known.windows + 1), range(known.purchases + 1)):
        for chosen in itertools.combinations(windows, many):
            for bought in itertools.combinations(purchases, few):
                left = (1 << PEOPLE) - 1
                for people in (*chosen, *bought):
                    left &= people
                if many + few and left and left.bit_count() < known.least:
                    return False
    return True


def slowly(known: Known, feed: Feed) -> list[list[bool]]:
    """What goes out, by trying each item with all that is out."""
    windows: list[int] = []
    purchases: list[int] = []
    decided = []
    for items in feed:
        out, goes = 0, []
        for people in items:
            bought = [*purchases, people] if known.purchases else []
            fits = holds(known, [*windows, out | people], bought)
            goes.append(fits)
            if fits:
                out, purchases = out | people, bought
        windows += [out] if out else []
        decided.append(goes)
    return decided


def fast(known: Known, feed: Feed) -> list[list[bool]]:
    """The same by the rule, each window from a state that was written and read."""
    state, decided = ItemsOut(known), []
    for items in feed:
        own = state.of(3)
        decided.append(own.window(items, [False] * len(items)))
        state = again(state.followed_by({3: own}, Dropped(*(np.empty(0, kind) for kind in ("i8", "u8")))))
    return decided


def again(state: ItemsOut) -> ItemsOut:
    """As it is read from its parts."""
    content = state.content()
    parts = UnreadParts(1, content.meta, {name: memoryview(data) for name, data in content.parts.items()})
    read = read_items(parts, content.meta["items"])
    parts.end()
    return read


sets = st.integers(1, 2**PEOPLE - 1)
knowns = st.builds(Known, st.integers(0, 3), st.integers(0, 2), st.integers(2, 4)).filter(
    lambda known: known.windows + known.purchases
)


@given(knowns, st.lists(st.lists(sets, min_size=1, max_size=3), max_size=6))
def test_decisions_are_those_of_the_slow_twin(known: Known, feed: Feed) -> None:
    """And what is out then keeps the promise, for every set of what may be known."""
    if not known.purchases:
        feed = [items[:1] for items in feed]
    decided = fast(known, feed)
    assert decided == slowly(known, feed)
    out = [
        [people for people, goes in zip(*each, strict=True) if goes]
        for each in zip(feed, decided, strict=True)
    ]
    windows = [int(np.bitwise_or.reduce(items)) for items in out if items]
    assert holds(known, windows, [people for items in out for people in items] if known.purchases else [])


@given(knowns, st.lists(st.lists(sets, min_size=1, max_size=2), max_size=5), st.permutations(range(PEOPLE)))
def test_decisions_hang_on_no_persons_place(known: Known, feed: Feed, places: list[int]) -> None:
    """Exchanging all rows of people of a cohort decides nothing otherwise."""
    moved = [
        [sum(1 << places[at] for at in range(PEOPLE) if people >> at & 1) for people in items]
        for items in feed
    ]
    assert fast(known, moved) == fast(known, feed)


def test_where_intersections_are_many_only_what_is_out_goes_out_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So state and time are bounded; no new intersection comes to be."""
    monkeypatch.setattr(items_out, "MOST_MEETS", 2)
    items = CohortItems(Known(2, 0, 2))
    assert items.window([0b001111], [False]) == [True]
    assert items.window([0b111111], [False]) == [True]
    assert items.window([0b110011], [False]) == [False]
    assert items.window([0b001111], [False]) == [True]
    monkeypatch.setattr(items_out, "MOST_MEETS", 100)
    assert items.window([0b110011], [False]) == [True]


def test_one_more_of_a_purchase_goes_only_with_the_one_before() -> None:
    """Or of those who have several some would show more than others."""
    items = CohortItems(Known(0, 2, 2), purchases=[0b011111])
    assert items.window([0b100001, 0b000011], [False, True]) == [False, False]
    assert items.window([0b100001, 0b000011], [False, False]) == [False, True]


def test_cohorts_take_their_items_along_under_other_numbers() -> None:
    """As where a shard is split; those of cohorts that went elsewhere are left out."""
    known = Known(1, 1, 2, ("amount",))
    state = ItemsOut(
        known,
        {0: frozenset({3}), 2: frozenset({7, 12})},
        {2: frozenset({3})},
        Dropped(np.array([0, 2]), np.array([5, 6], dtype=np.uint64)),
    )
    part = again(state).numbered(np.array([-1, -1, 0]))
    assert (part.reader, part.windows, part.purchases) == (
        known,
        {0: frozenset({7, 12})},
        {0: frozenset({3})},
    )
    assert [each.tolist() for each in part.dropped] == [[0], [6]]
