"""In which release each record went out: by hand, and against trying out every choice."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kanonflow.pipelines.audit.lasting.due_releases import Rows, Windows, due_releases

Group = tuple[int, int, int]
"""Release, start and end of its window."""
Unit = tuple[int, int, int]
"""Group, payload, rows."""
Record = tuple[int, int, int]
"""Payload, end of its own window, turn of entry."""


def _anywhere(record: np.ndarray, release: np.ndarray) -> np.ndarray:
    """Every record is of every release's shard."""
    return np.ones(len(record), bool)


def told(
    groups: list[Group],
    units: list[Unit],
    records: list[Record],
    made: list[int],
    *,
    waiting_ms: int = 2,
    closing: tuple[int, ...] = (),
    waiting: bool = False,
) -> list[tuple[int, int, bool]]:
    """Pairs of a record and a release, and whether it is sure; windows are one unit of time long."""
    columns = [np.array(column, np.int64) for column in zip(*units, strict=True)]
    release, start, end = (np.array(column, np.int64) for column in zip(*groups, strict=True))
    windows = Windows(
        release.astype(np.int32), start, end, np.array(made), np.arange(len(made)),
        np.array([place in closing for place in range(len(made))]), 1, waiting_ms,
    )  # fmt: skip
    number, own, entry = np.array(records, np.int64).reshape(-1, 3).T
    due = due_releases(Rows(*columns), windows, number, own, entry, _anywhere, waiting=waiting)
    return sorted(
        zip(due.record.tolist(), due.release.tolist(), map(bool, due.certain.tolist()), strict=True)
    )


def test_one_record_and_one_row() -> None:
    """It is there: when its window had ended, it had entered and its time was not over."""
    for end, entry, there in ((1, 0, True), (2, 0, False), (0, 0, False), (1, 1, False)):
        found = told([(0, 0, 1)], [(0, 7, 1)], [(7, end, entry)], [1])
        assert found == ([(0, 0, True)] if there else []), (end, entry)
    assert told([(0, 0, 1)], [(0, 7, 1)], [(8, 1, 0)], [1]) == []


def test_who_waited_too_long_is_in_no_release_but_a_closing_one() -> None:
    """Windows of one, waiting two: a record of time 1 may be in a release of time 3, and not of 4."""
    for made, there in ((3, True), (4, False)):
        assert bool(told([(0, 0, made)], [(0, 7, 1)], [(7, 1, 0)], [made])) == there
    assert told([(0, 0, 4)], [(0, 7, 1)], [(7, 1, 0)], [4], closing=(0,)) == [(0, 0, True)]


def test_of_a_group_no_more_windows_are_asked_than_rows_wait_for() -> None:
    """One that is wider is a fault of its own; of closing releases all."""
    assert told([(0, 0, 5)], [(0, 7, 1)], [(7, 4, 0)], [5]) == [(0, 0, True)]
    assert told([(0, 0, 5)], [(0, 7, 1)], [(7, 5, 0)], [5]) == []
    assert told([(0, 0, 5)], [(0, 7, 1)], [(7, 5, 0)], [5], closing=(0,)) == [(0, 0, True)]


def test_a_record_that_must_be_in_one_release_is_in_no_other() -> None:
    """Two releases of one payload each: who came late can only be in the second, so the other one is in the first."""
    groups, units, made = [(0, 0, 1), (1, 0, 2)], [(0, 7, 1), (1, 7, 1)], [1, 2]
    late = [(7, 1, 0), (7, 2, 0)]
    assert told(groups, units, late, made) == [(0, 0, True), (1, 1, True)]
    # By entry just so.
    assert told(groups, units, [(7, 1, 0), (7, 1, 1)], made) == [(0, 0, True), (1, 1, True)]
    # Whom nothing tells apart may be in both.
    both = told(groups, units, [(7, 1, 0), (7, 1, 0)], made)
    assert both == [(record, release, False) for record in (0, 1) for release in (0, 1)]


def test_who_can_be_in_one_release_only_is_there() -> None:
    """Three records, of which two may be in either release; but while the run goes on the third may wait, too."""
    groups, made = [(0, -1, 2), (1, 0, 3)], [2, 3]
    units, records = [(0, 7, 2), (1, 7, 1)], [(7, 0, 0), (7, 1, 0), (7, 1, 0)]
    others = [(record, release, False) for record in (1, 2) for release in (0, 1)]
    assert told(groups, units, records, made) == [(0, 0, True), *others]
    assert told(groups, units, records, made, waiting=True) == [(0, 0, False), *others]


def test_rows_that_may_wait_are_nowhere_for_sure() -> None:
    """Two records and one row: while the run goes on either may wait for its release."""
    groups, units = [(0, 0, 1)], [(0, 7, 1)]
    two: list[Record] = [(7, 1, 0), (7, 1, 0)]
    assert told(groups, units, two, [1], waiting=True) == [(0, 0, False), (1, 0, False)]
    assert told(groups, units, two[:1], [1], waiting=True) == [(0, 0, True)]


@settings(derandomize=True, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=5),
    st.lists(st.integers(0, 2), min_size=5, max_size=5),
)
def test_nothing_that_can_be_is_left_out(records: list[Record], chosen: list[int]) -> None:
    """Records go out in releases at random: of all choices with the same counts none is lost, and what is told for sure
    holds in all of them."""
    made = [1, 2, 3]

    def may(record: Record, release: int) -> bool:
        return record[1] <= made[release] <= record[1] + 2 and record[2] <= release

    went = [
        next(place for place in (*range(first, 3), *range(3)) if may(record, place))
        if any(may(record, place) for place in range(3))
        else None
        for record, first in zip(records, chosen, strict=False)
    ]
    kept = [record for record, place in zip(records, went, strict=True) if place is not None]
    places = [place for place in went if place is not None]
    if not kept:
        return
    counts: dict[tuple[int, int], int] = {}
    for record, place in zip(kept, places, strict=True):
        counts[place, record[0]] = counts.get((place, record[0]), 0) + 1
    groups = [(place, 0, made[place]) for place in range(3)]
    units = [(place, number, count) for (place, number), count in sorted(counts.items())]
    found = told(groups, units, kept, made)
    answers = []
    for choice in product(range(3), repeat=len(kept)):
        own: dict[tuple[int, int], int] = {}
        for record, place in zip(kept, choice, strict=True):
            own[place, record[0]] = own.get((place, record[0]), 0) + 1
        if own == counts and all(map(may, kept, choice)):
            answers.append(choice)
    possible = {(record, place) for choice in answers for record, place in enumerate(choice)}
    assert possible <= {(record, place) for record, place, _ in found}
    for record, place, sure in found:
        assert not sure or {choice[record] for choice in answers} == {place}
