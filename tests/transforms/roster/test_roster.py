"""The roster: a chain of segments, read back, and refused where it is broken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kanonflow.transforms.files.state_versions import StateError
from kanonflow.transforms.roster.corners import COHORT, corners
from kanonflow.transforms.roster.roster import (
    Roster,
    RosterHead,
    Segment,
    empty_roster,
    roster_of,
    segment_from_bytes,
)
from tests.mixed_people import mixed_bound, mixed_values


def segment(head: RosterHead, people: np.ndarray, size: int, seed: int) -> Segment:
    """People in cohorts of that size, by chance."""
    bound, rng = mixed_bound(), np.random.default_rng(seed)
    labels = rng.permutation(np.arange(people.size) // size)
    boxes = corners(mixed_values(people.size, rng), labels, bound)
    numbered = pa.array(np.asarray(boxes.column(COHORT)) + head.cohorts)
    return Segment(head, np.sort(people), labels + head.cohorts, boxes.set_column(0, COHORT, numbered))


def grown(parts: int = 3, seed: int = 1) -> tuple[Roster, list[Segment]]:
    """A roster of some segments of twelve people each."""
    people = np.random.default_rng(seed).permutation(np.arange(1, 1 + 12 * parts)).astype(np.uint64)
    roster, segments = empty_roster(77), []
    for part in np.array_split(people, parts):
        segments.append(segment(roster.head, part, 4, seed))
        roster = roster.followed_by(segments[-1])
    return roster, segments


def same(one: Roster, other: Roster) -> bool:
    """Whether two rosters are equal in everything."""
    arrays = ("people", "cohort", "members", "generation", "starts")
    assert one.corners is not None
    assert other.corners is not None
    return (
        one.head == other.head
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
        and one.corners.equals(other.corners)
    )


def test_segments_in_bytes_and_in_any_order_are_the_roster() -> None:
    """What a bag gives back has no order, and may hold segments of later rosters."""
    roster, segments = grown()
    data = [each.to_bytes() for each in segments]
    assert segment_from_bytes(data[1]).after == segments[1].after
    assert same(roster_of(roster.head, data[::-1]), roster)
    assert roster_of(segments[1].head, data).head == segments[1].head


@pytest.mark.parametrize("parts", [1, 2, 9])
def test_all_segments_at_once_hold_what_each_of_them_says(parts: int) -> None:
    """Beside the obvious twin, a dictionary: the cohort of everybody, its members, its segment, its box."""
    roster, segments = grown(parts)
    at_once = roster_of(roster.head, [each.to_bytes() for each in segments])
    of = {int(who): int(c) for each in segments for who, c in zip(each.people, each.cohort, strict=True)}
    assert at_once.people.tolist() == sorted(of)
    assert at_once.cohort.tolist() == [of[who] for who in sorted(of)]
    assert at_once.members.tolist() == [list(of.values()).count(c) for c in range(3 * parts)]
    for number, each in enumerate(segments):
        for c in np.unique(each.cohort):
            assert at_once.generation[c] == number
            own = each.corners.filter(pa.array(np.asarray(each.corners.column(COHORT)) == c))
            assert at_once.boxes(np.array([c]))[0].equals(own.combine_chunks())


def test_a_roster_finds_people_and_boxes() -> None:
    """Everybody in the cohort that was given; nobody else; the corners of some cohorts in their order."""
    roster, segments = grown()
    for each in segments:
        assert np.array_equal(roster.cohorts_of(each.people), each.cohort)
    assert roster.cohorts_of(np.array([0, 999], dtype=np.uint64)).tolist() == [-1, -1]
    assert roster.members.tolist() == [4] * 9
    assert roster.generation.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    chosen = np.array([1, 4, 8])
    table, owner = roster.boxes(chosen)
    assert np.array_equal(np.asarray(table.column(COHORT)), chosen[owner])
    assert roster.corners is not None
    assert table.num_rows == int(np.isin(np.asarray(roster.corners.column(COHORT)), chosen).sum())


def test_the_chain_tells_rosters_apart() -> None:
    """Another person, cohort, box or epoch is another digest, and so is everything that follows."""
    _, (first, *_) = grown()
    moved = first.cohort.copy()
    moved[[0, 1]] = moved[[1, 0]]
    if np.array_equal(moved, first.cohort):
        moved = first.cohort[::-1]
    assert first.corners is not None
    changes = [
        replace(first, people=first.people + np.uint64(100)),
        replace(first, cohort=moved),
        replace(first, corners=first.corners.take(pa.array(np.arange(first.corners.num_rows)[::-1]))),
        replace(first, head=first.head._replace(epoch=78)),
    ]
    assert len({first.after.chain, *(each.after.chain for each in changes)}) == 5


def test_what_does_not_follow_is_refused() -> None:
    """A segment of another roster, somebody twice, a segment that is missing, damaged bytes."""
    roster, segments = grown()
    with pytest.raises(StateError, match="does not follow"):
        empty_roster(77).followed_by(segments[1])
    again = Segment(roster.head, segments[0].people, segments[0].cohort + 9, segments[0].corners)
    with pytest.raises(StateError, match="known already"):
        roster.followed_by(again)
    twice = replace(segments[0], people=np.repeat(segments[0].people[::2], 2))
    with pytest.raises(StateError, match="known already"):
        empty_roster(77).followed_by(twice)
    with pytest.raises(StateError, match="nobody"):
        roster.followed_by(replace(again, people=again.people[:0], cohort=again.cohort[:0]))
    with pytest.raises(StateError):
        roster_of(roster.head, [segments[0].to_bytes(), segments[2].to_bytes()])
    with pytest.raises(StateError, match="not all are there"):
        roster_of(roster.head, [each.to_bytes() for each in segments[:2]])
    with pytest.raises(StateError):
        segment_from_bytes(segments[0].to_bytes()[:-3])
