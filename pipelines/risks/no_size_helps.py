"""Whom does no size of cohorts help against a reader who knows some windows or rows of a person?

A cohort is of people of one partition. So where fewer than k and the known people of the whole partition have rows in
all windows that are known of somebody, any cohort leaves fewer than k: that person is alone with what it does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kanonflow.pipelines.dry_run.feed import Feed
from kanonflow.schemas.bound_policy import BoundPolicy
from kanonflow.schemas.readers import KnownPurchases, KnownWindows, Reader
from kanonflow.transforms.columns.sort_keys import dense_ranks
from kanonflow.transforms.release.candidates_left import purchase_keys
from kanonflow.transforms.roster.items_out import Known
from kanonflow.transforms.roster.known_left import CohortLeft, Items

Numbers = NDArray[np.int64]
MOST_PEOPLE, MOST_TRIED = 5_000, 500_000
"""Of a partition with more people only windows and rows one by one are tried; of others so many sets of windows."""
_WITHOUT_CLAUSE = (1, 3)


class NoSize(NamedTuple):
    """people, rows: of whom there is something to know that leaves fewer than k in cohorts of any size, and their rows.
    at_least: not all was tried. least: of how many people each item must be. of_people, of_rows: of the feed."""

    reader: Reader
    people: int
    rows: int
    at_least: bool
    least: int
    of_people: int
    of_rows: int

    @property
    def words(self) -> str:
        """In a line."""
        least = "at least " if self.at_least else ""
        return (
            f"whom no cohort_size helps against {self.reader.name}: {least}{self.people:,} of {self.of_people:,} people"
            f" ({self.people / max(self.of_people, 1):.1%}), with {self.rows / max(self.of_rows, 1):.1%} of the rows;"
            f" fewer than {self.least} people of their whole partition share that with them"
        )


def no_size_helps(feed: Feed, bound: BoundPolicy) -> tuple[NoSize, ...]:
    """For the reader of ``against``, and where the policy has none, for who knows one window, and three.

    Time: near linear in the rows, and of each partition what ``CohortLeft`` tries.
    """
    against = bound.policy.against
    if against is None or (against.known_windows is None and against.known_purchases is None):
        return tuple(_of(Reader(KnownWindows(count)), feed, bound.policy.k) for count in _WITHOUT_CLAUSE)
    return (_of(against.active, feed, against.left(bound.policy.k)),)


def _of(reader: Reader, feed: Feed, least: int) -> NoSize:
    few = np.zeros(feed.home.size, dtype=np.bool_)
    windows, purchases, at_least = reader.known_windows.present, reader.known_purchases, False
    place = dense_ranks([feed.home[feed.member], feed.window])
    if windows:
        few |= _alone(place, feed.member, least, few.size)
        for partition in np.unique(feed.home).tolist() if windows > 1 else ():
            own, tried = _together(feed, partition, Known(windows, 0, least))
            few[own] = True
            at_least |= not tried
    if purchases is not None:
        few |= _alone(_bought(feed, place, purchases), feed.member, least, few.size)
        at_least |= purchases.count > 1 or windows > 0
    lost = int(few.sum()), int(few[feed.member].sum())
    return NoSize(reader, *lost, at_least, least, few.size, feed.member.size)


def _alone(item: Numbers, member: Numbers, least: int, members: int) -> NDArray[np.bool_]:
    """Who has an item that fewer than ``least`` people have, bool (members,). item: of each row, from 0."""
    pairs = np.unique(item * members + member)
    shared = np.bincount(pairs // members)[pairs // members]
    few = np.zeros(members, dtype=np.bool_)
    few[pairs[shared < least] % members] = True
    return few


def _bought(feed: Feed, place: Numbers, purchases: KnownPurchases) -> Numbers:
    return dense_ranks([place, *purchase_keys(purchases, feed.rows)])


def _together(feed: Feed, partition: int, reader: Known) -> tuple[Numbers, bool]:
    """Members of a partition who have such windows together, and whether all were tried."""
    members = np.flatnonzero(feed.home == partition)
    if members.size > MOST_PEOPLE:
        return members[:0], False
    mine = np.flatnonzero(feed.home[feed.member] == partition)
    windows, who = feed.window[mine], np.searchsorted(members, feed.member[mine])
    sets = set()
    for window in np.unique(windows).tolist():
        here = np.zeros(members.size, dtype=np.bool_)
        here[who[windows == window]] = True
        sets.add(int.from_bytes(np.packbits(here, bitorder="little").tobytes(), "little"))
    left = CohortLeft().followed_by(Items(frozenset(sets)), reader, MOST_TRIED)
    data = left.few.to_bytes((members.size + 7) // 8, "little")
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")[: members.size]
    return members[bits != 0], left.all_tried
